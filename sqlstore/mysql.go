package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

// The error numbers of MySQL and of those who speak like it that this dialect
// judges.
const (
	mysqlServerShutdown  = 1053
	mysqlTooManyConns    = 1040
	mysqlDiskFull        = 1021
	mysqlNotPrimary      = 1047 // Galera: the node is not in the primary component
	mysqlDuplicate       = 1062
	mysqlTableFull       = 1114
	mysqlRecordChanged   = 1020 // MariaDB, innodb_snapshot_isolation
	mysqlErrorAtCommit   = 1180 // Galera, Group Replication
	mysqlLockTableFull   = 1206 // rolls the transaction back, as a deadlock does
	mysqlLockWait        = 1205 // also Galera: the wait for other nodes' writes took too long
	mysqlDeadlock        = 1213
	mysqlReadOnlyOption  = 1290
	mysqlUnknownVariable = 1193
	mysqlQueryKilled     = 1317
	mysqlReadOnlyMode    = 1836
	mysqlStatementTime   = 3024
	mariadbStatementTime = 1969
	mysqlConnectionKill  = 1927
	mysqlGroupRolledBack = 3101 // Group Replication: lost against another node
	mysqlNoWait          = 3572
	tidbWriteConflict    = 9007
)

const mysqlNow = `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ?)`

const mysqlSettings = `SELECT CASE
	WHEN @@log_bin = 1 AND @@sync_binlog <> 1 THEN
		'sync_binlog is not 1: a crash can lose commits that are in the storage engine, or the other way round; set it to 1'
` + mysqlCommonSettings

// TiDB has no binlog and no variable that says so.
const mysqlCommonSettings = `
	WHEN @@innodb_flush_log_at_trx_commit <> 1 THEN
		'innodb_flush_log_at_trx_commit is not 1: a crash loses the last commits; set it to 1'
	WHEN FIND_IN_SET('STRICT_TRANS_TABLES', @@sql_mode) = 0 AND FIND_IN_SET('STRICT_ALL_TABLES', @@sql_mode) = 0 THEN
		'sql_mode is not strict: values that do not fit are cut silently; add STRICT_TRANS_TABLES'
	ELSE '' END`

// MySQL is the dialect of MySQL and MariaDB with InnoDB, and of what speaks
// like them, through the driver go-sql-driver/mysql.
func MySQL() Dialect {
	shape := shape{
		now: mysqlNow, lock: "FOR UPDATE", rebind: func(query string) string { return query },
		// Not a plain INSERT: its duplicate takes a shared lock, and two of those
		// that then want to write deadlock. Waiters of an original that rolls back
		// deadlock in either way, and run again. The column must not be one of the key.
		unlessTaken:  "ON DUPLICATE KEY UPDATE version = version",
		unlessLeased: "ON DUPLICATE KEY UPDATE owner = owner",
		tables:       "information_schema.tables", here: "table_schema = DATABASE() AND table_name",
	}
	return Dialect{
		Name:        "mysql",
		Now:         shape.now,
		ForUpdate:   shape.lock,
		Rebind:      shape.rebind,
		IsDuplicate: mysqlHas(mysqlDuplicate),
		Retryable:   mysqlRetryable,
		Unavailable: mysqlUnavailable,
		lockTimeout: mysqlHas(mysqlLockWait, mysqlNoWait),
		// Whoever goes on after some of these is in autocommit; after the others
		// the transaction is not to be trusted.
		endsTx: func(err error) bool {
			return mysqlRetryable(err) || mysqlUnavailable(err) || mysqlHas(mysqlLockWait)(err)
		},
		endsConn:   mysqlHas(mysqlNotPrimary, mysqlReadOnlyOption, mysqlReadOnlyMode, mysqlServerShutdown),
		rolledBack: func(err error) bool { return mysqlRetryable(err) || mysqlHas(mysqlDuplicate)(err) },
		begin:      func(Options) string { return "START TRANSACTION" },
		commit:     "COMMIT",
		rollback:   "ROLLBACK",
		snapshot:   []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY"},
		settings:   mysqlSettings,
		fewer: func(err error) string {
			if mysqlNumber(err) == mysqlUnknownVariable {
				return "SELECT CASE" + mysqlCommonSettings
			}
			return ""
		},
		session:  mysqlSession,
		sql:      shape.statements(),
		schema:   mysqlSchema(shape),
		goose:    goose.DialectMySQL,
		adopt:    mysqlAdopt,
		open:     mysqlOpen,
		pool:     mysqlPool,
		failover: mysqlFailover,
	}
}

func mysqlSchema(shape shape) schemaStatements {
	s := shape.schema(
		`CREATE TABLE IF NOT EXISTS migration_lease (
			name VARBINARY(64) NOT NULL PRIMARY KEY, owner VARBINARY(64) NOT NULL, lease_until BIGINT NOT NULL
		) ENGINE = InnoDB`,
		`CREATE TABLE IF NOT EXISTS schema_compatible (
			name VARBINARY(64) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (name, version)) ENGINE = InnoDB`)
	s.tableFault = shape.fill(`SELECT CONCAT('the table ', table_name, ' is kept by ', engine,
			', which can not roll back: run ALTER TABLE ', table_name, ' ENGINE = InnoDB')
		FROM {tables} WHERE {here} = ? AND engine <> 'InnoDB'`)
	return s
}

// mysqlSession gives a connection of our own what the statements rely on: a
// fresh view for each statement, and waits for locks that end. On Galera a
// transaction begins after what other nodes have committed before it.
func mysqlSession(o Options) []string {
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", seconds(o.BusyWait)),
		// The server closes a connection that is silent for longer, in a transaction or not: see idleTransaction.
		fmt.Sprintf("SET SESSION wait_timeout = %d", seconds(idleTransaction(o))),
	}
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// mysqlAdopt makes a connection of somebody else's safe for Do. Out of
// autocommit: after a deadlock the transaction is gone, and what an effect that
// takes no notice of that goes on with would each be durable at once, with no
// key beside it. With a wait for locks that ends.
func mysqlAdopt(ctx context.Context, conn *sql.Conn, o Options) (restore func() error, err error) {
	var fault string
	var wait int64
	var autocommit bool
	err = MySQL().check(func(text string) (string, error) {
		text += ", @@innodb_lock_wait_timeout, @@autocommit" // one round trip for both
		err := conn.QueryRowContext(ctx, text).Scan(&fault, &wait, &autocommit)
		return fault, err
	})
	if err != nil {
		return nil, err
	}
	set := func(autocommit bool, wait int64) error {
		// The connection is put back after COMMIT's answer, which must not wait for a server that fell silent then.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.BusyWait)
		defer cancel()
		_, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION autocommit = %t, SESSION innodb_lock_wait_timeout = %d",
			autocommit, wait))
		return err
	}
	if err := set(false, min(wait, seconds(o.BusyWait))); err != nil {
		return nil, fmt.Errorf("ready the connection: %w", err)
	}
	return func() error { return set(autocommit, wait) }, nil
}

// mysqlNumber returns the number of a server's error, or 0.
func mysqlNumber(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func mysqlHas(numbers ...uint16) func(error) bool {
	return func(err error) bool {
		number := mysqlNumber(err)
		for _, n := range numbers {
			if number == n {
				return true
			}
		}
		return false
	}
}

// mysqlRetryable reports that a rival made the server roll the transaction
// back. Error 1180 has two meanings, which only its text tells apart: a node
// of a group lost against another one, or Galera lost its quorum, and then
// what became of the transaction is not known.
func mysqlRetryable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == mysqlErrorAtCommit {
		return strings.Contains(e.Message, "error 149")
	}
	return mysqlHas(mysqlDeadlock, mysqlRecordChanged, mysqlGroupRolledBack, tidbWriteConflict)(err)
}

func mysqlUnavailable(err error) bool {
	return connectionLost(err) || errors.Is(err, mysql.ErrInvalidConn) || mysqlHas(mysqlServerShutdown,
		mysqlTooManyConns, mysqlDiskFull, mysqlNotPrimary, mysqlTableFull, mysqlErrorAtCommit, mysqlReadOnlyOption,
		mysqlQueryKilled, mysqlReadOnlyMode, mysqlConnectionKill,
		mysqlLockTableFull, mysqlStatementTime, mariadbStatementTime)(err)
}

// mysqlConfigs reads a URL with one host or more, in the order of failover.
func mysqlConfigs(text string, o Options) ([]*mysql.Config, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return nil, errors.New("the URL can't be read: write mysql://USER:PASSWORD@HOST:PORT/NAME, " +
			"with special characters of the password as %XX")
	}
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" {
		return nil, errors.New("the URL names no database: write mysql://USER:PASSWORD@HOST:PORT/NAME")
	}
	hosts := strings.Split(u.Host, ",")
	var configs []*mysql.Config
	for _, host := range hosts {
		// The driver reads its own parameters out of its own kind of name.
		cfg, err := mysql.ParseDSN("tcp(" + host + ")/?" + u.RawQuery)
		if err != nil {
			return nil, fmt.Errorf("a parameter of the URL can't be read: %w", err)
		}
		cfg.User, cfg.DBName = u.User.Username(), name
		cfg.Passwd, _ = u.User.Password()
		if cfg.Addr = mysqlAddress(host); cfg.Addr == "" {
			return nil, errors.New("the URL names no host: write mysql://USER:PASSWORD@HOST:PORT/NAME")
		}
		if cfg.Timeout == 0 {
			cfg.Timeout = dialTimeout(len(hosts) > 1)
		}
		cfg.Logger = mysqlLog{o.Log}
		configs = append(configs, cfg)
	}
	return configs, nil
}

// mysqlAddress completes HOST with the port that MySQL listens at.
func mysqlAddress(host string) string {
	const port = "3306"
	if host == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// mysqlLog takes what the driver says of broken connections; the error itself
// reaches the caller anyway.
type mysqlLog struct{ log *slog.Logger }

// Print logs a line.
func (l mysqlLog) Print(v ...any) { l.log.Debug("mysql driver", "said", fmt.Sprint(v...)) }

func mysqlConnectors(configs []*mysql.Config) ([]driver.Connector, error) {
	var list []driver.Connector
	for _, cfg := range configs {
		c, err := mysql.NewConnector(cfg)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func mysqlPool(text string, o Options) (*sql.DB, error) {
	configs, err := mysqlConfigs(text, o)
	if err != nil {
		return nil, err
	}
	list, err := mysqlConnectors(configs)
	if err != nil {
		return nil, err
	}
	for i, c := range list {
		list[i] = mysqlNode{c, len(list) > 1}
	}
	return sql.OpenDB(newFirstOf(list)), nil
}

func mysqlOpen(ctx context.Context, text string, o Options) (handles, error) {
	configs, err := mysqlConfigs(text, o)
	if err != nil {
		return handles{}, err
	}
	for _, cfg := range configs {
		cfg.InterpolateParams = true // one round trip for a statement instead of three
	}
	list, err := mysqlConnectors(configs)
	if err != nil {
		return handles{}, err
	}
	for i, c := range list {
		list[i] = mysqlNode{c, len(list) > 1}
	}
	return serverHandles(ctx, MySQL(), newFirstOf(list), len(list), o)
}

// mysqlNode makes connections to one server. On Galera it sets what makes a
// transaction begin after what other nodes have committed before it, on TiDB
// what lets it take READ ONLY without meaning it, and among several servers it
// refuses one that can't be written.
type mysqlNode struct {
	driver.Connector
	oneOfMany bool
}

// Connect opens a connection.
func (n mysqlNode) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := n.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.ready(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (n mysqlNode) ready(ctx context.Context, conn driver.Conn) error {
	kin, err := queryText(ctx, conn, `SHOW SESSION VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON'
		OR Variable_name = 'tidb_enable_noop_functions'`, 0)
	switch {
	case err != nil:
		return err
	case kin == "wsrep_on":
		err = execText(ctx, conn, "SET SESSION wsrep_sync_wait = 7") // reads, updates, inserts
	case kin != "":
		err = execText(ctx, conn, "SET SESSION tidb_enable_noop_functions = 1")
	}
	if err != nil || !n.oneOfMany {
		return err
	}
	readOnly, err := queryText(ctx, conn, "SELECT CASE WHEN @@GLOBAL.read_only = 1 THEN 'ON' ELSE 'OFF' END", 0)
	if err == nil && readOnly == "ON" {
		err = errors.New("the server is read-only")
	}
	return err
}

// mysqlFailover accepts what replicates before it answers COMMIT: Galera,
// Group Replication, TiDB. Semi-synchronous replication falls back to
// asynchronous by itself, so it is no proof.
func mysqlFailover(ctx context.Context, db *sql.DB) (fault string, err error) {
	var name, value string
	rows, err := db.QueryContext(ctx, `SHOW VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON'
		OR Variable_name = 'group_replication_group_name' AND Value <> '' OR Variable_name = 'tidb_txn_mode'`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if rows.Next() {
		return "", rows.Scan(&name, &value)
	}
	return "several hosts are named and they are neither a Galera cluster nor a replication group, so a failover loses " +
		"the last commits: name one host", rows.Err()
}
