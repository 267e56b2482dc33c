package clusters_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

// A standby that does not answer makes every COMMIT hang. Clients are told
// that it is unknown, after the commit wait, or at once when somebody cancels
// the COMMIT, which PostgreSQL then calls a success. The primary is killed and
// the standby promoted: these commits are gone, no client was told of them, and
// each client's retry has its effect once.
func TestPostgresStandbyIsFrozen(t *testing.T) {
	p := cluster.NewPostgresPair(t)
	c := newCrowd(t, onPair(t, p))
	const before, hung = 10, wallets - 1 // a COMMIT that hangs keeps its wallet; one is left for the last
	for n := range before {
		c.intend(n)
	}
	p.FreezeStandby()
	unknown := make(chan time.Duration, hung)
	for n := range hung {
		go func() { unknown <- c.unanswered(before + n) }()
	}
	for range hung {
		if took := <-unknown; took < commitWait {
			t.Errorf("a COMMIT that hangs was unknown after %v, before the commit wait of %v is over", took, commitWait)
		}
	}
	go func() { unknown <- c.unanswered(before + hung) }()
	eventually(t, "the last COMMIT waits for the standby", func() bool { return c.waiting() == hung+1 })
	c.exec(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'
		ORDER BY xact_start DESC LIMIT 1`)
	if took := <-unknown; took >= commitWait {
		t.Errorf("the cancelled COMMIT took %v", took)
	}
	p.KillPrimary()
	p.Promote()
	c.pools[0].SetMaxIdleConns(0) // those lead to the killed primary
	if n := c.count(`SELECT count(*) FROM clusters_effects`); n != before {
		t.Fatalf("%d effects are on the promoted standby, want the %d of before it froze", n, before)
	}
	for n := range hung + 1 {
		c.intend(before + n)
	}
	c.audit(0)
	t.Logf("%d commits hung, one was cancelled; all were unknown, and all were gone", hung+1)
}

// unanswered is a client whose COMMIT gets no answer that proves anything. It
// returns how long its client waited.
func (c *crowd) unanswered(n int) time.Duration {
	begun := time.Now()
	name := intentName(n)
	if res, err := c.try(0, intent(name), n%wallets, name+"-unanswered"); !errors.Is(err, onlyonce.ErrCommitUnknown) {
		c.t.Errorf("%s: %s, %v, want %v", name, res.Outcome.Body, err, onlyonce.ErrCommitUnknown)
	}
	return time.Since(begun)
}

// waiting is the number of transactions that wait for the standby.
func (c *crowd) waiting() int {
	return c.count(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
}

func (c *crowd) count(query string) (n int) {
	c.t.Helper()
	if err := c.pools[0].QueryRowContext(c.t.Context(), query).Scan(&n); err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	return n
}
