package integration_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between the servers and the provider. Looks (GET) pass. What
// becomes of a send (POST) is what the plan does with it.
type proxy struct {
	url    string
	target string
	over   chan struct{} // closed at the end of the test
	bytes  atomic.Int64  // that servers have written to it

	mu    sync.Mutex
	plan  func(*passage)
	sends map[string]int       // POSTs that arrived, by the provider's key
	first map[string]time.Time // when the first of them did
	under int                  // POSTs under way
}

// passage is one POST on its way to the provider.
type passage struct {
	p    *proxy
	key  string // the provider's idempotency key
	n    int    // which POST with this key it is, counted from 1
	body []byte
	w    http.ResponseWriter
	r    *http.Request
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener := listen(t)
	p := &proxy{
		url: "http://" + listener.Addr().String(), target: target, over: make(chan struct{}),
		plan: func(s *passage) { s.pass() }, sends: map[string]int{}, first: map[string]time.Time{},
	}
	server := &http.Server{Handler: p}
	go server.Serve(countingListener{listener, &p.bytes})
	t.Cleanup(func() {
		close(p.over)
		server.Close()
	})
	return p
}

// countingListener counts the bytes that arrive, whole requests or not.
type countingListener struct {
	net.Listener
	bytes *atomic.Int64
}

type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

// Accept implements net.Listener.
func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{conn, l.bytes}, nil
}

// Read implements net.Conn.
func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// does sets what becomes of the POSTs that come from now on.
func (p *proxy) does(plan func(*passage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// passes lets POSTs through again.
func (p *proxy) passes() { p.does(func(s *passage) { s.pass() }) }

// arrived is how many POSTs have come.
func (p *proxy) arrived() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := 0
	for _, n := range p.sends {
		total += n
	}
	return total
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender died in the middle
	}
	s := &passage{p: p, key: r.Header.Get("Idempotency-Key"), body: body, w: w, r: r}
	if r.Method != http.MethodPost {
		s.pass()
		return
	}
	p.mu.Lock()
	p.sends[s.key]++
	if s.n = p.sends[s.key]; s.n == 1 {
		p.first[s.key] = time.Now()
	}
	p.under++
	plan := p.plan
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.under--
		p.mu.Unlock()
	}()
	plan(s)
}

// settled waits until no POST is under way any more, late ones included.
func (p *proxy) settled(t *testing.T) {
	t.Helper()
	eventually(t, patience, "the end of what is under way to the provider", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.under == 0
	})
}

func (s *passage) pass() { s.answer(s.forward()) }

// forward gives the request to the provider, even if its sender has gone.
func (s *passage) forward() reply {
	req, err := http.NewRequestWithContext(context.WithoutCancel(s.r.Context()), s.r.Method,
		s.p.target+s.r.URL.RequestURI(), bytes.NewReader(s.body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req.Header = s.r.Header.Clone()
	got, err := roundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler) // so that the sender sees a cut connection
	}
	return got
}

func (s *passage) answer(r reply) {
	for name, values := range r.header {
		if name != "Connection" {
			s.w.Header()[name] = values
		}
	}
	s.w.WriteHeader(r.status)
	_, _ = s.w.Write(r.body) // the sender may have gone
}

// cut breaks the sender's connection with a reset.
func (s *passage) cut() {
	if hijacker, ok := s.w.(http.Hijacker); ok {
		if conn, _, err := hijacker.Hijack(); err == nil {
			reset(conn)
		}
	}
	panic(http.ErrAbortHandler)
}

// reset closes a connection the way a machine that dies does.
func reset(conn net.Conn) {
	if counted, ok := conn.(countingConn); ok {
		conn = counted.Conn
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // then Close is as good
	}
	_ = conn.Close()
}

// gate holds passages. It is made shut.
type gate struct {
	reached, opened   chan struct{}
	reaching, opening sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), opened: make(chan struct{})} }

// hold waits until the gate opens, and reports whether it did before the
// sender went away.
func (s *passage) hold(g *gate) bool {
	g.reaching.Do(func() { close(g.reached) })
	select {
	case <-g.opened:
		return true
	case <-s.r.Context().Done():
	case <-s.p.over:
	}
	return false
}

// delay waits until the gate opens, as the network may, whether or not the
// sender is still there.
func (s *passage) delay(g *gate) bool {
	g.reaching.Do(func() { close(g.reached) })
	select {
	case <-g.opened:
		return true
	case <-s.p.over:
	}
	return false
}

func (g *gate) open() { g.opening.Do(func() { close(g.opened) }) }

// wait waits until a passage stands at the gate.
func (g *gate) wait(t *testing.T) {
	t.Helper()
	eventually(t, patience, "a request to the provider", func() bool {
		select {
		case <-g.reached:
			return true
		default:
			return false
		}
	})
}
