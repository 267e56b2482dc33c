package onlyonce

import (
	"context"
	"time"
)

// Tx is what the engine needs of a transaction that someone else began and
// someone else ends. sqlstore.Wrap makes one from a *sql.Tx.
type Tx interface {
	// Exec runs a statement and returns the number of rows that it hit.
	Exec(ctx context.Context, query string, args ...any) (rows int64, err error)
	// Query runs a query. The caller closes the rows before the next call.
	Query(ctx context.Context, query string, args ...any) (Rows, error)
}

// Rows is the result of a query; the methods mean what they mean in
// database/sql.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Transactor runs a function in a transaction of its own: commits when it
// returns nil, rolls back when it returns an error, runs the whole of it again
// after a deadlock or a serialization failure. The function must touch nothing
// but its transaction. An error that wraps [ErrCommitUnknown] means that the
// work may be durable.
type Transactor interface {
	InTx(ctx context.Context, work func(ctx context.Context, tx Tx) error) error
}

// Store keeps the rows of the keys. sqlstore is the one implementation;
// storetest holds it to this contract.
//
// Every method takes one or many keys, each at most once per call, and answers
// in their order. Time is the database's: a lease begins at the database's now
// when the statement runs. None of the methods begins or ends a transaction,
// and after an error nothing is known but that the caller must roll back.
//
// Not an error: a key that is absent, taken, finished or someone else's. The
// returned records and flags say so.
type Store interface {
	// Claim inserts a row in progress for each claim whose key is absent
	// (status in_progress, attempt 1, point and resource as given) and returns
	// the rows that are stored then. The insert alone decides: a claim was won
	// exactly if its record carries the claim's own owner token. A record may be
	// zero if a rival's row went away in between; the caller tries again. It
	// may wait for a rival's transaction to end.
	Claim(ctx context.Context, tx Tx, claims []Claim) ([]Record, error)

	// Load returns the rows as they are, a zero Record for an absent key. With
	// lock the rows that exist stay locked until the transaction ends.
	Load(ctx context.Context, tx Tx, keys []Key, lock bool) ([]Record, error)

	// TakeOver gives unfinished rows whose lease has lapsed to new owners, where
	// the row's attempt is still Claim.Attempt, and returns the rows stored
	// then: won exactly if the record carries the claim's own token. Winning
	// adds one to the attempt and begins a new lease; point and resource stay.
	TakeOver(ctx context.Context, tx Tx, claims []Claim) ([]Record, error)

	// Advance writes point and resource and begins a new lease of Claim.Lease
	// (zero: lapsed at once). It reports for each claim whether the row was
	// still in progress and its owner's; if not, nothing was written.
	Advance(ctx context.Context, tx Tx, claims []Claim) ([]bool, error)

	// Finish completes a key with its outcome, kept for retention, and writes
	// the claim's resource. It reports for each claim whether the row was still
	// in progress and its owner's; if not, nothing was written.
	Finish(ctx context.Context, tx Tx, claims []Claim, outcomes []Outcome, retention time.Duration) ([]bool, error)

	// Release deletes rows that are in progress, their owner's, and still at
	// the point Started. It reports which it deleted.
	Release(ctx context.Context, tx Tx, claims []Claim) ([]bool, error)

	// Due lists rows whose time has come, oldest first, at most limit, without
	// locking them and without their outcomes: for InProgress those whose lease
	// has lapsed, unless they are at the point Unknown; for Completed those past
	// their retention; for Tombstone those past their own time.
	Due(ctx context.Context, tx Tx, status Status, limit int) ([]Record, error)

	// Reap turns completed rows past their retention into tombstones that last
	// for tombstones, then deletes tombstones past their time, among these keys
	// alone. Unfinished rows are never touched. It returns how many rows it
	// changed or deleted.
	Reap(ctx context.Context, tx Tx, keys []Key, tombstones time.Duration) (int64, error)
}
