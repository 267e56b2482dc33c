package scenario

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func postgresEngine(ctx context.Context, pool *sql.DB) (engine, error) {
	var version string
	err := pool.QueryRowContext(ctx, "SHOW server_version").Scan(&version)
	return engine{
		title: "PostgreSQL " + plain(version), words: []string{wordPostgres},
		tables:      "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()",
		session:     "SELECT pg_backend_pid()",
		waits:       postgresWaits,
		judge:       postgresJudge,
		emptyCommit: postgresAborted,
	}, err
}

func postgresWaits(ctx context.Context, n *node, w waiter) (yes bool, by []int64, err error) {
	by, err = numbers(ctx, n.pool, "SELECT unnest(pg_blocking_pids($1::int))", w.number)
	return len(by) > 0, by, err
}

func postgresJudge(err error) (class, code string) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return "", ""
	}
	class, ok = map[string]string{
		"23505": errDuplicate, "40P01": errDeadlock, "55P03": errLockTimeout, "40001": errSerialization, "25P02": errAborted,
	}[e.Code]
	if !ok {
		class = errOther
	}
	return class, e.Code
}

// postgresAborted reports that the transaction has failed: the server answers
// its COMMIT with ROLLBACK.
func postgresAborted(conn *sql.Conn) (aborted bool) {
	const failedTransaction = 'E'    // PostgreSQL, "Message Formats", ReadyForQuery
	_ = conn.Raw(func(c any) error { // a connection that is gone fails at its COMMIT anyway
		if c, ok := c.(interface{ Conn() *pgx.Conn }); ok {
			aborted = c.Conn().PgConn().TxStatus() == failedTransaction
		}
		return nil
	})
	return aborted
}
