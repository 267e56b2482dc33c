package sqlstore

import (
	"context"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
)

// Due lists rows whose time has come, oldest first, at most limit, without
// locking them and without their outcomes.
func (s *Store) Due(ctx context.Context, tx onlyonce.Tx, status onlyonce.Status, limit int) ([]onlyonce.Record, error) {
	text, ok := s.d.sql.due[string(status)]
	if !ok {
		return nil, fmt.Errorf("sqlstore: keys with status %q are never due", status)
	}
	return query(ctx, tx, (*row).summary, text, s.skew(), s.skew(), limit)
}

// List returns an account's keys, newest first, at most limit, without their
// outcomes. The next page begins after the last key of the one before; the
// first has an empty after. It fails when after names no key: a page must not
// end silently because its bookmark has been reaped.
func (s *Store) List(ctx context.Context, tx onlyonce.Tx, account, after string, limit int) ([]onlyonce.Record, error) {
	if after == "" {
		return query(ctx, tx, (*row).summary, s.d.sql.list, s.skew(), account, limit)
	}
	var created int64
	found, err := scalar(ctx, tx, &created, s.d.sql.createdAt, account, after)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("list keys of account %q: there is no key %q to go on after", account, after)
	}
	return query(ctx, tx, (*row).summary, s.d.sql.listAfter, s.skew(), account, created, created, after, limit)
}
