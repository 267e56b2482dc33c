package flow_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
)

var errBroken = errors.New("the disk is gone")

// mode is how a statement fails.
type mode int

const (
	failBefore mode = iota // it never reaches the database
	failAfter              // it takes effect and its answer is lost
	failFrom               // it and all later ones fail, as after a crash
)

func (m mode) String() string { return [...]string{"before", "after", "from"}[m] }

// faults stands between the store and its driver and breaks one statement of
// the transactions that write, COMMIT included; ROLLBACK works, as it does
// when the process dies.
type faults struct {
	mu     sync.Mutex
	armed  bool
	mode   mode
	failAt int // counted from 1 since arm; 0: none fails
	calls  int
	failed string // the statement that failed
	open   int    // transactions that write
	pages  int64  // the size of the disk, in pages of the database
	watch  func(query string)
}

// arm counts from here on and breaks the n-th statement.
func (f *faults) arm(n int, m mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.failAt, f.mode, f.calls, f.failed = true, n, m, 0, ""
}

// disarm repairs the database and returns what was broken, "" if nothing was
// reached, and how many statements there were.
func (f *faults) disarm() (failed string, calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.failed, f.calls
}

func (f *faults) writing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open > 0
}

// broken counts a statement and reports whether it fails.
func (f *faults) broken(query string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch(query)
	}
	if !f.armed || query == "ROLLBACK" {
		return false
	}
	f.calls++
	fails := f.calls == f.failAt || f.mode == failFrom && f.failAt > 0 && f.calls > f.failAt
	if fails && f.failed == "" {
		f.failed = query
	}
	return fails
}

func (f *faults) begun(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open += n
}

func (f *faults) wrap(c driver.Connector) driver.Connector { return faultyConnector{c, f} }

type faultyConnector struct {
	driver.Connector
	f *faults
}

func (c faultyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{conn.(sqliteConn), c.f, false}, nil
}

// sqliteConn is what the driver's connections can do.
type sqliteConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
}

type faultyConn struct {
	sqliteConn
	f       *faults
	writing bool // BEGIN IMMEDIATE has been sent here
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	run := func() (driver.Result, error) { return c.sqliteConn.ExecContext(ctx, query, args) }
	begin := query == "BEGIN IMMEDIATE"
	if begin {
		if err := c.prepare(ctx); err != nil {
			return nil, err
		}
	}
	if !begin && !c.writing {
		return run()
	}
	if c.f.broken(query) {
		if c.f.mode == failAfter {
			_, err := run()
			c.track(query, err)
		}
		return nil, errBroken
	}
	res, err := run()
	c.track(query, err)
	return res, err
}

// prepare sets the size of the disk, which a transaction's end forgets, and
// leaves out the flushes: these tests end processes, and never the power.
func (c *faultyConn) prepare(ctx context.Context) error {
	c.f.mu.Lock()
	pages := c.f.pages
	c.f.mu.Unlock()
	text := "PRAGMA synchronous = OFF"
	if pages > 0 {
		text += fmt.Sprintf("; PRAGMA max_page_count = %d", pages)
	}
	_, err := c.sqliteConn.ExecContext(ctx, text, nil)
	return err
}

// size sets how many pages the disk holds, at least as many as there are.
func (f *faults) size(pages int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages = pages
}

func (c *faultyConn) track(query string, err error) {
	switch {
	case strings.HasPrefix(query, "BEGIN") && err == nil && !c.writing:
		c.writing = true
		c.f.begun(1)
	case (query == "COMMIT" && err == nil || query == "ROLLBACK") && c.writing:
		c.writing = false
		c.f.begun(-1)
	}
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.writing && c.f.broken(query) {
		return nil, errBroken
	}
	return c.sqliteConn.QueryContext(ctx, query, args)
}

// Close ends what was open: the file's lock goes with the connection.
func (c *faultyConn) Close() error {
	if c.writing {
		c.writing = false
		c.f.begun(-1)
	}
	return c.sqliteConn.Close()
}
