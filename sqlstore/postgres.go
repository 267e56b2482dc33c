package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/onlyonce-go/onlyonce/internal/pgnotice"
)

// The clock stands still within a statement, so that the planner can use an
// index and one row's times agree, and it moves within a transaction: a claim
// that comes late in one must not begin with an old lease.
const postgresNow = `((extract(epoch FROM statement_timestamp()) * 1000000)::bigint + ?)`

// A setting that this server does not have reads as NULL.
const postgresSettings = `SELECT CASE
	WHEN current_setting('fsync', true) = 'off'
		THEN 'fsync is off: a crash of the machine can lose commits; set fsync = on'
	WHEN current_setting('full_page_writes', true) = 'off'
		THEN 'full_page_writes is off: a crash of the machine can tear pages; set full_page_writes = on'
	WHEN current_setting('synchronous_commit', true) = 'off'
		THEN 'synchronous_commit is off: a crash loses the last commits; set synchronous_commit = on'
	ELSE '' END`

const postgresFailover = `SELECT CASE
	WHEN current_setting('synchronous_standby_names', true) = ''
		THEN 'several hosts are named and none is a synchronous standby: a failover loses the last commits; ' ||
			'set synchronous_standby_names'
	WHEN current_setting('synchronous_commit', true) = 'local'
		THEN 'several hosts are named and synchronous_commit is local: a failover loses the last commits; ' ||
			'set synchronous_commit = on'
	ELSE '' END`

// Postgres is the dialect of PostgreSQL 15 and newer and of what speaks like
// it, through the driver jackc/pgx.
func Postgres() Dialect {
	shape := shape{
		now: postgresNow, lock: "FOR UPDATE", rebind: postgresRebind,
		unlessTaken:  "ON CONFLICT (account_id, idempotency_key) DO NOTHING",
		unlessLeased: "ON CONFLICT (name) DO NOTHING",
		tables:       "information_schema.tables", here: "table_schema = current_schema() AND table_name",
	}
	return Dialect{
		Name:        "postgres",
		Now:         shape.now,
		ForUpdate:   shape.lock,
		Rebind:      shape.rebind,
		IsDuplicate: postgresHas("23505"), // unique_violation
		// serialization_failure, deadlock_detected, and a statement that came
		// after one of them in the same transaction never hides it.
		Retryable:   postgresHas("40001", "40P01"),
		Unavailable: postgresUnavailable,
		lockTimeout: postgresHas("55P03"), // lock_not_available
		// After any error of a statement PostgreSQL answers COMMIT with ROLLBACK.
		endsTx: func(err error) bool {
			return postgresCode(err) != "" || connectionLost(err) || errors.Is(err, pgx.ErrTxClosed)
		},
		// read_only_sql_transaction: the server has become a standby.
		endsConn: postgresHas("25006", "57P01", "57P02", "57P03"),
		// A constraint that is checked at the end, and an aborted transaction.
		rolledBack: func(err error) bool {
			return errors.Is(err, pgx.ErrTxCommitRollback) || postgresHas("40001", "40P01", "23", "25P02")(err)
		},
		begin:    func(o Options) string { return "BEGIN ISOLATION LEVEL READ COMMITTED; " + postgresBounds(o) },
		commit:   "COMMIT",
		rollback: "ROLLBACK",
		snapshot: []string{"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"},
		standby:  "SELECT COALESCE(current_setting('synchronous_standby_names', true), '') <> ''",
		settings: postgresSettings,
		failover: func(ctx context.Context, db *sql.DB) (fault string, err error) {
			_, err = scalar(ctx, wrapped{db}, &fault, postgresFailover)
			return fault, err
		},
		sql: shape.statements(),
		schema: shape.schema(
			`CREATE TABLE IF NOT EXISTS migration_lease (
				name TEXT COLLATE "C" NOT NULL PRIMARY KEY, owner TEXT NOT NULL, lease_until BIGINT NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS schema_compatible (
				name TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (name, version))`),
		goose:      goose.DialectPostgres,
		boundLocks: postgresBoundLocks,
		certain:    postgresCertain,
		open:       postgresOpen,
		pool: func(url string, _ Options) (*sql.DB, error) {
			cfg, err := postgresConfig(url)
			if err != nil {
				return nil, err
			}
			return stdlib.OpenDB(*cfg), nil
		},
	}
}

// postgresBoundLocks lasts for one transaction, so that it works behind a
// pooler that gives each transaction another session.
func postgresBoundLocks(o Options) string {
	return fmt.Sprintf("SET LOCAL lock_timeout = %d", max(o.BusyWait.Milliseconds(), 1)) // 0 would be without end
}

// postgresBounds also makes the server end a transaction whose owner was
// paused, or lost its network, in the middle: see idleTransaction.
func postgresBounds(o Options) string {
	return fmt.Sprintf("%s; SET LOCAL idle_in_transaction_session_timeout = %d",
		postgresBoundLocks(o), idleTransaction(o).Milliseconds())
}

// postgresRebind turns ? into $1, $2 and so on. No text of ours has a ? in a
// literal.
func postgresRebind(query string) string {
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

// postgresCode returns the SQLSTATE of an error, or "".
func postgresCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// postgresHas makes a test for codes or whole classes of them, which are the
// first two characters (PostgreSQL, appendix A).
func postgresHas(codes ...string) func(error) bool {
	return func(err error) bool {
		code := postgresCode(err)
		for _, c := range codes {
			if code != "" && strings.HasPrefix(code, c) {
				return true
			}
		}
		return false
	}
}

// postgresUnavailable knows, beside the loss of the connection: connection
// exceptions, read-only servers, lack of resources, interventions of an
// operator, and failures of the system under the server.
func postgresUnavailable(err error) bool {
	return connectionLost(err) || postgresHas("08", "25006", "53", "55P03", "57", "58", "XX")(err)
}

// postgresCertain makes an error of the warning with which PostgreSQL says that
// the wait for the synchronous standby was cut short.
func postgresCertain(conn *sql.Conn, commit func() error) error {
	var pg *pgconn.PgConn
	_ = conn.Raw(func(c any) error { // a connection that is gone fails at COMMIT
		if c, ok := c.(interface{ Conn() *pgx.Conn }); ok {
			pg = c.Conn().PgConn()
		}
		return nil
	})
	if pg == nil {
		return commit()
	}
	return pgnotice.Commit(pg, commit)
}

// postgresConfig reads a URL. What it does not say is set so that it works
// behind a pooler, and finds the server that can be written among several.
func postgresConfig(text string) (*pgx.ConnConfig, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL can't be read: write postgres://USER:PASSWORD@HOST:PORT/NAME, " +
			"with special characters of the password as %XX")
	}
	q, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B")) // pgx takes a + for a +
	if err != nil {
		return nil, errors.New("the parameters of the URL can't be read: write special characters as %XX")
	}
	if !q.Has("default_query_exec_mode") {
		q.Set("default_query_exec_mode", "exec") // no prepared statement outlives its transaction
	}
	if !q.Has("application_name") {
		q.Set("application_name", "onlyonce")
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, err // pgx leaves the password out
	}
	several := len(postgresHosts(cfg)) > 1
	if several && cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > longestDial {
		cfg.ConnectTimeout = dialTimeout(several)
	}
	pgnotice.Watch(&cfg.Config)
	return cfg, nil
}

func postgresOpen(ctx context.Context, text string, o Options) (handles, error) {
	cfg, err := postgresConfig(text)
	if err != nil {
		return handles{}, err
	}
	return serverHandles(ctx, Postgres(), stdlib.GetConnector(*cfg), len(postgresHosts(cfg)), o)
}

// postgresHosts are the servers that a configuration leads to, wherever they
// were named: in the URL, in its parameters or in the environment (PGHOST).
func postgresHosts(cfg *pgx.ConnConfig) map[string]bool {
	hosts := map[string]bool{net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))): true}
	for _, f := range cfg.Fallbacks { // the same host without TLS is one too
		hosts[net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))] = true
	}
	return hosts
}
