package httponce_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
)

// gate is a handler that says when it runs and waits to be let on.
type gate struct{ entered, leave chan struct{} }

func newGate() gate { return gate{make(chan struct{}, 100), make(chan struct{})} }

func (g gate) serve(w http.ResponseWriter, r *http.Request) {
	g.entered <- struct{}{}
	<-g.leave
	created(w, r)
}

// Cases 24, 88: while the first runs a duplicate is told to wait with the same
// key, and a changed request is told at once that it is another.
func TestInFlight(t *testing.T) {
	g := newGate()
	s := open(t, g.serve, nil)
	var first sync.WaitGroup
	first.Go(func() { want(t, s.post("K", body1), 201, false) })
	<-g.entered
	w := s.post("K", body1)
	p := wantProblem(t, w, 409, "in-flight", "same-key")
	if w.Header().Get("Retry-After") != "1" || !strings.Contains(p.Detail, "with the same key, after 1 second") {
		t.Errorf("Retry-After %q: %s", w.Header().Get("Retry-After"), p.Detail)
	}
	wantProblem(t, s.post("K", body2), 422, "key-reuse", "new-key")
	close(g.leave)
	first.Wait()
	want(t, s.post("K", body1), 201, true)
	s.ran(1)
}

// Case 30: fifty at once are one effect.
func TestStorm(t *testing.T) {
	s := open(t, created, nil)
	var mu sync.Mutex
	firsts := 0
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			w := s.post("K", body1)
			replayed := w.Header().Get("Idempotent-Replayed") == "true"
			mu.Lock()
			defer mu.Unlock()
			switch {
			case w.Code == 201 && !replayed:
				firsts++
			case w.Code == 201, w.Code == 409:
			default:
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	s.ran(1)
	if firsts != 1 {
		t.Errorf("%d answers are no replays", firsts)
	}
	want(t, s.post("K", body1), 201, true)
}

// A duplicate that prefers to wait gets the outcome of the one that runs, as
// soon as it is there: the bubble's clock stands still meanwhile.
func TestPreferWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := open(t, g.serve, nil)
		start := time.Now()
		var both sync.WaitGroup
		both.Go(func() { want(t, s.post("K", body1), 201, false) })
		<-g.entered
		both.Go(func() {
			w := s.post("K", body1, "Prefer", "wait=30")
			want(t, w, 201, true)
			if got := w.Header().Get("Preference-Applied"); got != "wait=30" {
				t.Errorf("Preference-Applied %q", got)
			}
		})
		synctest.Wait() // both are stuck: one in the handler, one waiting
		close(g.leave)
		both.Wait()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the waiter was not woken, it looked by itself after %v", waited)
		}
		s.ran(1)
	})
}

// A wait that ends without an outcome gets the answer that would have come at once.
func TestPreferWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := open(t, g.serve, nil)
		var first sync.WaitGroup
		first.Go(func() { want(t, s.post("K", body1), 201, false) })
		<-g.entered
		start := time.Now()
		w := s.post("K", body1, "Prefer", "wait=2")
		wantProblem(t, w, 409, "in-flight", "same-key")
		if got := w.Header().Get("Preference-Applied"); got != "wait=2" || time.Since(start) != 2*time.Second {
			t.Errorf("Preference-Applied %q after %v", got, time.Since(start))
		}
		close(g.leave)
		first.Wait()
	})
}

// A handler that uses up its whole lease is still recorded.
func TestHandlerOutlivesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			created(w, r)
		}, nil)
		start := time.Now()
		want(t, s.post("K", body1), 201, false)
		if ran := time.Since(start); ran != 30*time.Second {
			t.Errorf("the handler's context ended after %v", ran)
		}
		want(t, s.post("K", body1), 201, true)
		s.ran(1)
	})
}

// slowTx commits, and says so late.
type slowTx struct {
	onlyonce.Transactor
	lag time.Duration
}

func (s *slowTx) InTx(ctx context.Context, work func(context.Context, onlyonce.Tx) error) error {
	err := s.Transactor.InTx(ctx, work)
	time.Sleep(s.lag) // in a bubble
	s.lag = 0
	return err
}

// A claim whose lease is over before the handler has begun does not begin it.
func TestClaimTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, created, nil)
		s.rewire(created, func(o *httponce.Options) { o.Tx = &slowTx{s.db, 31 * time.Second} })
		wantProblem(t, s.post("K", body1), 503, "unavailable", "same-key")
		s.ran(0)
		want(t, s.post("K", body1), 201, false)
		s.ran(1)
	})
}
