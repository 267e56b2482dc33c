package integration_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
	h := newHouse(t)
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
			wg.Go(func() { payAndGiveBack(t, &now, i) })
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
	var want []string
	for i := range stormClients {
		want = append(want, fmt.Sprintf("charge %d", 1000+i), fmt.Sprintf("refund %d", 100+i))
	}
	h.proxy.settled(t)
	h.moved(want...)
	h.checkClaims()
	if n := h.db.count("payments"); n != stormClients {
		t.Errorf("there are %d payments, want %d", n, stormClients)
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
func payAndGiveBack(t *testing.T, now *atomic.Pointer[server], i int) {
	order := fmt.Sprintf("o-%d", i)
	paid := persist(t, now, paymentOf(fmt.Sprintf("k-pay-%d", i), order, "tok_ok", 1000+i))
	if id := paid.named("id"); id != "" {
		persist(t, now, refund(id, fmt.Sprintf("k-back-%d", i), 100+i))
	}
}

// persist sends the request to whichever server there is until it is created.
func persist(t *testing.T, now *atomic.Pointer[server], r request) (got reply) {
	for deadline := time.Now().Add(stormEnd); time.Now().Before(deadline); time.Sleep(clientPause) {
		var err error
		if got, err = now.Load().send(r); err != nil {
			continue // that server is gone
		}
		if !got.open() {
			break
		}
	}
	if got.status != http.StatusCreated {
		t.Errorf("key %s ended with %d: %s", r.key, got.status, got.body)
	}
	return got
}
