package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
)

// hook sees every statement of a driver's connection. It calls run, or does
// not, and may change the error.
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
	return &hookConn{conn.(sqliteConn), c.hook}, nil
}

// sqliteConn is what a connection of the driver can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type hookConn struct {
	sqliteConn
	hook hook
}

func (c *hookConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (
	res driver.Result, err error) {
	err = c.hook(query, func() (err error) {
		res, err = c.sqliteConn.ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *hookConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (
	rows driver.Rows, err error) {
	err = c.hook(query, func() (err error) {
		rows, err = c.sqliteConn.QueryContext(ctx, query, args)
		return err
	})
	return rows, err
}

func (c *hookConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	return hookTx{tx, c.hook}, err
}

type hookTx struct {
	driver.Tx
	hook hook
}

func (t hookTx) Commit() error { return t.hook("COMMIT", t.Tx.Commit) }

// hookedPool opens a file as a service's own handle, under a hook.
func hookedPool(t *testing.T, path string, h hook) *sql.DB {
	t.Helper()
	c, err := sqlite.NewConnector(path)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(h.connect(c))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// errDisk stands for an error of the driver that proves nothing.
var errDisk = errors.New("the disk said something odd")

// busyError returns the driver's own error for a lock that is taken.
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
