// Package pgnotice remembers the warnings that PostgreSQL sends beside an
// answer. One of them changes what the answer means: when the wait for a
// synchronous standby is cancelled, COMMIT answers with success and a warning,
// and the row can be gone after a failover.
package pgnotice

import "github.com/jackc/pgx/v5/pgconn"

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

// Take returns the connection's last warning, "" if there was none, and
// forgets it. Only the goroutine that uses the connection may call it.
func Take(conn *pgconn.PgConn) string {
	text, _ := conn.CustomData()[last].(string)
	delete(conn.CustomData(), last)
	return text
}
