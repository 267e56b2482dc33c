package storetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/storetest"
)

// counting is a transaction that counts what reaches it.
type counting struct{ execs, queries int }

func (c *counting) Exec(context.Context, string, ...any) (int64, error) {
	c.execs++
	return 1, nil
}

func (c *counting) Query(context.Context, string, ...any) (onlyonce.Rows, error) {
	c.queries++
	return noRows{}, nil
}

type noRows struct{ onlyonce.Rows }

func (noRows) Close() error { return nil }

// TestFaulty fails one call, before or after it ran, and no other.
func TestFaulty(t *testing.T) {
	lost := errors.New("lost")
	for _, after := range []bool{false, true} {
		for at := range 6 {
			tx := &counting{}
			f := &storetest.Faulty{FailAt: at, Err: lost, After: after}
			wrapped := f.Wrap(tx)
			for call := 1; call <= 4; call++ {
				var err error
				if call%2 == 1 {
					_, err = wrapped.Exec(t.Context(), "")
				} else {
					_, err = wrapped.Query(t.Context(), "")
				}
				if errors.Is(err, lost) != (call == at) {
					t.Errorf("to fail at %d, call %d: %v", at, call, err)
				}
			}
			reached := 4
			if at >= 1 && at <= 4 && !after {
				reached = 3
			}
			if tx.execs+tx.queries != reached || f.Calls != 4 || f.Failed() != (at >= 1 && at <= 4) {
				t.Errorf("to fail at %d: %d reached the database, %d counted, failed %v",
					at, tx.execs+tx.queries, f.Calls, f.Failed())
			}
		}
	}
}
