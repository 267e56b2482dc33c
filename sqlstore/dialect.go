package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"

	"github.com/onlyonce-go/onlyonce"
)

// Dialect is all that this module knows about one database engine: texts and
// a few small judgements about errors. Code above it, in this package and in
// those that keep tables of their own beside the engine's, uses these fields
// and never asks for the name.
type Dialect struct {
	// Name is the word in URLs and in the folders of migrations.
	Name string
	// Now is an SQL expression: microseconds since 1970 by the clock that
	// judges leases. It holds one placeholder, which takes Options.Skew in
	// microseconds.
	Now string
	// ForUpdate ends a SELECT whose rows stay locked until the transaction
	// ends. Empty where the transaction holds the only write lock anyway.
	ForUpdate string
	// Rebind turns the placeholders of a query written with ? into the
	// engine's own.
	Rebind func(query string) string
	// IsDuplicate reports that a statement failed because the row exists.
	IsDuplicate func(err error) bool
	// Retryable reports that the transaction lost against another one, and
	// that the whole of it may be run again.
	Retryable func(err error) bool
	// Unavailable reports that the connection, the disk or the lock failed, and
	// not the statement.
	Unavailable func(err error) bool

	endsTx     func(err error) bool // the transaction is gone: another statement would run outside it
	rolledBack func(err error) bool // COMMIT failed, and it is certain that nothing became durable

	oneWriter               bool // writers take turns in the whole database, so they queue in process
	begin, commit, rollback string
	settings                string // a query: the settings that can lose a commit, in words, or an empty text
	sql                     statements
	schema                  schemaStatements
	goose                   goose.Dialect
	// guardCommit lets a driver's connection commit only once it is armed; nil
	// where a transaction can't end behind its owner's back.
	guardCommit   func(conn any) *commitGuard
	refusedCommit func(err error) bool                                       // by such a guard
	upkeep        func(ctx context.Context, conn *sql.Conn, o Options) error // nil: nothing to do
	open          func(ctx context.Context, path string, o Options) (handles, error)
}

// handles are a database as a dialect opened it.
type handles struct {
	writer, readers *sql.DB
	present         func() error // says that the database is not the one that was opened any more
}

// statements are the engine's statements on its keys, one for each verb of
// onlyonce.Store, in the engine's own placeholders. The comment names the
// arguments in order; skew stands wherever the text says Now.
type statements struct {
	now        string            // skew
	claim      string            // account, key, body_hash, operation, owner, skew, lease, point, resource, skew
	load       string            // skew, account, key
	loadLocked string            // as load
	takeOver   string            // owner, skew, lease, account, key, attempt, skew
	advance    string            // point, resource, skew, lease, account, key, owner
	finish     string            // resource, response status, headers, body, skew, skew, retention, account, key, owner
	release    string            // account, key, owner
	expire     string            // tombstones, account, key, skew
	forget     string            // account, key, skew
	due        map[string]string // by status; skew, skew, limit
	createdAt  string            // account, key
	list       string            // skew, account, limit
	listAfter  string            // skew, account, created_at, created_at, key, limit
}

// schemaStatements are the statements on the tables that guard migrations.
type schemaStatements struct {
	create       []string
	tableExists  string // table
	insertLease  string // owner, skew, lease
	takeLease    string // owner, skew, lease, owner, skew
	leaseOwner   string
	dropLease    string // owner
	version      string // %s: version table
	incompatible string // %s: version table; set, the newest version that this program knows
	installation string
}

// retryable reports that a transaction was rolled back for a rival's sake and
// that waiting longer for a turn is not what failed.
func (d Dialect) retryable(err error) bool {
	return d.Retryable(err) && !errors.Is(err, ErrBusy) && !errors.Is(err, onlyonce.ErrCommitUnknown)
}

// classed marks errors of the connection, the disk and the locks, so that
// callers can tell them from those of the work.
func (d Dialect) classed(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, onlyonce.ErrCommitUnknown):
		return err
	case d.Retryable(err):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case d.Unavailable(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// unreached marks an error that came before the work began. When the time
// allowed for it was over the store is busy, else it can't be reached.
func (d Dialect) unreached(ctx context.Context, doing string, err error) error {
	switch {
	case errors.Is(err, ErrUnsafeSettings):
		return fmt.Errorf("%s: %w", doing, err)
	case ctx.Err() != nil || d.Retryable(err):
		return fmt.Errorf("%w: %s: %w", ErrBusy, doing, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, doing, err)
}
