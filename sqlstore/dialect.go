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
	// judges leases. It holds one ?, which takes Options.Skew in microseconds.
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

	lockTimeout func(err error) bool // another transaction held a lock for all of Options.BusyWait
	endsTx      func(err error) bool // the transaction is gone: another statement would run outside it, or fail
	endsConn    func(err error) bool // the connection lives and can't write any more: it must not serve anybody else
	rolledBack  func(err error) bool // COMMIT failed, and it is certain that nothing became durable

	oneWriter        bool                   // writers take turns in the whole database, so they queue in process
	begin            func(o Options) string // a transaction for writing, with bounded waits for locks
	commit, rollback string
	snapshot         []string // begin a transaction that only reads, on one view of the data
	// standby is a query: whether COMMIT waits for another server, so that what
	// can be read may not have got there yet. Empty: it never does.
	standby  string
	settings string                   // a query: the settings that can lose a commit, in words, or an empty text
	fewer    func(err error) string   // settings for a server that does not know one of them, else ""; nil: none
	session  func(o Options) []string // what each connection of our own is told first
	sql      statements
	schema   schemaStatements
	goose    goose.Dialect

	// adopt checks the settings of a connection that is not ours and readies it
	// for Do, before its transaction begins; restore undoes that before the
	// connection goes back. nil: there is nothing to ready.
	adopt      func(ctx context.Context, conn *sql.Conn, o Options) (restore func() error, err error)
	boundLocks func(o Options) string // the first statement in a transaction that Do began; nil: none

	// guardCommit lets a driver's connection commit only once it is armed; nil
	// where a transaction can't end behind its owner's back.
	guardCommit   func(conn any) *commitGuard
	refusedCommit func(err error) bool // by such a guard
	// certain runs COMMIT, and makes an error of an answer that leaves doubt; nil
	// where the server has no way to say so.
	certain func(conn *sql.Conn, commit func() error) error

	upkeep func(ctx context.Context, conn *sql.Conn, o Options) error // nil: nothing to do
	open   func(ctx context.Context, url string, o Options) (handles, error)
	pool   func(url string, o Options) (*sql.DB, error)
	// failover says why several hosts could lose a commit when one of them
	// fails, or an empty text; nil where there is one host at most.
	failover func(ctx context.Context, db *sql.DB) (fault string, err error)
}

// handles are a database as a dialect opened it.
type handles struct {
	writer, readers *sql.DB
	present         func() error // says that the database is not the one that was opened any more
}

// check asks for a connection's settings and refuses those that can lose a
// commit.
func (d Dialect) check(ask func(query string) (fault string, err error)) error {
	fault, err := ask(d.settings)
	if err != nil && d.fewer != nil {
		if text := d.fewer(err); text != "" {
			fault, err = ask(text)
		}
	}
	if err != nil {
		return fmt.Errorf("read the connection's settings: %w", err)
	}
	if fault != "" {
		return fmt.Errorf("%w: %s", ErrUnsafeSettings, fault)
	}
	return nil
}

// retryable reports that a transaction was rolled back for a rival's sake and
// that waiting longer for a turn is not what failed.
func (d Dialect) retryable(err error) bool {
	return d.lostRace(err) && !errors.Is(err, ErrBusy) && !errors.Is(err, onlyonce.ErrCommitUnknown)
}

func (d Dialect) lostRace(err error) bool { return errors.Is(err, ErrRaced) || d.Retryable(err) }

// classed marks errors of the connection, the disk and the locks, so that
// callers can tell them from those of the work.
func (d Dialect) classed(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, onlyonce.ErrCommitUnknown):
		return err
	case errors.Is(err, onlyonce.ErrInFlight):
		return err // the wait for a lock was the wait for the original
	case d.lostRace(err) || d.lockTimeout(err):
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
	case ctx.Err() != nil || d.Retryable(err) || d.lockTimeout(err):
		return fmt.Errorf("%w: %s: %w", ErrBusy, doing, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, doing, err)
}
