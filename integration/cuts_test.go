package integration_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

const (
	cutClients = 24
	mostCuts   = 40
)

// onServers runs the test on PostgreSQL, and on one of the MySQL family.
func onServers(t *testing.T, test func(t *testing.T, e engines.Engine)) {
	t.Helper()
	for _, e := range engines.Named(t, engines.Postgres15, engines.MariaDB) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// All connections to the database are cut again and again, some of them between
// a COMMIT and its answer. Each cut COMMIT is found by the next try, or is
// unknown until then: one charge for each intent, and no 5xx once the provider
// may have been contacted.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	onServers(t, testConnectionsAreCut)
}

func testConnectionsAreCut(t *testing.T, e engines.Engine) {
	h, w := behindWire(t, e)
	s := h.serve("--lease", "6s", "--provider-timeout", "2s") // longer than any first request takes
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	cuts := w.isCutAtRandom(rand.New(rand.NewPCG(seed, 0)), mostCuts)
	var clients sync.WaitGroup
	var fives failures
	for i := range cutClients {
		clients.Go(func() {
			r := paymentOf(fmt.Sprintf("k-pay-%d", i), fmt.Sprintf("o-%d", i), "tok_ok", 1000+i)
			fives.first(h, s, r)
			paid := h.persist(func() server { return s }, r)
			if id := paid.named("id"); id != "" {
				r := refund(id, fmt.Sprintf("k-back-%d", i), 100+i)
				fives.first(h, s, r)
				h.persist(func() server { return s }, r)
			}
		})
	}
	clients.Wait()
	all, afterCommit := cuts()
	t.Logf("%d cuts, %d of them between a COMMIT and its answer, %d first requests got 5xx",
		all, afterCommit, len(fives.at))
	if all < mostCuts/4 || afterCommit == 0 {
		t.Error("the wire was hardly cut")
	}
	h.checkStorm(s, cutClients)
	fives.check(h)
}

// failures are the first requests of their keys that got a 5xx, and when.
type failures struct {
	mu sync.Mutex
	at map[string]time.Time
}

// first sends the request and keeps what can't be told from its answer yet.
func (f *failures) first(h *house, s server, r request) {
	got, err := s.send(r)
	h.note(r, got)
	if err != nil || got.status < http.StatusInternalServerError {
		return
	}
	got.checkOpen(s.client.t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	f.at[r.key] = time.Now()
}

// check holds the failures against what the proxy before the provider saw.
func (f *failures) check(h *house) {
	h.t.Helper()
	for key, told := range f.at {
		provider := h.db.one(`SELECT provider_key FROM dispatches WHERE account_id = ? AND idempotency_key = ?`, account, key)
		if sent, ok := h.proxy.first[provider]; !ok || sent.Before(told) {
			h.t.Errorf("key %s got a 5xx %v after it was sent to the provider", key, told.Sub(sent))
		}
	}
}

// The database is away, and comes back. Meanwhile nothing is run, who may have
// paid is told 202, and afterwards all goes on without a restart.
func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	onServers(t, testDatabaseIsAway)
}

func testDatabaseIsAway(t *testing.T, e engines.Engine) {
	h, w := behindWire(t, e)
	s := h.serve()
	done := payment("k-done", "", "tok_ok")
	stored := s.final(done, patience)
	g := newGate()
	h.proxy.does(func(p *passage) {
		p.hold(g)
		p.pass()
	})
	begun := paymentOf("k-begun", "", "tok_ok", 700)
	running := s.sent(begun)
	g.wait(t)
	h.db.claimed(begun.key)

	w.goesDown()
	g.open()
	h.proxy.passes()
	fresh := paymentOf("k-fresh", "", "tok_ok", 100)
	for _, r := range []request{fresh, done} {
		got := s.must(r)
		got.is(t, http.StatusServiceUnavailable, "unavailable")
		got.checkOpen(t)
	}
	if _, err := s.read("/readyz"); err == nil {
		t.Error("the server says that it is ready")
	}
	if at := h.db.key(fresh.key); at != absent {
		t.Errorf("the key is %q after 503", at)
	}
	(<-running).is(t, http.StatusAccepted, "")
	h.moved("charge 2500", "charge 700")

	w.comesUp()
	s.answers(s.base + "/readyz")
	s.must(done).checkReplay(t, stored)
	s.final(fresh, patience).is(t, http.StatusCreated, "")
	s.final(begun, lease+sweepEvery+slack).is(t, http.StatusCreated, "")
	h.moved("charge 2500", "charge 700", "charge 100")
	h.checkClaims()
}
