package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

const duplicates = 32 // requests for one key at the same moment

// storm runs f in n goroutines that start together.
func storm(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// testClaimStorm lets many claim one key: one wins, and all agree on who.
func testClaimStorm(t *testing.T, s Subject) {
	owners := make([]onlyonce.Token, duplicates)
	storm(duplicates, func(i int) {
		err := s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			c := []onlyonce.Claim{claim("k", onlyonce.Token(fmt.Sprint(i)))}
			recs, err := s.Store.Claim(ctx, tx, c)
			if err == nil {
				owners[i] = recs[0].Owner
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	for i, owner := range owners {
		if owner == "" || owner != owners[0] {
			t.Errorf("claim %d saw the owner %q, claim 0 %q", i, owner, owners[0])
		}
	}
}

// testTakeOverStorm lets many take over one lapsed claim: one wins.
func testTakeOverStorm(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := once.Begin(ctx, tx, intent("k", "body"))
		return err
	})
	s.Skew(once.Lease())
	var won, refused atomic.Int32
	storm(duplicates, func(int) {
		err := s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			_, err := once.Begin(ctx, tx, intent("k", "body"))
			return err
		})
		switch {
		case err == nil:
			won.Add(1)
		case errors.Is(err, onlyonce.ErrInFlight):
			refused.Add(1)
		default:
			t.Error(err)
		}
	})
	if won.Load() != 1 || refused.Load() != duplicates-1 {
		t.Errorf("%d won, %d were refused", won.Load(), refused.Load())
	}
	if rec := load(t, s, intent("k", "").Key); rec.Attempt != 2 {
		t.Errorf("attempt %d, want 2", rec.Attempt)
	}
}

// testTombstonesOff expects an expired key to be a new intent at once.
func testTombstonesOff(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{Retention: keep, Tombstones: -1})
	finish(t, s, once, "k")
	s.Skew(keep)
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		d, err := once.Begin(ctx, tx, intent("k", "another body"))
		if err == nil && (d.Claim == nil || d.Claim.Attempt != 1) {
			t.Errorf("decision %+v, want a first claim", d)
		}
		return err
	})
}

// finish runs a key from its claim to its outcome.
func finish(t *testing.T, s Subject, once *onlyonce.Engine, key string) {
	t.Helper()
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		d, err := once.Begin(ctx, tx, intent(key, "body"))
		if err != nil {
			return err
		}
		return once.Finish(ctx, tx, *d.Claim, onlyonce.Outcome{Status: 201, Body: []byte(key)})
	})
}

// testDueOrder expects the oldest first, no more than asked for, and no
// outcome in memory.
func testDueOrder(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{Retention: keep})
	names := []string{"c", "a", "b"}
	for i, name := range names {
		s.Skew(time.Duration(i) * time.Minute)
		finish(t, s, once, name)
	}
	s.Skew(2 * keep)
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		for limit := range len(names) + 2 {
			recs, err := s.Store.Due(ctx, tx, onlyonce.Completed, limit)
			if err != nil {
				return err
			}
			if len(recs) != min(limit, len(names)) {
				t.Errorf("limit %d: %d rows", limit, len(recs))
			}
			for i, rec := range recs {
				if rec.Key.Name != names[i] || rec.Outcome != nil || !rec.Expired() {
					t.Errorf("limit %d, row %d: %+v, want key %s and no outcome", limit, i, rec, names[i])
				}
			}
		}
		return nil
	})
}

// testClocks opens the database twice, with clocks that differ. A lease is
// judged by the database's clock, so a difference smaller than the lease
// steals nothing; a larger one is a database whose clock jumped, and then
// fencing keeps the effect single.
func testClocks(t *testing.T, s Subject) {
	other := s.Again(t)
	once, theirs := engine(t, s, onlyonce.Options{}), engine(t, other, onlyonce.Options{})
	for i, ahead := range []time.Duration{20 * time.Second, -20 * time.Second, -time.Minute, time.Minute} {
		key := fmt.Sprintf("k%d", i)
		var mine onlyonce.Decision
		in(t, s, func(ctx context.Context, tx onlyonce.Tx) (err error) {
			mine, err = once.Begin(ctx, tx, intent(key, "body"))
			return err
		})
		other.Skew(ahead)
		var stolen onlyonce.Decision
		err := other.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) (err error) {
			stolen, err = theirs.Begin(ctx, tx, intent(key, "body"))
			return err
		})
		if ahead < once.Lease() {
			if !errors.Is(err, onlyonce.ErrInFlight) {
				t.Errorf("%v ahead: %v, want ErrInFlight", ahead, err)
			}
			continue
		}
		if err != nil || stolen.Claim == nil || stolen.Claim.Attempt != 2 {
			t.Fatalf("%v ahead: %+v %v, want the second attempt", ahead, stolen, err)
		}
		err = s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			return once.Finish(ctx, tx, *mine.Claim, onlyonce.Outcome{Status: 201})
		})
		if !errors.Is(err, onlyonce.ErrFenced) {
			t.Errorf("%v ahead: the first owner's finish: %v, want ErrFenced", ahead, err)
		}
	}
}
