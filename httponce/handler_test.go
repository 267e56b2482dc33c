package httponce_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
)

// Cases 15, 70, 79: status, bytes and headers come back, and say that they do.
func TestReplay(t *testing.T) {
	s := open(t, created, nil)
	first := s.post("K", body1)
	want(t, first, 201, false)
	if first.Header().Get("Original-Request") != "" {
		t.Error("the first answer names an original request")
	}
	for _, body := range []string{body1, "{ \"currency\":\"USD\",\n\"amount\":1000}"} {
		again := s.post(`"K"`, body)
		want(t, again, 201, true)
		if again.Body.String() != first.Body.String() {
			t.Errorf("the body is %q, was %q", again.Body, first.Body)
		}
		for _, name := range []string{"Location", "Content-Type", "Content-Length"} {
			if again.Header().Get(name) == "" || again.Header().Get(name) != first.Header().Get(name) {
				t.Errorf("%s is %q, was %q", name, again.Header().Get(name), first.Header().Get(name))
			}
		}
		if again.Header().Get("Original-Request") != first.Header().Get("Request-Id") {
			t.Errorf("Original-Request %q, was %q", again.Header().Get("Original-Request"), first.Header().Get("Request-Id"))
		}
		if again.Header().Get("Request-Id") == first.Header().Get("Request-Id") {
			t.Error("the Request-Id was replayed")
		}
	}
	s.ran(1)
}

// Cases 1, 2: no key, no shared record.
func TestKeyless(t *testing.T) {
	s := open(t, created, nil)
	wantProblem(t, s.post("", body1), 400, "key-missing", "fix")
	wantProblem(t, s.post("", body2), 400, "key-missing", "fix")
	s.ran(0)

	s.rewire(created, func(o *httponce.Options) {
		o.Optional = true
		o.Tx = brokenTx{errors.New("a keyless request reached the store")}
	})
	want(t, s.post("", body1), 201, false)
	want(t, s.post("", body2), 201, false)
	s.ran(2)
	for _, key := range []string{"", "   ", `""`} {
		r := request("/payments", "", body1)
		r.Header["Idempotency-Key"] = []string{key}
		wantProblem(t, s.serve(r), 400, "key-invalid", "fix")
	}
	s.ran(2)
}

// brokenTx is a store that can't be reached.
type brokenTx struct{ err error }

func (b brokenTx) InTx(context.Context, func(context.Context, onlyonce.Tx) error) error { return b.err }

// Case 80: no store, no effect.
func TestStoreDown(t *testing.T) {
	s := open(t, created, func(o *httponce.Options) { o.Tx = brokenTx{errors.New("down")} })
	w := s.post("K", body1)
	wantProblem(t, w, 503, "unavailable", "same-key")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.ran(0)
}

// Case 14: who it is comes before the key.
func TestAnonymous(t *testing.T) {
	s := open(t, created, func(o *httponce.Options) { o.Tx = brokenTx{errors.New("reached")} })
	wantProblem(t, s.post("K", body1, "Authorization", "Bearer "), 401, "unauthorized", "fix")
	wantProblem(t, s.post("", body1, "Authorization", "Bearer "), 401, "unauthorized", "fix")
	s.ran(0)
}

// Cases 5, 8, 9, 68a: what is invalid is refused before the claim, and the
// corrected request may use the key.
func TestInvalidBeforeTheClaim(t *testing.T) {
	s := open(t, created, nil)
	for _, key := range []string{strings.Repeat("k", 256), "pay-💸", `"unterminated`} {
		wantProblem(t, s.post(key, body1), 400, "key-invalid", "fix")
	}
	wantProblem(t, s.post("K", `{"amount":1000,"description":"a\u0000b"}`), 400, "invalid-request", "fix")
	wantProblem(t, s.post("K", `{"amount":1000`), 400, "invalid-request", "fix")
	wantProblem(t, s.post("K", "{"+strings.Repeat(" ", 2<<20)+"}"), 413, "too-large", "fix")
	s.ran(0)
	if rec := s.record("K"); rec.Status != "" {
		t.Errorf("a claim was made: %v", rec.Status)
	}
	want(t, s.post("K", body1), 201, false)
	want(t, s.post(strings.Repeat("k", 255), body1), 201, false)
	// A request that is itself invalid is 400 whatever its key was used for.
	wantProblem(t, s.post("K", `{"amount":1000`), 400, "invalid-request", "fix")
	s.ran(2)
}

// Cases 11, 13, 21, 23, 25, 27: a key is one request of one account.
func TestMismatch(t *testing.T) {
	for name, look := range map[string]bool{"look-up": true, "lost insert": false} {
		t.Run(name, func(t *testing.T) {
			s := open(t, created, nil)
			s.rewire(created, func(o *httponce.Options) {
				if look {
					o.View = s.db.View
				}
			})
			want(t, s.post("K", body1), 201, false)
			p := wantProblem(t, s.post("K", body2), 422, "key-reuse", "new-key")
			if !strings.Contains(p.Detail, "succeeded") {
				t.Error(p.Detail)
			}
			wantProblem(t, s.serve(request("/payments/1/refunds", "K", body1)), 422, "key-reuse", "new-key")
			wantProblem(t, s.serve(request("/payments?x=1", "K", body1)), 422, "key-reuse", "new-key")
			put := request("/payments", "K", body1)
			put.Method = http.MethodPut
			wantProblem(t, s.serve(put), 422, "key-reuse", "new-key")
			want(t, s.post("K", body1), 201, true)
			s.ran(1)
			want(t, s.post("K2", body1), 201, false)
			want(t, s.post("K", body1, "Authorization", "Bearer B"), 201, false)
			s.ran(3)
		})
	}
}

// Case 26: the changed request of a declined one is told what to do.
func TestDeclined(t *testing.T) {
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		httponce.Declined("card_declined").Write(w)
	}, nil)
	first := s.post("K", `{"payment_method":"pm_1"}`)
	wantProblem(t, first, 402, "declined", "new-key")
	again := s.post("K", `{"payment_method":"pm_1"}`) // case 68b: no new attempt
	want(t, again, 402, true)
	p := wantProblem(t, s.post("K", `{"payment_method":"pm_2"}`), 422, "key-reuse", "new-key")
	for _, says := range []string{"finished", "definite decline", "new key"} {
		if !strings.Contains(p.Detail, says) {
			t.Errorf("it does not say %q: %s", says, p.Detail)
		}
	}
	s.ran(1)
}

// Case 20: the key and the fingerprint are taken once, at entry.
func TestInnerMiddlewareChangesTheRequest(t *testing.T) {
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != body1 || r.ContentLength != int64(len(body1)) {
			t.Errorf("the handler got %q, %v", body, err)
		}
		r.Body = io.NopCloser(strings.NewReader(body2))
		r.Header.Set("Idempotency-Key", "other")
		r.URL.Path = "/elsewhere"
		r.Method = http.MethodPut
		created(w, r)
	}, nil)
	want(t, s.post("K", body1), 201, false)
	want(t, s.post("K", body1), 201, true)
	s.ran(1)
}

// Bodies that are not JSON are compared byte for byte; a missing one is fine.
func TestOtherBodies(t *testing.T) {
	s := open(t, created, nil)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	want(t, s.post("K", "a=1&b=2", form...), 201, false)
	want(t, s.post("K", "a=1&b=2", form...), 201, true)
	wantProblem(t, s.post("K", "b=2&a=1", form...), 422, "key-reuse", "new-key")
	wantProblem(t, s.post("K", "a=1&b=2", "Content-Type", "text/plain"), 422, "key-reuse", "new-key")
	want(t, s.post("empty", ""), 201, false)
	want(t, s.post("empty", ""), 201, true)
	s.ran(2)
}

func TestSafeMethodsPass(t *testing.T) {
	s := open(t, created, func(o *httponce.Options) { o.Tx = brokenTx{errors.New("reached")} })
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		r := request("/payments", "K", "")
		r.Method = method
		want(t, s.serve(r), 201, false)
	}
	s.ran(4)
}

// Case 58: the client goes, the work is done and kept.
func TestClientHangsUp(t *testing.T) {
	g := newGate()
	finished := make(chan error, 1)
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r)
		finished <- r.Context().Err()
	}, nil)
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.front.ServeHTTP(w, r)
		close(done)
	}))
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/payments", bytes.NewReader([]byte(body1)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = request("/payments", "K", "").Header
	gone := make(chan error, 1)
	go func() {
		_, err := server.Client().Do(r)
		gone <- err
	}()
	<-g.entered
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("the client got %v", err)
	}
	close(g.leave)
	if err := <-finished; err != nil {
		t.Errorf("the handler's context ended with the client: %v", err)
	}
	<-done
	want(t, s.post("K", body1), 201, true)
	s.ran(1)
}

func TestNewRefuses(t *testing.T) {
	s := open(t, created, nil)
	engine, err := onlyonce.New(onlyonce.Options{Store: s.db.Store()})
	if err != nil {
		t.Fatal(err)
	}
	good := httponce.Options{Engine: engine, Tx: s.db, Account: account}
	if _, err := httponce.New(http.HandlerFunc(created), good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*httponce.Options){
		"Engine":      func(o *httponce.Options) { o.Engine = nil },
		"Tx":          func(o *httponce.Options) { o.Tx = nil },
		"Account":     func(o *httponce.Options) { o.Account = nil },
		"MaxResponse": func(o *httponce.Options) { o.MaxResponse = 2 << 20 },
		"Resolve": func(o *httponce.Options) {
			o.Rerunnable = true
			o.Resolve = func(context.Context, onlyonce.Record) (onlyonce.Outcome, error) { return onlyonce.Outcome{}, nil }
		},
	} {
		o := good
		spoil(&o)
		if _, err := httponce.New(http.HandlerFunc(created), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := httponce.New(nil, good); err == nil {
		t.Error("nil was wrapped")
	}
}
