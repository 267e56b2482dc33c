package integration_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// fleet is several servers on one database. Clients go to any of them.
type fleet struct {
	h     *house
	flags []string

	mu  sync.Mutex
	all []server
}

func (f *fleet) grow() {
	s := f.h.serve(f.flags...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, s)
}

// any is one of the servers, whether it lives or not, as a load balancer picks.
func (f *fleet) any() server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[rand.IntN(len(f.all))]
}

func (f *fleet) at(i int) server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[i]
}

// replace kills a server with kill -9 and starts another in its place.
func (f *fleet) replace(i int) {
	f.at(i).kill()
	s := f.h.serve(f.flags...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i] = s
}

const (
	fleetSize   = 3
	fleetLease  = 4 * time.Second
	blowEvery   = 8 // sends to the provider
	blows       = 4
	lostAnswers = 5 // one in so many
)

// Three servers share one database, and the work: under load two are killed
// with kill -9 and one is stopped past its lease and goes on, twice. Some of the
// provider's answers are lost as well. Nothing is lost, nothing is doubled, and
// each unknown is resolved once.
func TestManyServersShareTheWork(t *testing.T) {
	t.Parallel()
	onServers(t, testManyServersShareTheWork)
}

func testManyServersShareTheWork(t *testing.T, e engines.Engine) {
	h := newHouseOn(t, e)
	f := &fleet{h: h, flags: []string{"--lease", fleetLease.String(), "--provider-timeout", "2s"}}
	for range fleetSize {
		f.grow()
	}
	blow := make(chan struct{}, blows)
	var sends atomic.Int64
	h.proxy.does(func(p *passage) {
		n := sends.Add(1)
		if n%blowEvery == 0 && n <= blows*blowEvery {
			blow <- struct{}{}
		}
		if got := p.forward(); n%lostAnswers == 0 {
			p.cut()
		} else {
			p.answer(got)
		}
	})
	var clients sync.WaitGroup
	for i := range stormClients {
		clients.Go(func() { h.payAndGiveBack(f.any, i) })
	}
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	struck, over := 0, false
	for !over {
		select {
		case <-blow:
			f.strike(struck)
			struck++
		case <-done:
			over = true
		}
	}
	if struck < blows/2 {
		t.Errorf("only %d servers were killed or stopped", struck)
	}
	h.checkStorm(f.any(), stormClients)
	if n := h.db.one(`SELECT count(*) FROM events WHERE type = 'resolved'`); n == "0" {
		t.Error("no unknown had to be resolved")
	}
	f.checkShares()
}

// strike kills one server, or stops one until the lease of what it held is
// over; the others work meanwhile.
func (f *fleet) strike(n int) {
	victim := n % fleetSize
	if n%2 == 0 {
		f.replace(victim)
		return
	}
	f.at(victim).pauseFor(fleetLease + sweepEvery)
}

// checkShares checks that none of the servers was only there.
func (f *fleet) checkShares() {
	f.h.t.Helper()
	for i := range fleetSize {
		if s := f.at(i); s.logged("msg=answered") == 0 {
			f.h.t.Errorf("server %d has not concluded anything", i)
		}
	}
}
