package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
)

// hook sees every statement of a driver's connection, COMMIT among them. It
// calls run, or does not, and may change the error.
type hook func(statement string, run func() error) error

func (h hook) connect(c driver.Connector) driver.Connector { return hookConnector{c, h} }

type hookConnector struct {
	driver.Connector
	hook hook
}

func (c hookConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &hookConn{conn.(fullConn), c.hook}, nil
}

// fullConn is what the connections of all drivers can do.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
}

type hookConn struct {
	fullConn
	hook hook
}

func (c *hookConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (
	res driver.Result, err error) {
	err = c.hook(query, func() (err error) {
		res, err = c.fullConn.ExecContext(ctx, query, args)
		if !errors.Is(err, driver.ErrSkip) {
			return err
		}
		stmt, err := c.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		res, err = stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return errors.Join(err, stmt.Close())
	})
	return res, err
}

func (c *hookConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (
	rows driver.Rows, err error) {
	err = c.hook(query, func() (err error) {
		rows, err = c.fullConn.QueryContext(ctx, query, args)
		if !errors.Is(err, driver.ErrSkip) {
			return err
		}
		stmt, err := c.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		if rows, err = stmt.(driver.StmtQueryContext).QueryContext(ctx, args); err != nil {
			return errors.Join(err, stmt.Close())
		}
		rows = stmtRows{rows, stmt}
		return nil
	})
	if err != nil && rows != nil { // an answer that was lost; nobody else will close it
		return nil, errors.Join(err, rows.Close())
	}
	return rows, err
}

// stmtRows closes the statement that made them.
type stmtRows struct {
	driver.Rows
	stmt driver.Stmt
}

func (r stmtRows) Close() error { return errors.Join(r.Rows.Close(), r.stmt.Close()) }

func (c *hookConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	return hookTx{tx, c.hook}, err
}

// CheckNamedValue lets the driver choose what it takes, where it does.
func (c *hookConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// IsValid says whether the pool may keep the connection.
func (c *hookConn) IsValid() bool {
	v, ok := c.fullConn.(driver.Validator)
	return !ok || v.IsValid()
}

// Conn is PostgreSQL's own connection, for those who ask for its warnings.
func (c *hookConn) Conn() *pgx.Conn {
	if c, ok := c.fullConn.(*stdlib.Conn); ok {
		return c.Conn()
	}
	return nil
}

type hookTx struct {
	driver.Tx
	hook hook
}

func (t hookTx) Commit() error { return t.hook("COMMIT", t.Tx.Commit) }

// hookedPool opens a database as a service's own handle, under a hook.
func hookedPool(t *testing.T, link string, h hook) *sql.DB {
	t.Helper()
	db := sql.OpenDB(h.connect(connector(t, link)))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// connector makes connections as a service's own driver does.
func connector(t *testing.T, link string) driver.Connector {
	t.Helper()
	scheme, rest, _ := strings.Cut(link, ":")
	var c driver.Connector
	var err error
	switch scheme {
	case "sqlite":
		c, err = sqlite.NewConnector(rest)
	case "postgres":
		var cfg *pgx.ConnConfig
		if cfg, err = pgx.ParseConfig(with(t, link, "default_query_exec_mode=exec")); err == nil {
			c = stdlib.GetConnector(*cfg)
		}
	case "mysql":
		user, server, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "@")
		host, name, _ := strings.Cut(server, "/")
		var cfg *mysql.Config
		if cfg, err = mysql.ParseDSN(user + "@tcp(" + host + ")/" + name); err == nil {
			c, err = mysql.NewConnector(cfg)
		}
	}
	if err != nil || c == nil {
		t.Fatalf("connect to %s: %v", link, err)
	}
	return c
}

// errDisk stands for an error of the driver that proves nothing.
var errDisk = errors.New("the disk said something odd")

// lostRaces are the errors with which engines say, even at COMMIT, that they
// have rolled back for a rival's sake.
func lostRaces(t *testing.T, dialect string) map[string]error {
	switch dialect {
	case "postgres":
		return map[string]error{
			"40001": &pgconn.PgError{Code: "40001"}, "40P01": &pgconn.PgError{Code: "40P01"},
		}
	case "mysql":
		return map[string]error{
			"1213": &mysql.MySQLError{Number: 1213},
			"1020": &mysql.MySQLError{Number: 1020},
			"3101": &mysql.MySQLError{Number: 3101},
			"9007": &mysql.MySQLError{Number: 9007},
			"1180": &mysql.MySQLError{Number: 1180, Message: "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT"},
		}
	}
	return map[string]error{"busy": busyError(t)}
}

// busyError returns SQLite's own error for a lock that is taken.
func busyError(t *testing.T) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "busy.db")
	first, second := pool(t, path, "?_txlock=immediate"), pool(t, path, "?_txlock=immediate")
	tx, err := first.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = second.Begin()
	if _, ok := errors.AsType[*sqlite.Error](err); !ok {
		t.Fatalf("a taken lock gave %v", err)
	}
	return err
}

// connectThen runs a statement on every new connection.
func (h hook) connectThen(statement string) func(driver.Connector) driver.Connector {
	return func(c driver.Connector) driver.Connector { return thenConnector{h.connect(c), statement} }
}

type thenConnector struct {
	driver.Connector
	statement string
}

func (c thenConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, c.statement, nil)
	return conn, err
}
