package httponce_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
)

// What becomes of a key, for every kind of answer: what its retry gets.
func TestFates(t *testing.T) {
	const (
		replay = "replay"
		again  = "again"
		open9  = "unresolved"
	)
	statuses := map[int][3]string{ // plainly; with NothingDone; with Rerunnable
		200: {replay, replay, replay}, 201: {replay, replay, replay}, 303: {replay, replay, replay},
		400: {replay, again, again}, 401: {replay, again, again}, 402: {replay, again, replay},
		403: {replay, again, replay}, 404: {replay, again, again}, 409: {replay, again, replay},
		413: {replay, again, again}, 415: {replay, again, again}, 422: {replay, again, replay},
		408: {open9, again, again}, 425: {open9, again, again}, 429: {open9, again, again},
		500: {open9, again, again}, 502: {open9, again, again}, 503: {open9, again, again}, 504: {open9, again, again},
	}
	for column, name := range []string{"plainly", "NothingDone", "Rerunnable"} {
		t.Run(name, func(t *testing.T) {
			status := 0
			s := open(t, func(w http.ResponseWriter, r *http.Request) {
				if name == "NothingDone" {
					httponce.NothingDone(r.Context())
				}
				w.WriteHeader(status)
			}, func(o *httponce.Options) { o.Rerunnable = name == "Rerunnable" })
			for code, fates := range statuses {
				status = code
				key := http.StatusText(code)
				s.calls.Store(0)
				want(t, s.post(key, body1), code, false)
				w := s.post(key, body1)
				switch fates[column] {
				case replay:
					want(t, w, code, true)
					s.ran(1)
				case again:
					want(t, w, code, false)
					s.ran(2)
				case open9:
					wantProblem(t, w, 409, "unresolved", "same-key")
					s.ran(1)
				}
			}
		})
	}
}

// Cases 60, 66: a failure before anything was done is not pinned to the key.
func TestNothingDoneThenHealthy(t *testing.T) {
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		httponce.NothingDone(r.Context())
		http.Error(w, "database is away", http.StatusServiceUnavailable)
	}, nil)
	want(t, s.post("K", body1), 503, false)
	if rec := s.record("K"); rec.Status != "" {
		t.Errorf("the key is %v", rec.Status)
	}
	s.rewire(created, nil)
	w := s.post("K", body1)
	want(t, w, 201, false)
	if w.Body.String() != `{"id":"p1"}` {
		t.Errorf("got %q", w.Body)
	}
	s.ran(2)
}

// Case 67: the effect happened and the renderer failed. It does not run again,
// and what can be proved is what the retry gets.
func TestFailureAfterTheEffect(t *testing.T) {
	s := open(t, failWith(500), nil)
	want(t, s.post("K", body1), 500, false)
	p := wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	if !strings.Contains(p.Detail, "may have happened") || strings.Contains(p.Detail, "failed") { // case 91
		t.Error(p.Detail)
	}
	wantProblem(t, s.post("K", body2), 422, "key-reuse", "new-key")

	proved := false
	s.rewire(failWith(500), func(o *httponce.Options) {
		o.Resolve = func(_ context.Context, rec onlyonce.Record) (onlyonce.Outcome, error) {
			if rec.Key.Name != "K" {
				t.Errorf("asked about %v", rec.Key)
			}
			if !proved {
				return onlyonce.Outcome{}, errors.New("the provider does not answer")
			}
			return onlyonce.Outcome{Status: 201, Body: []byte(`{"id":"p1"}`)}, nil
		}
	})
	wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	proved = true
	for range 2 {
		w := s.post("K", body1)
		want(t, w, 201, true)
		if w.Body.String() != `{"id":"p1"}` {
			t.Errorf("got %q", w.Body)
		}
	}
	s.ran(1)
}

// What is proved not to have happened runs again, once.
func TestResolvedAsUndone(t *testing.T) {
	s := open(t, failWith(502), nil)
	want(t, s.post("K", body1), 502, false)
	g := newGate()
	s.rewire(g.serve, func(o *httponce.Options) {
		o.Resolve = func(context.Context, onlyonce.Record) (onlyonce.Outcome, error) {
			return onlyonce.Outcome{}, httponce.ErrNothingDone
		}
	})
	var second sync.WaitGroup
	second.Go(func() { want(t, s.post("K", body1), 201, false) })
	<-g.entered
	wantProblem(t, s.post("K", body1), 409, "in-flight", "same-key")
	close(g.leave)
	second.Wait()
	want(t, s.post("K", body1), 201, true)
	s.ran(2)
}

func TestOneResolverAtATime(t *testing.T) {
	s := open(t, failWith(500), nil)
	want(t, s.post("K", body1), 500, false)
	asked, leave := make(chan struct{}, 9), make(chan struct{})
	s.rewire(created, func(o *httponce.Options) {
		o.Resolve = func(context.Context, onlyonce.Record) (onlyonce.Outcome, error) {
			asked <- struct{}{}
			<-leave
			return onlyonce.Outcome{Status: 201}, nil
		}
	})
	var first sync.WaitGroup
	first.Go(func() { want(t, s.post("K", body1), 201, true) })
	<-asked
	wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	close(leave)
	first.Wait()
	if len(asked) != 0 {
		t.Error("two asked at once")
	}
}

// A panic proves nothing, and goes on to whoever handles panics.
func TestPanic(t *testing.T) {
	for _, nothing := range []bool{false, true} {
		s := open(t, func(w http.ResponseWriter, r *http.Request) {
			if nothing {
				httponce.NothingDone(r.Context())
			}
			panic("oops")
		}, nil)
		func() {
			defer func() {
				if recover() != "oops" {
					t.Error("the panic was swallowed")
				}
			}()
			s.post("K", body1)
		}()
		s.rewire(created, nil)
		if w := s.post("K", body1); nothing {
			want(t, w, 201, false)
		} else {
			wantProblem(t, w, 409, "unresolved", "same-key")
			s.ran(1)
		}
	}
}

// crash leaves a claim as a process does that dies while the handler runs.
func crash(t *testing.T, change func(*httponce.Options)) *shop {
	t.Helper()
	die := errors.New("killed")
	s := open(t, created, nil)
	s.rewire(created, func(o *httponce.Options) {
		if change != nil {
			change(o)
		}
		o.Tx = &mortalTx{Transactor: s.db, lives: 1, err: die}
	})
	wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	s.ran(1)
	return s
}

// mortalTx reaches its store so many times.
type mortalTx struct {
	onlyonce.Transactor
	lives int
	err   error
}

func (m *mortalTx) InTx(ctx context.Context, work func(context.Context, onlyonce.Tx) error) error {
	if m.lives--; m.lives < 0 {
		return m.err
	}
	return m.Transactor.InTx(ctx, work)
}

// The outcome could not be stored: success is not reported, and when the lease
// is over the effect is not repeated (cases 52, 55).
func TestLapsedClaim(t *testing.T) {
	s := crash(t, nil)
	s.rewire(created, nil)
	wantProblem(t, s.post("K", body1), 409, "in-flight", "same-key")
	s.skew.Store(int64(31 * time.Second))
	for range 2 {
		wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	}
	s.ran(1)
	s.rewire(created, func(o *httponce.Options) {
		o.Resolve = func(context.Context, onlyonce.Record) (onlyonce.Outcome, error) {
			return onlyonce.Outcome{Status: 201}, nil
		}
	})
	want(t, s.post("K", body1), 201, true)
	s.ran(1)
}

func TestLapsedRerunnable(t *testing.T) {
	harmless := func(o *httponce.Options) { o.Rerunnable = true }
	s := crash(t, harmless)
	s.rewire(created, harmless)
	s.skew.Store(int64(31 * time.Second))
	want(t, s.post("K", body1), 201, false)
	want(t, s.post("K", body1), 201, true)
	s.ran(2)
}

// deafTx loses the answer to one COMMIT.
type deafTx struct {
	onlyonce.Transactor
	deafAt  int // counted from 1
	durable bool
}

func (d *deafTx) InTx(ctx context.Context, work func(context.Context, onlyonce.Tx) error) error {
	d.deafAt--
	if d.deafAt != 0 {
		return d.Transactor.InTx(ctx, work)
	}
	lost := errors.New("lost")
	err := d.Transactor.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		if err := work(ctx, tx); err != nil || d.durable {
			return err
		}
		return lost
	})
	if err == nil || errors.Is(err, lost) {
		return onlyonce.ErrCommitUnknown
	}
	return err
}

// Whether a COMMIT without an answer was durable is found out, for the claim
// and for the outcome: one effect, and its answer.
func TestCommitUnknown(t *testing.T) {
	for at, durable := range map[int]bool{1: true, -1: false, 2: true, -2: false} {
		s := open(t, created, nil)
		s.rewire(created, func(o *httponce.Options) {
			o.Tx = &deafTx{Transactor: s.db, deafAt: max(at, -at), durable: durable}
		})
		want(t, s.post("K", body1), 201, false)
		want(t, s.post("K", body1), 201, true)
		s.ran(1)
	}
}

// An attempt that outlives its lease, and was given up by a retry, holds the
// proof that was missing.
func TestStaleAttemptIsTheProof(t *testing.T) {
	g := newGate()
	s := open(t, g.serve, nil)
	var first sync.WaitGroup
	first.Go(func() { want(t, s.post("K", body1), 201, false) })
	<-g.entered
	s.skew.Store(int64(31 * time.Second))
	wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	close(g.leave)
	first.Wait()
	want(t, s.post("K", body1), 201, true)
	s.ran(1)
}

// Case 77, outside: the client gets 503, the real result is recorded.
func TestTimeoutOutside(t *testing.T) {
	g := newGate()
	s := open(t, g.serve, nil)
	done := make(chan struct{})
	inner := s.front
	s.front = http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		inner.ServeHTTP(w, r)
	}), time.Millisecond, "timeout")
	want(t, s.post("K", body1), 503, false)
	s.front = inner
	// Either it has not begun, or it runs: in both cases nothing is lost.
	<-g.entered
	wantProblem(t, s.post("K", body1), 409, "in-flight", "same-key")
	close(g.leave)
	<-done
	want(t, s.post("K", body1), 201, true)
	s.ran(1)
}

// Case 77, inside: the 503 says nothing about the handler that goes on.
func TestTimeoutInside(t *testing.T) {
	g := newGate()
	var ended sync.WaitGroup
	ended.Add(1)
	slow := http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer ended.Done()
		g.serve(w, r)
	}), 50*time.Millisecond, "timeout")
	charged := false
	s := open(t, slow.ServeHTTP, func(o *httponce.Options) {
		o.Resolve = func(context.Context, onlyonce.Record) (onlyonce.Outcome, error) {
			if !charged {
				return onlyonce.Outcome{}, onlyonce.ErrUnknown
			}
			return onlyonce.Outcome{Status: 201, Body: []byte(`{"id":"p1"}`)}, nil
		}
	})
	want(t, s.post("K", body1), 503, false)
	<-g.entered
	wantProblem(t, s.post("K", body1), 409, "unresolved", "same-key")
	close(g.leave)
	ended.Wait()
	charged = true
	want(t, s.post("K", body1), 201, true)
	s.ran(1)
}

// Case 72: an answer that is too large is still the end of the key.
func TestLargeAnswer(t *testing.T) {
	limits := map[string]int{"body over a small limit": 100}
	large := func(size int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/payments/p1")
			w.WriteHeader(http.StatusCreated)
			chunk := strings.Repeat("x", size/64)
			for range 64 {
				if n, err := io.WriteString(w, chunk); n != len(chunk) || err != nil {
					t.Error(n, err)
				}
			}
		}
	}
	for name, handle := range map[string]http.HandlerFunc{
		"body over a small limit": large(128),
		"body":                    large(4 << 20),
		"headers": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/payments/p1")
			w.Header().Set("X-Large", strings.Repeat("x", 2<<20))
			w.WriteHeader(http.StatusCreated)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, handle, func(o *httponce.Options) { o.MaxResponse = limits[name] })
			first, again := s.post("K", body1), s.post("K", body1)
			want(t, first, 201, false)
			want(t, again, 201, true)
			for _, w := range []*httptest.ResponseRecorder{first, again} {
				if w.Header().Get("Location") != "/payments/p1" || !strings.Contains(w.Body.String(), `"omittedBytes"`) {
					t.Errorf("%v %.80s", w.Header(), w.Body)
				}
			}
			if again.Header().Get("Original-Request") != first.Header().Get("Request-Id") {
				t.Errorf("Original-Request %q", again.Header().Get("Original-Request"))
			}
			s.ran(1)
		})
	}
}
