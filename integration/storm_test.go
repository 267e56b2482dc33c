package integration_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

const (
	stormClients = 24
	stormKills   = 6
	killEvery    = 7 // sends to the provider
	stormEnd     = slowness * 60 * time.Second
)

// A storm: clients pay and give a part back, and go on retrying while their
// server is killed again and again, now before the provider has acted, now
// after it. In the end each has paid once and got its part back once.
func TestCrashStorm(t *testing.T) {
	t.Parallel()
	grounds(t, testCrashStorm)
}

func testCrashStorm(t *testing.T, e engines.Engine) {
	h := newHouseOn(t, e)
	var now atomic.Pointer[server]
	serve := func() {
		s := h.serve("--lease", "4s", "--provider-timeout", "2s")
		now.Store(&s)
	}
	kill := make(chan struct{})
	h.proxy.does(stormy(kill))
	serve()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for i := range stormClients {
			wg.Go(func() { h.payAndGiveBack(func() server { return *now.Load() }, i) })
		}
		wg.Wait()
	}()
	kills := 0
	for over := false; !over; {
		select {
		case <-kill:
			now.Load().kill()
			serve()
			kills++
		case <-done:
			over = true
		}
	}
	if kills < stormKills/2 { // a slow machine may end before the last ones
		t.Errorf("the server was killed only %d times", kills)
	}
	h.checkStorm(*now.Load(), stormClients)
}

// checkStorm checks that each client has paid once and got its part back once,
// at the provider and in the books, and that whatever a client was told is what
// is stored: no success was reported before it was durable.
func (h *house) checkStorm(s server, clients int) {
	h.t.Helper()
	h.told.Range(func(_, v any) bool {
		told := v.(told)
		s.final(told.request, 2*patience).checkReplay(h.t, told.reply)
		return true
	})
	var want []string
	for i := range clients {
		want = append(want, fmt.Sprintf("charge %d", 1000+i), fmt.Sprintf("refund %d", 100+i))
	}
	h.proxy.settled(h.t)
	h.moved(want...)
	h.checkClaims()
	if n := h.db.count("payments"); n != clients {
		h.t.Errorf("there are %d payments, want %d", n, clients)
	}
	// An outcome is stored once, and an unknown gets its proof once, whoever looked.
	for _, kind := range []string{"completed", "resolved"} {
		for _, twice := range h.db.read(`SELECT resource_id, count(*) FROM events WHERE type = ?
			GROUP BY resource_id HAVING count(*) > 1`, kind) {
			h.t.Errorf("more than one event %q: %s", kind, twice)
		}
	}
	if open := h.db.one(`SELECT count(*) FROM idempotency_keys WHERE status <> 'completed'`); open != "0" {
		h.t.Errorf("%s keys are open", open)
	}
}

// stormy asks for a kill at every killEvery-th send; every other time the
// provider acts before.
func stormy(kill chan<- struct{}) func(*passage) {
	var sends, asked atomic.Int64
	never := newGate()
	return func(p *passage) {
		if sends.Add(1)%killEvery != 0 {
			p.pass()
			return
		}
		n := asked.Add(1)
		if n > stormKills {
			p.pass()
			return
		}
		if n%2 == 0 {
			p.forward()
		}
		select {
		case kill <- struct{}{}:
		case <-p.p.over:
		}
		p.hold(never) // until its sender is dead
	}
}

// payAndGiveBack is a client that does not give up.
func (h *house) payAndGiveBack(pick func() server, i int) {
	order := fmt.Sprintf("o-%d", i)
	paid := h.persist(pick, paymentOf(fmt.Sprintf("k-pay-%d", i), order, "tok_ok", 1000+i))
	if id := paid.named("id"); id != "" {
		h.persist(pick, refund(id, fmt.Sprintf("k-back-%d", i), 100+i))
	}
}

// persist sends the request to whichever server is picked until it is created.
func (h *house) persist(pick func() server, r request) (got reply) {
	for deadline := time.Now().Add(stormEnd); time.Now().Before(deadline); time.Sleep(clientPause) {
		var err error
		if got, err = pick().send(r); err != nil {
			continue // that server is gone
		}
		if !got.open() {
			break
		}
	}
	if got.status != http.StatusCreated {
		h.t.Errorf("key %s ended with %d: %s", r.key, got.status, got.body)
	}
	h.note(r, got)
	return got
}

// note keeps the first success that a client was told of.
func (h *house) note(r request, got reply) {
	if got.status == http.StatusCreated {
		h.told.LoadOrStore(r.key, told{r, got})
	}
}

// told is a success that a client was told of.
type told struct {
	request request
	reply   reply
}
