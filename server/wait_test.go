package server_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/server"
)

func waiting(c call, seconds string) call { return c.with("Prefer", "wait="+seconds) }

func (r reply) applied() string { return r.header.Get("Preference-Applied") }

// TestWaitForRunning: a twin that prefers to wait gets the outcome of the
// request that runs.
func TestWaitForRunning(t *testing.T) {
	w := newWorld(t, setup{})
	g := w.hold()
	first := w.later(pay("K", body1))
	within(t, g.arrived)
	twin := w.later(waiting(pay("K", body1), "20"))
	other := w.later(waiting(pay("K", body2), "20"))
	within(t, other).want(http.StatusUnprocessableEntity, "key-reuse", "new-key") // no wait helps it
	w.open(g)
	r := within(t, twin)
	r.wantReplayOf(within(t, first))
	if r.applied() != "wait=20" {
		t.Errorf("Preference-Applied is %q", r.applied())
	}
	w.wantMoved("charge 1000 usd")
}

// TestWaitEnds: when N is over the answer is the one that would have come at
// once.
func TestWaitEnds(t *testing.T) {
	w := newWorld(t, setup{providerTimeout: time.Second})
	unknown := pay("K", bodyWith("tok_timeout_charged"))
	r := w.send(waiting(unknown, "1"))
	if p := r.want(http.StatusAccepted); p.State != "pending_unknown" || r.applied() != "wait=1" {
		t.Errorf("state %s, Preference-Applied %q", p.State, r.applied())
	}
	r = w.send(waiting(unknown, "1"))
	if r.want(http.StatusAccepted); r.applied() != "wait=1" || r.header.Get("Retry-After") == "" {
		t.Errorf("the headers are %v", r.header)
	}
	w = newWorld(t, setup{})
	g := w.hold()
	first := w.later(pay("R", body1))
	within(t, g.arrived)
	r = w.send(waiting(pay("R", body1), "1"))
	if r.want(http.StatusConflict, "in-flight", "same-key"); r.applied() != "wait=1" {
		t.Errorf("Preference-Applied is %q", r.applied())
	}
	w.open(g)
	within(t, first)
}

// TestWaitForUnknown: the request that ran waits for the proof itself, and its
// answer is then no replay; so do payments and refunds that come later.
func TestWaitForUnknown(t *testing.T) {
	w := newWorld(t, setup{providerTimeout: time.Second})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.resolver.Run(ctx) })
	defer running.Wait()
	defer stop()
	r := w.send(waiting(pay("K", bodyWith("tok_reset_charged")), "20"))
	p := r.want(http.StatusCreated)
	if r.replayed() || r.header.Get("Original-Request") != "" || r.applied() != "wait=20" {
		t.Errorf("the headers are %v", r.header)
	}
	w.send(pay("K", bodyWith("tok_reset_charged"))).wantReplayOf(r)
	p = w.send(pay("P", bodyWith("tok_refund_reset_charged"))).want(http.StatusCreated)
	w.send(refund(p.ID, "R", `{}`)).want(http.StatusAccepted)
	late := w.send(waiting(refund(p.ID, "R", `{}`), "20"))
	if late.want(http.StatusCreated); !late.replayed() {
		t.Error("the later request does not say that it is a replay")
	}
	w.wantMoved("charge 1000 usd", "charge 1000 usd", "refund 1000 usd")
}

// TestWaitForms: what counts as the preference, and how it is applied.
func TestWaitForms(t *testing.T) {
	w := newWorld(t, setup{})
	first := w.send(pay("K", body1))
	for prefer, applied := range map[string]string{
		"wait=5": "wait=5", "respond-async, wait=5": "wait=5", `Wait="5"`: "wait=5", "wait=60": "wait=30",
		"wait=99999999999999999999": "wait=30", "wait=0": "", "wait": "", "wait=-1": "", "wait=x": "", "wait=1.5": "",
		"return=minimal": "",
	} {
		r := w.send(pay("K", body1).with("Prefer", prefer))
		r.wantReplayOf(first)
		if r.applied() != applied {
			t.Errorf("Prefer: %s was answered with Preference-Applied %q, want %q", prefer, r.applied(), applied)
		}
	}
	r := w.send(waiting(pay("X", `{}`), "5"))
	if r.want(http.StatusBadRequest, "invalid-request", "fix"); r.applied() != "" {
		t.Errorf("an invalid request has Preference-Applied %q", r.applied())
	}
}

// TestWaitLimits: beyond the limit the answer comes at once and does not say
// that it was honoured.
func TestWaitLimits(t *testing.T) {
	waiters := &httponce.Waiters{MaxPerKey: 1}
	w := newWorld(t, setup{server: server.Options{Waiters: waiters}})
	g := w.hold()
	first := w.later(pay("K", body1))
	within(t, g.arrived)
	ctx, leave := context.WithCancel(t.Context())
	in, left := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(left)
		_, _ = waiters.Wait(ctx, keyOf("K"), func(context.Context) (bool, error) {
			select {
			case in <- struct{}{}:
			default:
			}
			return false, nil
		})
	}()
	within(t, in)
	r := w.send(waiting(pay("K", body1), "30"))
	if r.want(http.StatusConflict, "in-flight", "same-key"); r.applied() != "" {
		t.Errorf("there was no room, and Preference-Applied is %q", r.applied())
	}
	leave()
	within(t, left)
	r = w.send(waiting(pay("K", body1), "1"))
	if r.want(http.StatusConflict, "in-flight", "same-key"); r.applied() != "wait=1" {
		t.Errorf("there was room, and Preference-Applied is %q", r.applied())
	}
	w.open(g)
	within(t, first).want(http.StatusCreated)
}

// room reports whether there is room for another waiter of the key.
func room(waiters *httponce.Waiters, name string) bool {
	look := func(context.Context) (bool, error) { return true, nil }
	honoured, _ := waiters.Wait(context.Background(), keyOf(name), look)
	return honoured
}

func keyOf(name string) onlyonce.Key { return onlyonce.Key{Account: "A", Name: name} }

// TestWaiterWhoseClientIsGone stops waiting, which makes room for others.
func TestWaiterWhoseClientIsGone(t *testing.T) {
	waiters := &httponce.Waiters{MaxPerKey: 1}
	w := newWorld(t, setup{server: server.Options{Waiters: waiters}})
	g := w.hold()
	first := w.later(pay("K", body1))
	within(t, g.arrived)
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for ctx.Err() == nil { // it may find the place taken by a look for room
			request, err := waiting(pay("K", body1), "30").request(ctx, w.url)
			if err != nil {
				return
			}
			if resp, err := client.Do(request); err == nil {
				resp.Body.Close()
			}
		}
	}()
	until(t, func() bool { return !room(waiters, "K") })
	hangUp()
	within(t, gone)
	until(t, func() bool { return room(waiters, "K") })
	w.open(g)
	within(t, first).want(http.StatusCreated)
}

// TestWaitersHoldNoConnection: with more waiters than the store has
// connections, others are still served.
func TestWaitersHoldNoConnection(t *testing.T) {
	w := newWorld(t, setup{busyWait: 2 * time.Second})
	g := w.hold()
	var waiters []<-chan reply
	for _, key := range []string{"K1", "K2", "K3"} {
		waiters = append(waiters, w.later(pay(key, body1)))
		within(t, g.arrived)
		for range 9 {
			waiters = append(waiters, w.later(waiting(pay(key, body1), "20")))
		}
	}
	for range 20 {
		w.send(get("/payments")).want(http.StatusOK)
	}
	w.open(g)
	for _, c := range waiters {
		within(t, c).want(http.StatusCreated)
	}
	w.wantMoved("charge 1000 usd", "charge 1000 usd", "charge 1000 usd")
}

// TestWaitTakesOver: a waiter runs what its owner has abandoned.
func TestWaitTakesOver(t *testing.T) {
	waiters := &httponce.Waiters{MaxPerKey: 1}
	w := newWorld(t, setup{server: server.Options{Waiters: waiters}})
	g := w.hold()
	first := w.later(pay("K", body1))
	within(t, g.arrived)
	waiter := w.waiter(waiters, "2")
	w.skew.Add(int64(time.Minute)) // the lease is over, the owner still hangs
	if p := within(t, waiter).want(http.StatusAccepted); p.State != "pending_unknown" {
		t.Errorf("the state is %s", p.State)
	}
	w.open(g)
	// The stale owner writes nothing and answers from the row.
	if p := within(t, first).want(http.StatusAccepted); p.State != "pending_unknown" {
		t.Errorf("the state is %s", p.State)
	}
	w.sweep(time.Minute)
	w.send(pay("K", body1)).want(http.StatusCreated)
	w.wantMoved("charge 1000 usd")
}

// waiter sends body1 under the key K and returns once the request waits. The
// waiters must have one place for each key.
func (w *world) waiter(waiters *httponce.Waiters, seconds string) <-chan reply {
	w.t.Helper()
	var seen atomic.Bool
	done := make(chan reply, 1)
	go func() {
		for { // its place may be taken by a look for room, or its time be over before it was seen
			r := w.send(waiting(pay("K", body1), seconds))
			if seen.Load() || w.t.Failed() {
				done <- r
				return
			}
		}
	}()
	until(w.t, func() bool { return !room(waiters, "K") })
	seen.Store(true)
	return done
}

// TestStoreGoesAwayMeanwhile: what was known before still holds, and is no 5xx.
func TestStoreGoesAwayMeanwhile(t *testing.T) {
	waiters := &httponce.Waiters{MaxPerKey: 1}
	w := newWorld(t, setup{
		server: server.Options{Waiters: waiters},
		provider: func(inner providerOf) providerOf {
			return answering{inner, payments.Answer{Kind: payments.AnswerMaybe}, nil}
		},
	})
	waiter := w.waiter(waiters, "2")
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if p := within(t, waiter).want(http.StatusAccepted); p.State != "pending_unknown" {
		t.Errorf("the state is %s", p.State)
	}
}
