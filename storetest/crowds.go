package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

const (
	crowd    = 256    // callers of one key, many more than there are connections
	workers  = 64     // callers of different keys
	manyKeys = 10_000 // keys that have nothing to do with each other
)

// testDoCrowd sends one intent 256 times at once: one effect, 255 replays.
func testDoCrowd(t *testing.T, s Subject) {
	d := newDoing(t, s)
	var replays atomic.Int32
	storm(crowd, func(int) {
		o, replayed, err := d.do(t.Context(), "k", nil)
		if err != nil || string(o.Body) != "k" {
			t.Errorf("%+v %v", o, err)
		}
		if replayed {
			replays.Add(1)
		}
	})
	if replays.Load() != crowd-1 {
		t.Errorf("%d replays, want %d", replays.Load(), crowd-1)
	}
	d.done.expect("k", 1)
}

// testDoManyKeys runs effects under different keys side by side. They have
// nothing to wait for and nothing to lose against each other (case 38).
func testDoManyKeys(t *testing.T, s Subject, keys int64) {
	d := newDoing(t, s)
	var next, effects atomic.Int64
	storm(workers, func(int) {
		for {
			n := next.Add(1)
			if n > keys {
				return
			}
			// Neighbours in the index meet: that is where locks on gaps would.
			_, replayed, err := d.do(t.Context(), fmt.Sprintf("k%05d", n), func() error {
				effects.Add(1)
				return nil
			})
			if err != nil || replayed {
				t.Errorf("key %d: replayed %v, error %v", n, replayed, err)
				return
			}
		}
	})
	if s.Reruns == nil {
		return
	}
	if n := s.Reruns(); n != 0 || effects.Load() != keys {
		t.Errorf("%d effects ran for %d keys, %d transactions again, although no two had a key in common",
			effects.Load(), keys, n)
	}
}

// accounts are rows that effects of different keys fight for.
type accounts struct {
	t *testing.T
	s Subject
}

func newAccounts(t *testing.T, s Subject, ids ...string) accounts {
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := tx.Exec(ctx,
			`CREATE TABLE storetest_accounts (id VARCHAR(64) NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)`)
		return err
	})
	for _, id := range ids {
		in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
			_, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO storetest_accounts (id, balance) VALUES ('%s', 0)`, id))
			return err
		})
	}
	return accounts{t, s}
}

func (accounts) add(ctx context.Context, tx onlyonce.Tx, id string, amount int64) error {
	_, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE storetest_accounts SET balance = balance + %d WHERE id = '%s'`, amount, id))
	return err
}

func (a accounts) balance(id string) (balance int64) {
	a.t.Helper()
	in(a.t, a.s, func(ctx context.Context, tx onlyonce.Tx) error {
		rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT balance FROM storetest_accounts WHERE id = '%s'`, id))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&balance); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return balance
}

// testDoDeadlock lets two effects lock two rows in opposite orders, so that
// where rows are locked one of them is rolled back by the database. Its caller
// does not hear of it.
func testDoDeadlock(t *testing.T, s Subject) {
	d := newDoing(t, s)
	a := newAccounts(t, s, "x", "y")
	var inside sync.WaitGroup // of the first tries
	inside.Add(2)
	both := make(chan struct{})
	go func() {
		inside.Wait()
		close(both)
	}()
	orders := [][]string{{"x", "y"}, {"y", "x"}}
	storm(len(orders), func(i int) {
		first := true
		_, replayed, err := s.Do(t.Context(), d.once, intent(fmt.Sprintf("k%d", i), "body"),
			func(ctx context.Context, tx onlyonce.Tx) (o onlyonce.Outcome, err error) {
				if err := a.add(ctx, tx, orders[i][0], 1); err != nil {
					return o, err
				}
				if first {
					first = false
					inside.Done()
					meet(both)
				}
				return onlyonce.Outcome{Status: 201}, a.add(ctx, tx, orders[i][1], 1)
			})
		if err != nil || replayed {
			t.Errorf("effect %d: replayed %v, error %v", i, replayed, err)
		}
	})
	if x, y := a.balance("x"), a.balance("y"); x != 2 || y != 2 {
		t.Errorf("the rows hold %d and %d, want 2 and 2", x, y)
	}
}

// meet waits until both are inside, or until it is plain that the database lets
// one writer in at a time.
func meet(both <-chan struct{}) {
	select {
	case <-both:
	case <-time.After(200 * time.Millisecond):
	}
}

// testDoHotRow lets effects of different keys fight for one row, which they
// read before they write: nothing is lost and nobody is turned away.
func testDoHotRow(t *testing.T, s Subject) {
	const rounds = 4
	d := newDoing(t, s)
	a := newAccounts(t, s, "hot")
	storm(duplicates, func(i int) {
		for n := range rounds {
			_, _, err := s.Do(t.Context(), d.once, intent(fmt.Sprintf("k%d-%d", i, n), "body"),
				func(ctx context.Context, tx onlyonce.Tx) (onlyonce.Outcome, error) {
					if err := d.done.record(ctx, tx, "any"); err != nil {
						return onlyonce.Outcome{}, err
					}
					return onlyonce.Outcome{Status: 201}, a.add(ctx, tx, "hot", 1)
				})
			if err != nil {
				t.Errorf("worker %d, round %d: %v", i, n, err)
			}
		}
	})
	if got := a.balance("hot"); got != duplicates*rounds {
		t.Errorf("the row holds %d, want %d", got, duplicates*rounds)
	}
	d.done.expect("any", duplicates*rounds)
}
