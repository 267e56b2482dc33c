package storetest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// Subject is one opened store, as a process would have it.
type Subject struct {
	Store onlyonce.Store
	Tx    onlyonce.Transactor
	// Skew sets by how much this store's now is ahead of the real clock of its
	// database; negative: behind.
	Skew func(d time.Duration)
	// Again opens the same database once more, as a second process would, with
	// a skew of its own.
	Again func(t *testing.T) Subject
	// Do runs a local effect, as sqlstore.Do does, and reports whether the
	// outcome was replayed. Nil: the adapter has none, and its tests are skipped.
	Do func(ctx context.Context, once *onlyonce.Engine, in onlyonce.Intent, effect Effect) (
		o onlyonce.Outcome, replayed bool, err error)
	// Reruns counts the transactions that were run again because they had lost
	// against others. Nil: that is not known, or loses for no reason, as
	// PostgreSQL does when it serializes and keeps watch over whole pages.
	Reruns func() int64
}

// Effect is a change to the database that must happen once.
type Effect func(ctx context.Context, tx onlyonce.Tx) (onlyonce.Outcome, error)

// Harness is what a store gives to be tested.
type Harness struct {
	// Keys is how many keys are used side by side where they must not get into
	// each other's way. 0: 10,000.
	Keys int
	// Open opens a database with the tables of the keys, all of them empty, and
	// closes it with t.Cleanup. It may be one that an earlier test has used and
	// that the statements of Empty have emptied.
	Open func(t *testing.T) Subject
}

// Empty returns the statements that remove what a test leaves behind.
func Empty() []string {
	return []string{
		"DELETE FROM idempotency_keys", "DROP TABLE IF EXISTS storetest_effects", "DROP TABLE IF EXISTS storetest_accounts",
	}
}

// Run holds the store to its contract.
func Run(t *testing.T, h Harness) {
	t.Run("Scenarios", func(t *testing.T) { runScenarios(t, h) })
	many := func(t *testing.T, s Subject) { testDoManyKeys(t, s, int64(cmp.Or(h.Keys, manyKeys))) }
	tests := []struct {
		name string
		run  func(t *testing.T, s Subject)
	}{
		{"EveryStatusAndVerb", testMatrix},
		{"KeysAreBytes", testKeysAreBytes},
		{"KeysTooLong", testKeysTooLong},
		{"ManyKeysAtOnce", testManyKeys},
		{"OutcomesComeBackByteForByte", testOutcomeBytes},
		{"OutcomeHeadersAreFiltered", testOutcomeHeaders},
		{"OutcomeTooLarge", testOutcomeTooLarge},
		{"FingerprintOfAnotherRelease", testFingerprintVersion},
		{"RecordsAreComplete", testRecordFields},
		{"DueListsTheOldestFirst", testDueOrder},
		{"TombstonesOff", testTombstonesOff},
		{"ClocksThatDiffer", testClocks},
		{"StormOfClaims", testClaimStorm},
		{"StormOfTakeovers", testTakeOverStorm},
		{"ReaperAgainstRetries", testReaperStorm},
		{"CrashAtEveryStatement", testCrashLocal},
		{"CrashAtEveryStatementOfAnOutsideEffect", testCrashOutside},
		{"CrashAtRelease", testCrashRelease},
		{"PanicRollsBack", testPanic},
		{"DoRunsOnceUnderDuplicates", testDoStorm},
		{"DoRunsAgainAfterRollback", testDoRollback},
		{"DoReturnsTheEffectsError", testDoError},
		{"DoPanics", testDoPanic},
		{"DoTooLarge", testDoTooLarge},
		{"DoNeedsAFreshKey", testDoDispatched},
		{"DoRunsOnceInACrowd", testDoCrowd},
		{"DoKeepsDifferentKeysApart", many},
		{"DoHidesDeadlocks", testDoDeadlock},
		{"DoOnAHotRow", testDoHotRow},
		{"LeasesInOddHours", testCalendar},
		{"AmountsOf64Bits", testAmounts},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, h.Open(t)) })
	}
}

// in runs work in a transaction and fails the test on an error.
func in(t *testing.T, s Subject, work func(ctx context.Context, tx onlyonce.Tx) error) {
	t.Helper()
	if err := s.Tx.InTx(t.Context(), work); err != nil {
		t.Fatalf("transaction: %v", err)
	}
}

// engine returns an engine on the store.
func engine(t *testing.T, s Subject, o onlyonce.Options) *onlyonce.Engine {
	t.Helper()
	o.Store = s.Store
	e, err := onlyonce.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// account owns the keys of all tests but those about accounts.
const account = "acct_1"

// intent names a request with a key and what it asks for.
func intent(key, body string) onlyonce.Intent {
	return onlyonce.Intent{
		Key:         onlyonce.Key{Account: account, Name: key},
		Operation:   "test.effect",
		Fingerprint: onlyonce.NewFingerprint([]byte(body)),
	}
}

// claim is a first claim of a key.
func claim(key string, owner onlyonce.Token) onlyonce.Claim {
	return onlyonce.Claim{
		Intent: intent(key, "body"), Owner: owner, Attempt: 1, Lease: 30 * time.Second, Point: onlyonce.Started,
	}
}

// load reads one row without locking it.
func load(t *testing.T, s Subject, key onlyonce.Key) onlyonce.Record {
	t.Helper()
	var rec onlyonce.Record
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		recs, err := s.Store.Load(ctx, tx, []onlyonce.Key{key}, false)
		if err == nil {
			rec = recs[0]
		}
		return err
	})
	return rec
}
