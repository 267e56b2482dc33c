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
	h.checkRivals(f.any)
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
// of one payment that together are more than it: one payment, and no more given
// back than was taken.
func (h *house) checkRivals(pick func() server) {
	h.t.Helper()
	before := len(h.ledger())
	settle := func(requests []request) (won []reply) {
		replies := make([]reply, len(requests))
		var wg sync.WaitGroup
		for i, r := range requests {
			wg.Go(func() {
				for deadline := time.Now().Add(stormEnd); time.Now().Before(deadline); time.Sleep(clientPause) {
					var err error
					if replies[i], err = pick().send(r); err == nil && !replies[i].open() {
						return
					}
				}
			})
		}
		wg.Wait()
		for _, got := range replies {
			if got.status == http.StatusCreated {
				won = append(won, got)
			}
		}
		return won
	}
	var pays, backs []request
	for i := range rivals {
		pays = append(pays, paymentOf(fmt.Sprintf("k-rival-%d", i), "o-rival", "tok_ok", 1000))
	}
	paid := settle(pays)
	if len(paid) != 1 {
		h.t.Fatalf("%d keys paid for one order", len(paid))
	}
	for i := range rivals {
		backs = append(backs, refund(paid[0].named("id"), fmt.Sprintf("k-rival-back-%d", i), 500))
	}
	back := settle(backs)
	if len(back) == 0 || len(back) > 2 {
		h.t.Errorf("%d refunds of 500 of a payment of 1000 succeeded", len(back))
	}
	if n := len(h.ledger()) - before; n != 1+len(back) {
		h.t.Errorf("the provider's ledger has %d more entries, want %d", n, 1+len(back))
	}
}

// Two servers on a Galera cluster, all its nodes named, while one node after
// the other is killed with kill -9 and comes back.
func TestClusterGalera(t *testing.T) {
	onCluster(t)
	g := cluster.NewGalera(t)
	const watched = 2 // the node that the test looks at is not killed
	db := at(t, "mysql", g.Nodes[watched], "", "")
	db.write("CREATE DATABASE " + clusterName)
	h := newHouse(t)
	h.use(hosts(t, clusterName, g.Nodes[:]...), at(t, "mysql", g.Nodes[watched], clusterName, "wsrep_sync_wait=7"))
	h.storm(2, func(n int) {
		victim := n % watched
		g.KillNode(victim)
		g.Rejoin(victim)
		g.WaitSynced()
	})
}

// Two servers on a PostgreSQL pair, whose primary is killed with kill -9 and
// its synchronous standby promoted.
func TestClusterPostgresPair(t *testing.T) {
	onCluster(t)
	p := cluster.NewPostgresPair(t)
	at(t, "postgres", p.URLs[p.Primary()], "postgres", "").write("CREATE DATABASE " + clusterName)
	h := newHouse(t)
	look := func() database { return at(t, "postgres", p.URLs[p.Primary()], clusterName, "") }
	h.use(hosts(t, clusterName, p.URLs[:]...), look())
	h.storm(1, func(int) {
		p.KillPrimary()
		p.Promote()
		h.db = look()
		p.Rebuild()
	})
}
