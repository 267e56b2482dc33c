package stripe_test

import (
	"bufio"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

const (
	apiKey    = "sk_test_51SecretOfTheAccount"
	cardToken = "tok_SecretOfTheCard"
	patience  = 30 * time.Second
)

// TestMain lets this process trust the certificate that httptest serves with:
// the adapter has no switch for it, and shall not.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		server := httptest.NewUnstartedServer(nil)
		_ = server.Listener.Close()
		server.Listener = listen()
		server.StartTLS()
		defer server.Close()
		dir, err := os.MkdirTemp("", "onlyonce-stripe")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		roots := filepath.Join(dir, "roots.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		if err := errors.Join(os.WriteFile(roots, block, 0o600), os.Setenv("SSL_CERT_FILE", roots)); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// listen takes a loopback port below the ephemeral ones.
func listen() net.Listener {
	var errs error
	for range 50 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			return l
		}
		errs = errors.Join(errs, err)
	}
	panic(errs)
}

func open(t *testing.T, o stripe.Options) *stripe.Client {
	t.Helper()
	if o.Key == "" {
		o.Key = apiKey
	}
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	c, err := stripe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func usd(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "USD"} }

// intent is a dispatch of a payment, as the flow stores it.
func intent(t *testing.T, c *stripe.Client, token string, amount money.Amount) payments.Dispatch {
	t.Helper()
	return dispatch(t, c, payments.Instruction{
		Kind: payments.KindPayment, Account: "17", Resource: "pay_1", Amount: amount, Method: token, OrderID: "42",
	})
}

func dispatch(t *testing.T, c *stripe.Client, in payments.Instruction) payments.Dispatch {
	t.Helper()
	r, err := c.Prepare(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return payments.Dispatch{
		Account: in.Account, Resource: in.Resource, Kind: in.Kind, Key: "k", ProviderKey: "onlyonce_" + in.Resource,
		Request: r, Amount: in.Amount, FirstSentAt: time.Now(), Sends: 1,
	}
}

func soon() time.Time { return time.Now().Add(patience) }

// exchange is a request that reached a server, and what the server does next.
type exchange struct {
	n      int // counted from 1, over all connections
	header http.Header
	method string
	target string
	body   string
	conn   net.Conn
}

// reply answers and keeps the connection.
func (e exchange) reply(status int, body string, header ...string) bool {
	_, err := fmt.Fprintf(e.conn, "HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body),
		strings.Join(append(header, ""), "\r\n"), body)
	return err == nil
}

// wire is a server of bytes: it counts the requests that arrive whole.
type wire struct {
	url string

	mu    sync.Mutex
	seen  []exchange
	bytes int
	conns []net.Conn
}

// serve starts a wire. react says whether the connection goes on.
func serve(t *testing.T, react func(exchange) bool) *wire {
	t.Helper()
	l := listen()
	w := &wire{url: "http://" + l.Addr().String()}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.conns = append(w.conns, conn)
			w.mu.Unlock()
			conns.Go(func() { w.talk(conn, react) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, conn := range w.conns {
			_ = conn.Close()
		}
		w.mu.Unlock()
		conns.Wait()
	})
	return w
}

func (w *wire) talk(conn net.Conn, react func(exchange) bool) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	in := bufio.NewReader(countingReader{conn, w})
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		w.mu.Lock()
		e := exchange{len(w.seen) + 1, req.Header, req.Method, req.RequestURI, string(body), conn}
		w.seen = append(w.seen, e)
		w.mu.Unlock()
		if !react(e) {
			return
		}
	}
}

type countingReader struct {
	net.Conn
	w *wire
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.w.mu.Lock()
	r.w.bytes += n
	r.w.mu.Unlock()
	return n, err
}

func (w *wire) requests() []exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]exchange(nil), w.seen...)
}

// expect fails unless just so many requests were seen.
func (w *wire) expect(t *testing.T, want int) {
	t.Helper()
	if got := len(w.requests()); got != want {
		t.Errorf("the server saw %d requests, want %d", got, want)
	}
}

// made is the provider's object for the intent.
func made(status string) string {
	return `{"id":"pi_1","object":"payment_intent","amount":2500,"amount_received":2500,"currency":"usd",` +
		`"status":"` + status + `","metadata":{"onlyonce_payment":"pay_1","onlyonce_account":"17"}}`
}
