// Package storytest holds every example to the same story, on the engines that
// are up.
package storytest

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/onlyonce-go/onlyonce/examples/internal/story"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// transcript is the story as every example must print it on every engine.
const transcript = `
charge Alice 30 under req-42    {"balance":70}                                        alice: 70
the same again                  {"balance":70}, replayed                              alice: 70
31 under the same key           error: idempotency key is bound to another request    alice: 70
charge Bob, who has no wallet   error: bob has no wallet                              alice: 70
the same, now that he has one   {"balance":70}                                        alice: 70, bob: 70
`

// Run runs the example's tests on those of the named engines that are up.
func Run(t *testing.T, open story.Open, names ...string) {
	t.Helper()
	for _, e := range engines.Named(t, names...) {
		t.Run(e.Name, func(t *testing.T) {
			t.Run("story", func(t *testing.T) { tell(t, e, open) })
			t.Run("declined", func(t *testing.T) { declined(t, e, open) })
			t.Run("undone", func(t *testing.T) { undone(t, e, open) })
			t.Run("crowd", func(t *testing.T) { crowd(t, e, open) })
		})
	}
}

// URL makes an empty database and returns its URL as an example takes it.
func URL(t *testing.T, e engines.Engine) string {
	t.Helper()
	url := e.Database(t)
	if e.Name == engines.PgBouncer {
		url += "?default_query_exec_mode=exec" // it gives each transaction another session
	}
	return url
}

func tell(t *testing.T, e engines.Engine, open story.Open) {
	var got strings.Builder
	if err := story.Play(t.Context(), &got, URL(t, e), open); err != nil {
		t.Fatal(err)
	}
	if got.String() != transcript[1:] {
		t.Errorf("it says\n%s\nand not%s", got.String(), transcript)
	}
}

// declined is a failure that is an outcome: more units than there are, and
// still declined when there would be enough.
func declined(t *testing.T, e engines.Engine, open story.Open) {
	wallets, db := begin(t, e, open, story.Wallet, "100")
	for _, replayed := range []bool{false, true} {
		res, err := wallets.Charge(t.Context(), "req-44", "alice", 101)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(res.Outcome.Body); res.Outcome.Status != 402 || got != `{"error":"insufficient funds"}` {
			t.Errorf("101 of 100 units: %d %s", res.Outcome.Status, got)
		}
		if res.Replayed != replayed {
			t.Errorf("replayed is %v, not %v", res.Replayed, replayed)
		}
		Exec(t, db, "UPDATE wallets SET balance = 500")
	}
	if got := Balance(t, db); got != 500 {
		t.Errorf("the balance is %d, not 500", got)
	}
}

// undone is a charge that fails after it has written: half a unit can be
// charged, and not be read. What was written must go with the key, which it
// does only if it went through the key's transaction.
func undone(t *testing.T, e engines.Engine, open story.Open) {
	halves := strings.Replace(story.Wallet, "BIGINT", "DECIMAL(20, 1)", 1)
	wallets, db := begin(t, e, open, halves, "100.5")
	if res, err := wallets.Charge(t.Context(), "req-46", "alice", 30); err == nil {
		t.Errorf("70.5 units were read as %s", res.Outcome.Body)
	}
	var untouched int
	if err := db.QueryRowContext(t.Context(),
		"SELECT COUNT(owner) FROM wallets WHERE balance = 100.5").Scan(&untouched); err != nil {
		t.Fatal(err)
	}
	if untouched != 1 {
		t.Error("the charge failed, and the units are gone")
	}
}

// crowd is the same request many times at once: one of them acts.
func crowd(t *testing.T, e engines.Engine, open story.Open) {
	const callers = 8
	wallets, db := begin(t, e, open, story.Wallet, "100")
	var results [callers]sqlstore.Result
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if results[i], err = wallets.Charge(t.Context(), "req-45", "alice", 30); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first := 0
	for _, res := range results {
		if !res.Replayed {
			first++
		}
		if got := string(res.Outcome.Body); got != `{"balance":70}` {
			t.Errorf("a caller got %s", got)
		}
	}
	if got := Balance(t, db); first != 1 || got != 70 {
		t.Errorf("%d callers acted and the balance is %d, not one and 70", first, got)
	}
}

// begin opens the example on a database where Alice has so many units.
func begin(t *testing.T, e engines.Engine, open story.Open, table, units string) (story.Wallets, *sql.DB) {
	t.Helper()
	url := URL(t, e)
	wallets, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wallets.Close)
	db := e.SQL(t, url)
	Exec(t, db, table)
	Exec(t, db, "INSERT INTO wallets (owner, balance) VALUES ('alice', "+units+")")
	return wallets, db
}

// Exec runs a statement from outside of the example.
func Exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Balance is how many units Alice has.
func Balance(t *testing.T, db *sql.DB) (units int64) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), "SELECT balance FROM wallets WHERE owner = 'alice'").Scan(&units)
	if err != nil {
		t.Fatal(err)
	}
	return units
}
