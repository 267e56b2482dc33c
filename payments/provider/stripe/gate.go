package stripe

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	dialTimeout   = 5 * time.Second
	idleConns     = 64               // kept per host; more are closed after use
	idleFor       = 20 * time.Second // below the 60 s after which load balancers hang up
	maxAnswerHead = 64 << 10         // bytes of an answer's header
)

// errLate: sendBy has passed, and errSealed: the call is over already. Either
// way no byte of the request was written.
var (
	errLate   = errors.New("the time to send has passed")
	errSealed = errors.New("the call was given up before its first byte")
)

// A gate stands between one request and its first byte, and is open, passed or
// shut. Once shut nothing of the request can go out any more, not even by a
// goroutine of the transport that outlives the call.
type gate struct {
	by    time.Time // zero: at any time
	now   func() time.Time
	state atomic.Int32
}

const (
	gateOpen int32 = iota
	gatePassed
	gateShut
)

// check is the deadline on both clocks. A machine that slept has an honest
// wall clock and a monotonic one that stood still; one whose clock was set back
// has the reverse.
func (g *gate) check() error {
	if g.by.IsZero() {
		return nil
	}
	now := g.now()
	if !now.Before(g.by) || !now.Round(0).Before(g.by.Round(0)) {
		g.state.CompareAndSwap(gateOpen, gateShut)
		return errLate
	}
	return nil
}

// pass lets the first byte through, or says why not.
func (g *gate) pass() error {
	if err := g.check(); err != nil {
		return err
	}
	if g.state.CompareAndSwap(gateOpen, gatePassed) || g.state.Load() == gatePassed {
		return nil
	}
	return errSealed
}

// shut ends the call and reports whether it never began to write.
func (g *gate) shut() (neverSent bool) {
	g.state.CompareAndSwap(gateOpen, gateShut)
	return g.state.Load() == gateShut
}

// gatedConn asks the gate that was set last before it writes. Under TLS there
// are two: the outer one sees the request's plain bytes, and the inner one the
// first record of it, after encryption and right before the system call.
type gatedConn struct {
	net.Conn
	inner *gatedConn // nil: this one writes to the network
	gate  atomic.Pointer[gate]
}

func (c *gatedConn) set(g *gate) {
	c.gate.Store(g)
	if c.inner != nil {
		c.inner.set(g)
	}
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if g := c.gate.Swap(nil); g != nil {
		ask := g.pass
		if c.inner != nil {
			ask = g.check
		}
		if err := ask(); err != nil {
			c.gate.Store(g) // a second write of the same request is refused as well
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// newTransport speaks HTTP/1.1 over gated connections. HTTP/2 would retry a
// request by itself (REFUSED_STREAM, GOAWAY), and mixes requests on one
// connection, where a first byte is nobody's. No proxy is taken from the
// environment: it would see card tokens, or send twice by itself.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatedConn{Conn: conn}, nil
	}
	return &http.Transport{
		DialContext: dial,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialTLS(ctx, dial, network, address)
		},
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: maxAnswerHead,
		DisableCompression:     true,
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func dialTLS(ctx context.Context, dial dialFunc, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{ServerName: host, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one to tell
		return nil, err
	}
	return &gatedConn{Conn: conn, inner: raw.(*gatedConn)}, nil
}
