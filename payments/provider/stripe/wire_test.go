package stripe_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

// execute sends one payment to the URL.
func execute(t *testing.T, url string, o stripe.Options) payments.Answer {
	t.Helper()
	o.URL = url
	c := open(t, o)
	return c.Execute(t.Context(), intent(t, c, cardToken, usd(2500)), soon())
}

func TestWhatNeverReachedTheProviderIsNotSent(t *testing.T) {
	l := listen()
	_ = l.Close()
	if a := execute(t, "http://"+l.Addr().String(), stripe.Options{}); a.Kind != payments.AnswerNotSent {
		t.Errorf("dial refused: %+v", a)
	}
	a := execute(t, "http://nowhere.invalid", stripe.Options{Timeout: 2 * time.Second})
	if a.Kind != payments.AnswerNotSent {
		t.Errorf("no such name: %+v", a)
	}
	w := serve(t, func(exchange) bool { return false })
	if a := execute(t, strings.Replace(w.url, "http", "https", 1), stripe.Options{}); a.Kind != payments.AnswerNotSent {
		t.Errorf("no TLS there: %+v", a)
	}
	w.expect(t, 0)
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = untrusted.Listener.Close()
	untrusted.Listener = listen()
	untrusted.StartTLS()
	defer untrusted.Close()
	other := strings.Replace(untrusted.URL, "127.0.0.1", "localhost", 1) // not in its certificate
	if a := execute(t, other, stripe.Options{}); a.Kind != payments.AnswerNotSent {
		t.Errorf("another's certificate: %+v", a)
	}
	c := open(t, stripe.Options{URL: w.url})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if a := c.Execute(gone, intent(t, c, cardToken, usd(2500)), soon()); a.Kind != payments.AnswerNotSent {
		t.Errorf("given up before: %+v", a)
	}
	blank := intent(t, c, cardToken, usd(2500))
	blank.Request.Body = nil
	if a := c.Execute(t.Context(), blank, soon()); a.Kind != payments.AnswerNotSent {
		t.Errorf("a blanked request: %+v", a)
	}
	w.expect(t, 0)
}

func TestWhatWasSentAndNotAnsweredIsMaybe(t *testing.T) {
	whole := made("succeeded")
	for name, react := range map[string]func(exchange) bool{
		"closed after the request": func(exchange) bool { return false },
		"reset after the request": func(e exchange) bool {
			_ = e.conn.(*net.TCPConn).SetLinger(0)
			return false
		},
		"cut off in the header": func(e exchange) bool {
			_, _ = io.WriteString(e.conn, "HTTP/1.1 200 OK\r\nContent-Le")
			return false
		},
		"cut off in the body": func(e exchange) bool {
			_, _ = io.WriteString(e.conn, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"+whole)
			return false
		},
		"cut off in a chunk": func(e exchange) bool {
			_, _ = io.WriteString(e.conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n"+whole[:20])
			return false
		},
		"not HTTP at all": func(e exchange) bool {
			_, _ = io.WriteString(e.conn, whole+"\r\n\r\n")
			return false
		},
		"an endless header": func(e exchange) bool {
			_, _ = io.WriteString(e.conn, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
			return false
		},
		"an endless body": func(e exchange) bool {
			const endless = 64 << 20 // far more than a client and its socket may take
			_, err := io.WriteString(e.conn, "HTTP/1.1 200 OK\r\n\r\n"+whole+strings.Repeat(" ", endless))
			if err == nil {
				t.Error("it was read to its end")
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, react)
			if a := execute(t, w.url, stripe.Options{}); a.Kind != payments.AnswerMaybe {
				t.Errorf("got %+v", a)
			}
			w.expect(t, 1)
		})
	}
}

func TestASlowAnswerIsMaybe(t *testing.T) {
	answered := make(chan struct{})
	w := serve(t, func(exchange) bool { <-answered; return false })
	a := execute(t, w.url, stripe.Options{Timeout: 500 * time.Millisecond})
	close(answered)
	if a.Kind != payments.AnswerMaybe {
		t.Errorf("got %+v", a)
	}
	w.expect(t, 1)
}

// Closed before a byte was read: whether the request went out depends on who
// was quicker, and either is said. It is never repeated.
func TestAConnectionThatIsClosedAtOnce(t *testing.T) {
	l := listen()
	defer l.Close()
	var conns atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			_ = conn.Close()
		}
	}()
	a := execute(t, "http://"+l.Addr().String(), stripe.Options{})
	if a.Kind != payments.AnswerMaybe && a.Kind != payments.AnswerNotSent || conns.Load() != 1 {
		t.Errorf("got %+v over %d connections", a, conns.Load())
	}
}

// Case 93: Go's own transport re-sends a POST with an Idempotency-Key when a
// kept-alive connection breaks. A send that nobody wrote down must not happen.
func TestABrokenKeptAliveConnectionIsNotTriedAgain(t *testing.T) {
	for name, end := range map[string]func(exchange){
		"closed": func(exchange) {},
		"reset":  func(e exchange) { _ = e.conn.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, func(e exchange) bool {
				if e.n == 1 {
					return e.reply(200, made("succeeded"))
				}
				end(e) // while it is in use, before a byte of the answer
				return false
			})
			c := open(t, stripe.Options{URL: w.url})
			d := intent(t, c, cardToken, usd(2500))
			if a := c.Execute(t.Context(), d, soon()); a.Kind != payments.AnswerSucceeded {
				t.Fatalf("the first: %+v", a)
			}
			if a := c.Execute(t.Context(), d, soon()); a.Kind != payments.AnswerMaybe {
				t.Errorf("the second: %+v", a)
			}
			w.expect(t, 2)
			if got := len(w.conns); got != 1 {
				t.Errorf("%d connections, want the same one", got)
			}
		})
	}
}

// A connection that the server closed while it was idle: the next send goes
// out once, or not, and says which.
func TestAConnectionThatBrokeWhileIdle(t *testing.T) {
	for range 20 {
		w := serve(t, func(e exchange) bool {
			e.reply(200, made("succeeded"))
			return e.n > 1
		})
		c := open(t, stripe.Options{URL: w.url})
		d := intent(t, c, cardToken, usd(2500))
		if a := c.Execute(t.Context(), d, soon()); a.Kind != payments.AnswerSucceeded {
			t.Fatalf("the first: %+v", a)
		}
		a := c.Execute(t.Context(), d, soon())
		seen := len(w.requests()) - 1
		switch {
		case seen > 1:
			t.Fatalf("one send arrived %d times", seen)
		case a.Kind == payments.AnswerSucceeded && seen != 1, a.Kind == payments.AnswerNotSent && seen != 0:
			t.Fatalf("%+v, but the server saw %d", a, seen)
		case a.Kind == payments.AnswerRejected, a.Kind == payments.AnswerFailed:
			t.Fatalf("%+v", a)
		}
	}
}

// Engine rule 4: a sender that was paused past its time does not send. The
// clock jumps when the last check reads it, the dial long done.
func TestNothingIsWrittenOnceTheTimeToSendHasPassed(t *testing.T) {
	for name, jump := range map[string]func(time.Time) time.Time{
		"both clocks":    func(now time.Time) time.Time { return now.Add(time.Hour) },
		"the wall alone": func(now time.Time) time.Time { return monotonic(now.Add(time.Hour), -time.Hour) },
		"the monotonic alone": func(now time.Time) time.Time {
			return monotonic(now, time.Hour)
		},
		"to the very moment": func(time.Time) time.Time { return time.Unix(4_000_000_000, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var paused atomic.Bool
			var by time.Time
			now := func() time.Time {
				if paused.Load() {
					return jump(time.Now())
				}
				return time.Now()
			}
			w := serve(t, func(e exchange) bool { return e.reply(200, made("succeeded")) })
			c := open(t, stripe.Options{URL: w.url, Now: now})
			d := intent(t, c, cardToken, usd(2500))
			paused.Store(true)
			by = soon()
			if name == "to the very moment" {
				by = time.Unix(4_000_000_000, 0)
			}
			if a := c.Execute(t.Context(), d, by); a.Kind != payments.AnswerNotSent {
				t.Errorf("on a new connection: %+v", a)
			}
			paused.Store(false)
			if a := c.Execute(t.Context(), d, soon()); a.Kind != payments.AnswerSucceeded {
				t.Fatalf("in time: %+v", a)
			}
			before := w.received()
			paused.Store(true)
			if a := c.Execute(t.Context(), d, by); a.Kind != payments.AnswerNotSent {
				t.Errorf("on a kept-alive connection: %+v", a)
			}
			w.expect(t, 1)
			if got := w.received(); got != before {
				t.Errorf("%d bytes arrived", got-before)
			}
		})
	}
}

func (w *wire) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// monotonic moves a time's monotonic reading and leaves its wall clock, as a
// machine does that slept or whose clock was set. There is no other way to
// make such a time.
func monotonic(t time.Time, by time.Duration) time.Time {
	layout := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t))
	layout.ext += int64(by)
	return t
}

func TestTheClocksOfThisTestDiffer(t *testing.T) {
	now := time.Now()
	moved := monotonic(now, time.Hour)
	if !moved.Round(0).Equal(now.Round(0)) || moved.Sub(now) != time.Hour {
		t.Errorf("moved by %v, on the wall %v", moved.Sub(now), moved.Round(0).Sub(now.Round(0)))
	}
}

func TestUnderTLSNothingIsWrittenLateEither(t *testing.T) {
	var seen atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if r.ProtoMajor != 1 {
			t.Errorf("over %s: HTTP/2 repeats requests by itself", r.Proto)
		}
		_, _ = io.WriteString(w, made("succeeded"))
	}))
	_ = server.Listener.Close()
	server.Listener, server.EnableHTTP2 = listen(), true
	server.StartTLS()
	defer server.Close()

	// The clock is read twice: before the request is encrypted, and after.
	for late := range 3 {
		var reads atomic.Int32
		c := open(t, stripe.Options{URL: server.URL, Now: func() time.Time {
			if int(reads.Add(1)) > late {
				return time.Now().Add(time.Hour)
			}
			return time.Now()
		}})
		want, times := payments.AnswerNotSent, int32(0)
		if late == 2 {
			want, times = payments.AnswerSucceeded, 1
		}
		if a := c.Execute(t.Context(), intent(t, c, cardToken, usd(2500)), soon()); a.Kind != want {
			t.Errorf("late at reading %d: %+v", late+1, a)
		}
		if got := seen.Load(); got != times {
			t.Errorf("late at reading %d: the server saw %d", late+1, got)
		}
	}
}

// Case 85: a key belongs to its call and to no other.
func TestTheKeyIsNeverCarriedOver(t *testing.T) {
	w := serve(t, func(e exchange) bool { return e.reply(200, made("succeeded")) })
	c := open(t, stripe.Options{URL: w.url})
	d := intent(t, c, cardToken, usd(2500))
	other := d
	other.ProviderKey, d.ProviderID = "onlyonce_other", "pi_1"
	c.Execute(t.Context(), d, soon())
	c.Execute(t.Context(), other, soon())
	c.Read(t.Context(), d)
	c.Find(t.Context(), d)
	c.Execute(t.Context(), d, soon())
	want := []string{"onlyonce_pay_1", "onlyonce_other", "", "", "onlyonce_pay_1"}
	seen := w.requests()
	if len(seen) != len(want) {
		t.Fatalf("%d requests", len(seen))
	}
	for i, e := range seen {
		if keys := e.header.Values("Idempotency-Key"); strings.Join(keys, ",") != want[i] {
			t.Errorf("request %d, %s: keys %q, want %q", i+1, e.method, keys, want[i])
		}
		if e.header.Get("Authorization") != "Bearer "+apiKey || e.header.Get("Stripe-Version") != stripe.DefaultVersion {
			t.Errorf("request %d: %v", i+1, e.header)
		}
		if e.method == http.MethodPost && e.body != string(d.Request.Body) {
			t.Errorf("request %d: other bytes: %s", i+1, e.body)
		}
	}
}

func TestNewRefusesWhatCouldLeakTheKey(t *testing.T) {
	for name, o := range map[string]stripe.Options{
		"no key":            {},
		"a line break":      {Key: "sk_test_1\r\nX: y"},
		"not a URL":         {Key: apiKey, URL: "://"},
		"a path":            {Key: apiKey, URL: "https://example.com/v1"},
		"a user":            {Key: apiKey, URL: "https://user:pw@example.com"},
		"another scheme":    {Key: apiKey, URL: "ftp://example.com"},
		"live and in clear": {Key: "sk_live_1", URL: "http://example.com"},
		"negative timeout":  {Key: apiKey, Timeout: -1},
		"half the facts":    {Key: apiKey, Facts: payments.Facts{KeyWindow: time.Hour}},
	} {
		c, err := stripe.New(o)
		if err == nil || c != nil {
			t.Errorf("%s was accepted", name)
		} else if strings.Contains(err.Error(), apiKey) || strings.Contains(err.Error(), "pw") || errors.Unwrap(err) != nil {
			t.Errorf("%s: the error tells too much: %v", name, err)
		}
	}
	for key, want := range map[string]string{
		"sk_live_1": "stripe:live", "rk_live_1": "stripe:live", "sk_test_1": "stripe:test", "else": "stripe:test",
	} {
		c := open(t, stripe.Options{Key: key})
		if f := c.Facts(); c.Instance() != want || f.KeyWindow != 24*time.Hour || f.AbsenceGrace != 24*time.Hour {
			t.Errorf("%s: instance %s, facts %+v", key, c.Instance(), f)
		}
	}
}
