// Package pgnotice remembers the warnings that PostgreSQL sends beside an
// answer. One of them changes what the answer means: when the wait for a
// synchronous standby is cancelled, COMMIT answers with success and a warning,
// and the row can be gone after a failover.
package pgnotice

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// last is the place in a connection's own data.
const last = "onlyonce.warning"

// Watch makes connections of this configuration remember their last warning.
// A handler that is there already goes on hearing everything.
func Watch(cfg *pgconn.Config) {
	next := cfg.OnNotice
	cfg.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			conn.CustomData()[last] = n.Message
		}
		if next != nil {
			next(conn, n)
		}
	}
}

// ErrDoubt is a COMMIT that was reported as done with a warning.
var ErrDoubt = errors.New("the server committed with a warning")

// Commit runs commit on the connection and turns a warning that comes with the
// answer into ErrDoubt. Only the goroutine that uses the connection may call it.
func Commit(conn *pgconn.PgConn, commit func() error) error {
	delete(conn.CustomData(), last) // from before
	if err := commit(); err != nil {
		return err
	}
	if warning, ok := conn.CustomData()[last].(string); ok {
		return fmt.Errorf("%w: %s", ErrDoubt, warning)
	}
	return nil
}
