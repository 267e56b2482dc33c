package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
)

// querier is what *sql.Tx, *sql.Conn and *sql.DB have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Wrap gives the engine a transaction that the caller owns. It is for those
// who begin and commit by themselves, and for libraries on top of
// database/sql that can hand out their *sql.Tx. The caller must prove with
// Engine.Finish or Engine.Hold, as the last act before COMMIT, that the claim
// still stands: see onlyonce.ErrTransactionLost.
func Wrap(tx *sql.Tx) onlyonce.Tx { return wrapped{tx} }

type wrapped struct{ querier }

// Exec runs a statement and returns the number of rows that it hit.
func (w wrapped) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := w.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Query runs a query. The caller closes the rows before the next call.
func (w wrapped) Query(ctx context.Context, query string, args ...any) (onlyonce.Rows, error) {
	rows, err := w.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// guarded is the transaction of DB.InTx and DB.View. It ignores a cancellation by the
// caller, because an interrupted statement makes some engines roll back all and
// run the next statement in autocommit; and when the engine has ended the
// transaction for another reason it refuses to go on.
type guarded struct {
	wrapped
	d     Dialect
	ctx   context.Context // of the whole transaction
	lost  error           // what ended the transaction
	unfit bool            // the connection must not serve anybody else
}

// Exec runs a statement unless the transaction is lost.
func (g *guarded) Exec(_ context.Context, query string, args ...any) (int64, error) {
	if g.lost != nil {
		return 0, g.gone()
	}
	n, err := g.wrapped.Exec(g.ctx, query, args...)
	g.note(err)
	return n, err
}

// Query runs a query unless the transaction is lost.
func (g *guarded) Query(_ context.Context, query string, args ...any) (onlyonce.Rows, error) {
	if g.lost != nil {
		return nil, g.gone()
	}
	rows, err := g.wrapped.Query(g.ctx, query, args...)
	g.note(err)
	if err != nil {
		return nil, err
	}
	return guardedRows{rows, g}, nil
}

func (g *guarded) note(err error) {
	if err == nil {
		return
	}
	if g.d.endsTx(err) {
		g.lost = err
	}
	g.unfit = g.unfit || g.d.endsConn(err) || connectionLost(err)
}

func (g *guarded) gone() error {
	return fmt.Errorf("%w: %w", onlyonce.ErrTransactionLost, g.lost)
}

// guardedRows notes what goes wrong while rows are read.
type guardedRows struct {
	onlyonce.Rows
	g *guarded
}

// Err returns the error that ended the rows, if any.
func (r guardedRows) Err() error {
	err := r.Rows.Err()
	r.g.note(err)
	return err
}

// Close reads the rest of the answer, which may hold an error.
func (r guardedRows) Close() error {
	err := r.Rows.Close()
	r.g.note(err)
	return err
}
