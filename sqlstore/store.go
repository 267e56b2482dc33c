package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// Store keeps the rows of the keys, in the table idempotency_keys. It holds
// no transaction and no connection, and is safe for concurrent use. Its
// methods are the contract of onlyonce.Store; a caller that passes several
// keys sorts them, so that two callers never lock in opposite orders.
type Store struct {
	d     Dialect
	o     Options
	turns queue
}

var _ onlyonce.Store = (*Store)(nil)

// New returns a store that speaks d, for callers who own their database
// handle (see Do). Of the options it uses Skew, CommitWait, BusyWait,
// Isolation and Log.
func New(d Dialect, o Options) *Store {
	return &Store{d: d, o: o.withDefaults(), turns: newQueue(d.oneWriter)}
}

// Dialect returns the dialect that the store speaks.
func (s *Store) Dialect() Dialect { return s.d }

// Options returns the options with their defaults filled in.
func (s *Store) Options() Options { return s.o }

// BoundLocks returns the statement with which a transaction that is not ours
// begins, so that its waits for locks end after Options.BusyWait; "" where that
// takes none.
func (s *Store) BoundLocks() string {
	if s.d.boundLocks == nil {
		return ""
	}
	return s.d.boundLocks(s.o)
}

// CheckSettings asks a connection for its settings, outside of any transaction:
// a read in front of the claim would give that a view that is already old.
// ErrUnsafeSettings: nothing may be committed on it.
func (s *Store) CheckSettings(ctx context.Context, conn onlyonce.Tx) error {
	return s.d.check(func(text string) (fault string, err error) {
		_, err = scalar(ctx, conn, &fault, text)
		return fault, err
	})
}

// AwaitsStandby reports whether a COMMIT on this connection waits for another
// server. Then what can be read may be lost in a failover although it was
// committed: PostgreSQL shows a row whose wait was cancelled, or cut short by a
// crash. Who gives an outcome out locks its row (Load) in a transaction of his
// own and commits that, which waits in the row's stead.
func (s *Store) AwaitsStandby(ctx context.Context, tx onlyonce.Tx) (waits bool, err error) {
	if s.d.standby == "" {
		return false, nil
	}
	if _, err = scalar(ctx, tx, &waits, s.d.standby); err != nil {
		return false, fmt.Errorf("ask whether a standby is waited for: %w", err)
	}
	return waits, nil
}

// skew is the argument for each Dialect.Now in a text.
func (s *Store) skew() int64 { return s.o.Skew().Microseconds() }

// Now returns the clock that judges leases, in UTC.
func (s *Store) Now(ctx context.Context, tx onlyonce.Tx) (time.Time, error) {
	var us int64
	if _, err := scalar(ctx, tx, &us, s.d.sql.now, s.skew()); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return fromMicros(us), nil
}

// Claim inserts a row in progress for each claim whose key is absent and
// returns the rows that are stored then. How many rows the insert hit says
// nothing on some engines, so it is not asked: the owner in the row decides.
func (s *Store) Claim(ctx context.Context, tx onlyonce.Tx, claims []onlyonce.Claim) ([]onlyonce.Record, error) {
	for _, c := range claims {
		skew := s.skew()
		_, err := tx.Exec(ctx, s.d.sql.claim, c.Key.Account, c.Key.Name, []byte(c.Fingerprint), c.Operation,
			string(c.Owner), skew, c.Lease.Microseconds(), string(c.Point), c.Resource, skew)
		if err != nil && !s.d.IsDuplicate(err) {
			return nil, err
		}
	}
	return s.Load(ctx, tx, keysOf(claims), true)
}

// Load returns the rows as they are, a zero Record for an absent key.
func (s *Store) Load(ctx context.Context, tx onlyonce.Tx, keys []onlyonce.Key, lock bool) ([]onlyonce.Record, error) {
	text := s.d.sql.load
	if lock {
		text = s.d.sql.loadLocked
	}
	out := make([]onlyonce.Record, len(keys))
	for i, key := range keys {
		recs, err := query(ctx, tx, (*row).whole, text, s.skew(), key.Account, key.Name)
		if err != nil {
			return nil, err
		}
		if len(recs) > 0 {
			out[i] = recs[0]
		}
	}
	return out, nil
}

// TakeOver gives unfinished rows whose lease has lapsed to new owners and
// returns the rows stored then. The database's clock judges the lapse, in the
// statement that takes over.
func (s *Store) TakeOver(ctx context.Context, tx onlyonce.Tx, claims []onlyonce.Claim) ([]onlyonce.Record, error) {
	for _, c := range claims {
		skew := s.skew()
		_, err := tx.Exec(ctx, s.d.sql.takeOver, string(c.Owner), skew, c.Lease.Microseconds(),
			c.Key.Account, c.Key.Name, c.Attempt, skew)
		if err != nil {
			return nil, err
		}
	}
	return s.Load(ctx, tx, keysOf(claims), true)
}

// Advance writes point and resource and begins a new lease, where the row is
// still in progress and the claim's owner's.
func (s *Store) Advance(ctx context.Context, tx onlyonce.Tx, claims []onlyonce.Claim) ([]bool, error) {
	return each(claims, func(_ int, c onlyonce.Claim) (int64, error) {
		return tx.Exec(ctx, s.d.sql.advance, string(c.Point), c.Resource, s.skew(), c.Lease.Microseconds(),
			c.Key.Account, c.Key.Name, string(c.Owner))
	})
}

// Finish completes a key with its outcome, where the row is still in progress
// and the claim's owner's.
func (s *Store) Finish(ctx context.Context, tx onlyonce.Tx, claims []onlyonce.Claim, outcomes []onlyonce.Outcome,
	retention time.Duration) ([]bool, error) {
	if len(claims) != len(outcomes) {
		return nil, errors.New("sqlstore: Finish needs one outcome for each claim")
	}
	return each(claims, func(i int, c onlyonce.Claim) (int64, error) {
		o := outcomes[i]
		header, err := encodeHeader(o.Header)
		if err != nil {
			return 0, err
		}
		body := o.Body
		if body == nil {
			body = []byte{} // NULL means tombstone
		}
		skew := s.skew()
		return tx.Exec(ctx, s.d.sql.finish, c.Resource, o.Status, header, body, skew, skew, retention.Microseconds(),
			c.Key.Account, c.Key.Name, string(c.Owner))
	})
}

// Release deletes rows that are in progress, their owner's, and still at the
// point onlyonce.Started.
func (s *Store) Release(ctx context.Context, tx onlyonce.Tx, claims []onlyonce.Claim) ([]bool, error) {
	return each(claims, func(_ int, c onlyonce.Claim) (int64, error) {
		return tx.Exec(ctx, s.d.sql.release, c.Key.Account, c.Key.Name, string(c.Owner))
	})
}

// Reap turns completed rows past their retention into tombstones, then
// deletes tombstones past their time, among these keys alone.
func (s *Store) Reap(ctx context.Context, tx onlyonce.Tx, keys []onlyonce.Key, tombstones time.Duration) (
	int64, error) {
	var total int64
	for _, k := range keys {
		expired, err := tx.Exec(ctx, s.d.sql.expire, tombstones.Microseconds(), k.Account, k.Name, s.skew())
		if err != nil {
			return 0, err
		}
		forgotten, err := tx.Exec(ctx, s.d.sql.forget, k.Account, k.Name, s.skew())
		if err != nil {
			return 0, err
		}
		total += max(expired, forgotten) // a row that went through both is one row
	}
	return total, nil
}

func keysOf(claims []onlyonce.Claim) []onlyonce.Key {
	keys := make([]onlyonce.Key, len(claims))
	for i, c := range claims {
		keys[i] = c.Key
	}
	return keys
}

// each runs one fenced statement for each claim and reports which hit a row.
// Every such statement changes the row's version, so an engine that counts
// changed rows counts the same as one that counts matched rows.
func each(claims []onlyonce.Claim, run func(i int, c onlyonce.Claim) (int64, error)) ([]bool, error) {
	hit := make([]bool, len(claims))
	for i, c := range claims {
		n, err := run(i, c)
		if err != nil {
			return nil, err
		}
		hit[i] = n == 1
	}
	return hit, nil
}
