package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
)

// Do runs effect at most once for the intent's key, in one transaction with
// the claim and the outcome, and gives every later call the stored outcome.
// once must have been made with a Store of this package, and db must be the
// database with its tables; Do works with any pool, one connection included.
//
// The effect does all that it does through tx, and neither commits nor rolls
// back, nor runs what commits by itself: on MySQL and MariaDB that is any DDL
// (CREATE, ALTER, TRUNCATE, LOCK TABLES). What it has done by then stays, the key
// stays without an outcome, and Do answers onlyonce.ErrUnknown from then on: the
// effect is not run again, and somebody has to look.
//
// It may run again after a rival won or a deadlock, each time with everything
// before undone, so it must not touch anything but tx. An error rolls everything
// back, the key included, and is returned: a retry may run. An effect that wants
// its failure to be final returns a failed outcome. A panic rolls back and goes
// on. ctx bounds the wait for the transaction to begin; once the claim is made
// the transaction goes on without it, and an effect that gives a context that
// ends to tx risks ErrTransactionLost. What comes after the loss can't commit: on
// SQLite with the driver modernc.org/sqlite, on PostgreSQL, and on MySQL, where
// the session is out of autocommit for the while. Options.BusyWait bounds each
// wait for a lock, the effect's own among them.
//
// A duplicate waits for the original: if that commits it gets the outcome, if
// that rolls back it runs itself. Besides the errors of Engine.Begin
// (ErrInFlight also when the original did not end within BusyWait):
// onlyonce.ErrCommitUnknown (same key again finds out),
// onlyonce.ErrTransactionLost and onlyonce.ErrOutcomeTooLarge (nothing was
// committed), ErrBusy and ErrUnavailable (nothing is durable).
func Do(ctx context.Context, once *onlyonce.Engine, db *sql.DB, in onlyonce.Intent,
	effect func(tx *sql.Tx) (onlyonce.Outcome, error)) (Result, error) {
	s, ok := once.Store().(*Store)
	if !ok {
		return Result{}, fmt.Errorf("sqlstore.Do needs an engine made with a *sqlstore.Store, not with a %T", once.Store())
	}
	c := &client{s: s, db: db}
	return s.Local(ctx, once, c, in, func() (onlyonce.Outcome, error) { return effect(c.tx) })
}

// client is database/sql, for one call of Do.
type client struct {
	s  *Store
	db *sql.DB
	tx *sql.Tx // begun last
}

// Look reads on any connection of the pool.
func (c *client) Look(context.Context) (tx onlyonce.Tx, done func(), err error) {
	return wrapped{c.db}, func() {}, nil
}

// Begin begins a transaction on a connection that was checked and readied.
func (c *client) Begin(ctx context.Context) (Session, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return Session{}, err
	}
	restore, err := c.s.adopt(ctx, conn)
	if err != nil {
		discard(conn)
		return Session{}, err
	}
	c.tx, err = c.beginOn(ctx, conn)
	if text := c.s.BoundLocks(); err == nil && text != "" {
		if _, err = c.tx.ExecContext(ctx, text); err != nil {
			_ = c.tx.Rollback() // while it is open nobody can close its connection
		}
	}
	if err != nil {
		discard(conn)
		return Session{}, err
	}
	arm, unguard := c.s.guard(conn)
	return Session{
		Tx: Wrap(c.tx),
		Commit: func() error {
			arm()
			return c.s.certain(conn, c.tx.Commit)
		},
		Rollback: c.tx.Rollback,
		Release: func(clean bool) {
			unguard()
			if clean && restore() == nil {
				_ = conn.Close() // back to the pool, which reports nothing worth knowing
				return
			}
			discard(conn)
		},
	}, nil
}

// beginOn begins within ctx a transaction that goes on without it.
func (c *client) beginOn(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	// A context that ends would end the transaction with it, so it is the
	// transaction's only until that has begun.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err := conn.BeginTx(life, &sql.TxOptions{Isolation: c.s.o.Isolation})
	if !stop() && err == nil {
		_ = tx.Rollback() // while it is open nobody can close its connection
		err = context.Cause(ctx)
	}
	return tx, err
}

// adopt checks and readies a connection that is not ours, before its
// transaction begins; restore undoes that before the connection goes back.
func (s *Store) adopt(ctx context.Context, conn *sql.Conn) (restore func() error, err error) {
	if s.d.adopt != nil {
		return s.d.adopt(ctx, conn, s.o)
	}
	return func() error { return nil }, s.CheckSettings(ctx, wrapped{conn})
}

// certain commits, and returns an error if the answer leaves doubt.
func (s *Store) certain(conn *sql.Conn, commit func() error) error {
	if s.d.certain == nil {
		return commit()
	}
	return s.d.certain(conn, commit)
}
