package integration_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

// onCluster skips a test unless clusters are asked for; make test says so at
// its end.
func onCluster(t *testing.T) {
	t.Helper()
	if os.Getenv(cluster.Variable) != "1" {
		t.Skip("clusters are not part of this run: make clusters runs them")
	}
}

// hosts is one URL that names all members, in order of failover.
func hosts(t *testing.T, name string, members ...string) string {
	t.Helper()
	var list []string
	var u *url.URL
	for _, member := range members {
		var err error
		if u, err = url.Parse(member); err != nil {
			t.Fatal(err)
		}
		list = append(list, u.Host)
	}
	u.Host, u.Path = strings.Join(list, ","), "/"+name
	return u.String()
}

// at is the database on one member, for the test's own looks.
func at(t *testing.T, dialect, member, name, parameters string) database {
	t.Helper()
	u, err := url.Parse(member)
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawQuery = "/"+name, parameters
	pool, err := engines.Open(u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return database{t: t, dialect: dialect, pool: pool}
}

const (
	clusterName  = "payments"
	clusterFleet = 2
	// struckEvery is after how many sends to the provider the cluster is struck.
	struckEvery = 20
	rivals      = 3 // keys for one order, and refunds of one payment
)

// storm lets clients pay and give back at two servers while the cluster is
// struck, and rivals pay for one order and give back more than there is. struck
// runs between two blows' worth of sends.
func (h *house) storm(blows int, strike func(n int)) {
	h.t.Helper()
	f := &fleet{h: h, flags: []string{"--lease", fleetLease.String(), "--provider-timeout", "2s"}}
	for range clusterFleet {
		f.grow()
	}
	blow := make(chan struct{}, blows)
	var sends atomic.Int64
	h.proxy.does(func(p *passage) {
		if n := sends.Add(1); n%struckEvery == 0 && n <= int64(blows)*struckEvery {
			blow <- struct{}{}
		}
		p.pass()
	})
	done := make(chan int)
	go func() { done <- h.payUntil(f.any, func() bool { return sends.Load() > int64(blows)*struckEvery }) }()
	struck, clients, over := 0, 0, false
	for !over || struck < blows { // the last blow may come together with the end
		select {
		case <-blow:
			strike(struck)
			struck++
		case clients = <-done:
			over = true
			done = nil
		}
	}
	h.checkStorm(f.any(), clients)
	h.checkRivals(f.any, 0)
}

// payUntil runs groups of clients until enough was sent, and returns how many
// clients there were.
func (h *house) payUntil(pick func() server, enough func() bool) (clients int) {
	const group = 8
	for {
		var wg sync.WaitGroup
		for range group {
			i := clients
			clients++
			wg.Go(func() { h.payAndGiveBack(pick, i) })
		}
		wg.Wait()
		if enough() {
			return clients
		}
	}
}

// checkRivals has several keys pay for one order at once, and several refunds
// of one payment that together are more than it, each of them sent twice at the
// same moment: one payment, and no more given back than was taken.
func (h *house) checkRivals(pick func() server, round int) {
	h.t.Helper()
	before := len(h.ledger())
	var pays, backs []request
	for i := range rivals {
		key := fmt.Sprintf("k-rival-%d-%d", round, i)
		pays = append(pays, paymentOf(key, fmt.Sprintf("o-rival-%d", round), "tok_ok", 1000))
	}
	paid := h.settle(pick, pays)
	if len(paid) != 1 {
		h.t.Fatalf("round %d: %d keys paid for one order: %v", round, len(paid), paid)
	}
	for i := range rivals {
		backs = append(backs, refund(paid[0], fmt.Sprintf("k-rival-back-%d-%d", round, i), 500))
	}
	back := h.settle(pick, backs)
	if len(back) == 0 || len(back) > 2 {
		h.t.Errorf("round %d: %d refunds of 500 of the payment %s of 1000 succeeded: %v", round, len(back), paid[0], back)
	}
	// The provider refuses too much as well: what we asked it for must not have been too much.
	if n := h.db.one(`SELECT count(*) FROM refunds WHERE payment_id = ?`, paid[0]); n != fmt.Sprint(len(back)) {
		h.t.Errorf("round %d: %s refunds of the payment %s were sent, and %d succeeded", round, n, paid[0], len(back))
	}
	if n := len(h.ledger()) - before; n != 1+len(back) {
		h.t.Errorf("round %d: the provider's ledger has %d more entries, want %d", round, n, 1+len(back))
	}
}

// settle sends each request from two clients at once until both have the last
// word, which must be the same, and returns the ids of what was made.
func (h *house) settle(pick func() server, requests []request) (made []string) {
	h.t.Helper()
	const twins = 2
	replies := make([][twins]reply, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		for twin := range twins {
			wg.Go(func() {
				for deadline := time.Now().Add(stormEnd); time.Now().Before(deadline); time.Sleep(clientPause) {
					got, err := pick().send(r)
					if replies[i][twin] = got; err == nil && !got.open() {
						return
					}
				}
				h.t.Errorf("key %s had no last word in %v: %s", r.key, stormEnd, replies[i][twin].body)
			})
		}
	}
	wg.Wait()
	for _, got := range replies {
		got[0].checkSame(h.t, got[1])
		if got[0].status == http.StatusCreated {
			made = append(made, got[0].named("id"))
		}
	}
	return made
}

// watched is the node that the test looks at, which is not struck.
const watched = 2

// newGaleraHouse has its database on a Galera cluster, all of whose nodes its
// servers know.
func newGaleraHouse(t *testing.T) (*house, *cluster.Galera) {
	t.Helper()
	g := cluster.NewGalera(t)
	at(t, "mysql", g.Nodes[watched], "", "").write("CREATE DATABASE " + clusterName)
	h := newHouse(t)
	h.use(hosts(t, clusterName, g.Nodes[:]...), at(t, "mysql", g.Nodes[watched], clusterName, "wsrep_sync_wait=7"))
	return h, g
}

// Two servers on a Galera cluster, all its nodes named, while one node after
// the other is killed with kill -9 and comes back.
func TestClusterGalera(t *testing.T) {
	onCluster(t)
	h, g := newGaleraHouse(t)
	h.storm(2, func(n int) {
		victim := n % watched
		g.KillNode(victim)
		g.Rejoin(victim)
		g.WaitSynced()
	})
}

// Two servers that write at different nodes at once, although one node at a
// time is the documented way: no lock of the one holds up the other, and only
// guards decide. One payment for each order, and never more given back than was
// taken.
func TestClusterGaleraTwoWriters(t *testing.T) {
	onCluster(t)
	h, g := newGaleraHouse(t)
	f := &fleet{h: h}
	for i := range clusterFleet {
		f.flags = []string{"--lease", "30s", "--provider-timeout", "10s", "--db", hosts(t, clusterName, g.Nodes[i])}
		f.grow()
	}
	const meetings = 15
	for round := range meetings {
		h.checkRivals(f.any, round)
	}
	h.checkClaims()
}

// A server whose only node is cut off from the others does nothing and says so,
// while another goes on; when the node is back the server gives the answers of
// the other.
func TestClusterGaleraCutOff(t *testing.T) {
	onCluster(t)
	h, g := newGaleraHouse(t)
	const outcast = 1
	lonely := h.serve("--db", hosts(t, clusterName, g.Nodes[outcast]))
	other := h.serve()
	r := payment("k-cut", "42", "tok_ok")
	g.Isolate(outcast, true)
	for range 3 { // it does not change its mind
		got := lonely.must(r)
		got.is(t, http.StatusServiceUnavailable, "unavailable")
		got.checkOpen(t)
	}
	if n := h.proxy.arrived(); n != 0 {
		t.Errorf("a server without a cluster has sent %d times to the provider", n)
	}
	paid := other.final(r, patience)
	paid.is(t, http.StatusCreated, "")
	g.Isolate(outcast, false)
	lonely.final(r, patience).checkReplay(t, paid)
	h.moved("charge 2500")
	h.checkClaims()
}

// newPairHouse has its database on a PostgreSQL pair.
func newPairHouse(t *testing.T) (*house, *cluster.PostgresPair) {
	t.Helper()
	p := cluster.NewPostgresPair(t)
	at(t, "postgres", p.URLs[p.Primary()], "postgres", "").write("CREATE DATABASE " + clusterName)
	h := newHouse(t)
	h.use(hosts(t, clusterName, p.URLs[:]...), h.db)
	h.lookAt(p)
	return h, p
}

// lookAt has the test look at the member that takes writes.
func (h *house) lookAt(p *cluster.PostgresPair) {
	h.t.Helper()
	h.db = at(h.t, "postgres", p.URLs[p.Primary()], clusterName, "")
}

// Two servers on a PostgreSQL pair, whose primary is killed with kill -9 and
// its synchronous standby promoted.
func TestClusterPostgresPair(t *testing.T) {
	onCluster(t)
	h, p := newPairHouse(t)
	h.storm(1, func(int) {
		p.KillPrimary()
		p.Promote()
		h.lookAt(p)
		p.Rebuild()
	})
}
