package pgxstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/pgnotice"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// Do runs effect at most once for the intent's key. All that sqlstore.Do says
// holds; once must have been made with a store that speaks PostgreSQL, and a
// pool of one connection is enough. The pool should have been made with
// WatchCommits. An effect that gives a context that ends to tx loses its
// connection, and the transaction with it.
func Do(ctx context.Context, once *onlyonce.Engine, db *pgxpool.Pool, in onlyonce.Intent,
	effect func(tx pgx.Tx) (onlyonce.Outcome, error)) (sqlstore.Result, error) {
	s, ok := once.Store().(*sqlstore.Store)
	if !ok || s.Dialect().Name != sqlstore.Postgres().Name {
		return sqlstore.Result{}, fmt.Errorf("pgxstore.Do needs an engine made with sqlstore.New(sqlstore.Postgres(), …), "+
			"not with a %T of another kind", once.Store())
	}
	c := &client{s: s, db: db}
	return s.Local(ctx, once, c, in, func() (onlyonce.Outcome, error) { return effect(c.tx) })
}

// WatchCommits makes connections remember a warning that comes with the answer
// to COMMIT: the wait for the synchronous standby was cut short, so that the
// commit may be gone after a failover. Do then says onlyonce.ErrCommitUnknown,
// and without WatchCommits it can't. It also serves configurations for
// database/sql (stdlib.OpenDB) and keeps a notice handler that is set already.
func WatchCommits(cfg *pgx.ConnConfig) { pgnotice.Watch(&cfg.Config) }

// client is a pgx pool, for one call of Do.
type client struct {
	s  *sqlstore.Store
	db *pgxpool.Pool
	tx pgx.Tx // begun last
}

// Look reads on any connection of the pool.
func (c *client) Look(ctx context.Context) (tx onlyonce.Tx, done func(), err error) {
	conn, err := c.db.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	return wrapped{conn, conn.Conn()}, conn.Release, nil
}

// Begin begins a transaction on a connection that was checked.
func (c *client) Begin(ctx context.Context) (sqlstore.Session, error) {
	conn, err := c.db.Acquire(ctx)
	if err != nil {
		return sqlstore.Session{}, err
	}
	if err := c.s.CheckSettings(ctx, wrapped{conn, conn.Conn()}); err != nil {
		conn.Release()
		return sqlstore.Session{}, err
	}
	c.tx, err = conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: c.begin()})
	if err != nil {
		conn.Release() // which closes one that is in a transaction
		return sqlstore.Session{}, err
	}
	tx := c.tx
	return sqlstore.Session{
		Tx:       Wrap(tx),
		Commit:   func() error { return commit(tx) },
		Rollback: func() error { return tx.Rollback(context.Background()) },
		Release: func(clean bool) {
			if !clean {
				gone, cancel := context.WithCancel(context.Background())
				cancel() // it says goodbye to no server that may have fallen silent
				_ = conn.Conn().Close(gone)
			}
			conn.Release()
		},
	}, nil
}

// begin is one round trip: the transaction, and a bound on its waits for locks
// that lasts as long as it does, so that it works behind a pooler.
func (c *client) begin() string {
	text := "BEGIN"
	if level := c.s.Options().Isolation; level != sql.LevelDefault {
		text += " ISOLATION LEVEL " + level.String()
	}
	return text + "; " + c.s.BoundLocks()
}

// commit waits for the answer as long as it takes: Local does not.
func commit(tx pgx.Tx) error {
	return pgnotice.Commit(tx.Conn().PgConn(), func() error { return tx.Commit(context.Background()) })
}

// Wrap gives the engine a transaction that the caller owns: see sqlstore.Wrap.
func Wrap(tx pgx.Tx) onlyonce.Tx { return wrapped{tx, tx.Conn()} }

// querier is what pgx.Tx and *pgxpool.Conn have in common.
type querier interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

type wrapped struct {
	q    querier
	conn *pgx.Conn
}

// Exec runs a statement and returns the number of rows that it hit.
func (w wrapped) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := w.q.Exec(ctx, query, args...)
	return tag.RowsAffected(), w.told(err)
}

// Query runs a query. The caller closes the rows before the next call.
func (w wrapped) Query(ctx context.Context, query string, args ...any) (onlyonce.Rows, error) {
	rows, err := w.q.Query(ctx, query, args...)
	if err != nil {
		return nil, w.told(err)
	}
	return wrappedRows{rows, w}, nil
}

// told marks an error after which there is no connection any more: pgx says so
// in types that it keeps to itself.
func (w wrapped) told(err error) error {
	if err != nil && w.conn.IsClosed() && !errors.Is(err, driver.ErrBadConn) {
		return fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return err
}

type wrappedRows struct {
	pgx.Rows
	w wrapped
}

// Err returns the error that ended the rows, if any.
func (r wrappedRows) Err() error { return r.w.told(r.Rows.Err()) }

// Close reads the rest of the answer, which may hold an error.
func (r wrappedRows) Close() error {
	r.Rows.Close()
	return r.Err()
}
