package storetest

import (
	"context"

	"github.com/onlyonce-go/onlyonce"
)

// Faulty makes one call of the transactions that it wraps fail: the FailAt-th,
// counted from 1 over all of them. A test that runs the same work with FailAt
// 1, 2, 3, ... until Calls stays below it has crashed at every statement. It
// is not safe for concurrent use.
type Faulty struct {
	FailAt int   // 0: none fails, calls are only counted
	Err    error // what the failing call returns
	// After lets the statement run before its call fails, as if the answer had
	// been lost; otherwise it never reaches the database.
	After bool
	Calls int // how many calls of Exec and Query there were
}

// Wrap returns a transaction whose calls count and fail.
func (f *Faulty) Wrap(tx onlyonce.Tx) onlyonce.Tx { return faultyTx{tx, f} }

// Failed reports whether the call that was to fail has happened.
func (f *Faulty) Failed() bool { return f.FailAt > 0 && f.Calls >= f.FailAt }

type faultyTx struct {
	tx onlyonce.Tx
	f  *Faulty
}

// Exec runs a statement, or fails.
func (t faultyTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	t.f.Calls++
	if t.f.Calls != t.f.FailAt {
		return t.tx.Exec(ctx, query, args...)
	}
	if t.f.After {
		if _, err := t.tx.Exec(ctx, query, args...); err != nil {
			return 0, err
		}
	}
	return 0, t.f.Err
}

// Query runs a query, or fails.
func (t faultyTx) Query(ctx context.Context, query string, args ...any) (onlyonce.Rows, error) {
	t.f.Calls++
	if t.f.Calls != t.f.FailAt {
		return t.tx.Query(ctx, query, args...)
	}
	if t.f.After {
		rows, err := t.tx.Query(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		if err := rows.Close(); err != nil {
			return nil, err
		}
	}
	return nil, t.f.Err
}
