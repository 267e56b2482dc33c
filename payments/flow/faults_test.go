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
	failLost               // the engine rolls the transaction back for a rival's sake
)

func (m mode) String() string { return [...]string{"before", "after", "from", "lost"}[m] }

// faults stands between the store and its driver and breaks one statement of
// the transactions that write, COMMIT included; ROLLBACK works, as it does
// when the process dies.
type faults struct {
	file bool // an SQLite file, which has a size and a pragma for each connection

	mu      sync.Mutex
	armed   bool
	mode    mode
	failAt  int // counted from 1 since arm; 0: none fails
	calls   int
	failed  string // the statement that failed
	lost    error  // how the engine says that a rival won
	losses  int    // COMMITs that lose against a rival from now on
	writers int    // open transactions that write
	readers int    // and those that only read
	pages   int64  // the size of the disk, in pages of the database
	watch   func(query string)
}

// begins reports whether a statement begins a transaction that writes: the
// engines' texts differ.
func begins(query string) bool {
	return query == "BEGIN IMMEDIATE" || query == "START TRANSACTION" || strings.Contains(query, "READ COMMITTED;")
}

// beginsToRead reports the same of a transaction that only reads.
func beginsToRead(query string) bool {
	return query == "BEGIN" || strings.HasSuffix(query, "READ ONLY")
}

// reset repairs everything for the next test.
func (f *faults) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.losses, f.pages, f.watch = false, 0, 0, nil
}

// arm counts from here on and breaks the n-th statement.
func (f *faults) arm(n int, m mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.failAt, f.mode, f.calls, f.failed = true, n, m, 0, ""
}

// armCommit breaks the next COMMIT.
func (f *faults) armCommit(m mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = func(query string) {
		if query == "COMMIT" {
			f.watch, f.armed, f.failAt, f.mode, f.calls, f.failed = nil, true, 1, m, 0, ""
		}
	}
}

// disarm repairs the database and returns what was broken, "" if nothing was
// reached, and how many statements there were.
func (f *faults) disarm() (failed string, calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.failed, f.calls
}

// lose lets the next COMMITs fail with the engine's own error of a transaction
// that was rolled back.
func (f *faults) lose(commits int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.losses, f.lost = commits, err
}

// busy reports whether any transaction is open.
func (f *faults) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writers > 0 || f.readers > 0
}

// fate counts a statement and tells whether it fails, and how.
func (f *faults) fate(query string) (m mode, fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch(query)
	}
	if query == "COMMIT" && f.losses > 0 {
		f.losses--
		return failLost, true
	}
	if !f.armed || query == "ROLLBACK" {
		return 0, false
	}
	f.calls++
	fails = f.calls == f.failAt || f.mode == failFrom && f.failAt > 0 && f.calls > f.failAt
	if fails && f.failed == "" {
		f.failed = query
	}
	return f.mode, fails
}

func (f *faults) begun(writers, readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writers += writers
	f.readers += readers
}

// size sets how many pages the disk holds, at least as many as there are.
func (f *faults) size(pages int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages = pages
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
	return &faultyConn{serverConn: conn.(serverConn), f: c.f}, nil
}

// serverConn is what the connections of all drivers can do.
type serverConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
}

type faultyConn struct {
	serverConn
	f       *faults
	writing bool // a transaction for writing was begun here
	reading bool // one that only reads
}

// IsValid asks the driver, if it has an opinion.
func (c *faultyConn) IsValid() bool {
	v, ok := c.serverConn.(driver.Validator)
	return !ok || v.IsValid()
}

// CheckNamedValue leaves arguments to the driver, if it has an opinion.
func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.serverConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	run := func() (driver.Result, error) {
		res, err := c.serverConn.ExecContext(ctx, query, args)
		c.track(query, err)
		return res, err
	}
	if !c.writing && !begins(query) {
		return run()
	}
	if begins(query) && c.f.file {
		if err := c.prepare(ctx); err != nil {
			return nil, err
		}
	}
	switch m, fails := c.f.fate(query); {
	case !fails:
		return run()
	case m == failAfter:
		_, _ = run()
	case m == failLost:
		_, err := c.serverConn.ExecContext(ctx, "ROLLBACK", nil)
		c.track("ROLLBACK", err)
		return nil, errors.Join(err, c.f.lost)
	}
	return nil, errBroken
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
	_, err := c.serverConn.ExecContext(ctx, text, nil)
	return err
}

func (c *faultyConn) track(query string, err error) {
	switch {
	case begins(query) && err == nil && !c.writing:
		c.writing = true
		c.f.begun(1, 0)
	case (query == "COMMIT" && err == nil || query == "ROLLBACK") && c.writing:
		c.writing = false
		c.f.begun(-1, 0)
	case beginsToRead(query) && err == nil && !c.reading:
		c.reading = true
		c.f.begun(0, 1)
	case query == "ROLLBACK" && c.reading:
		c.reading = false
		c.f.begun(0, -1)
	}
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.writing {
		if _, fails := c.f.fate(query); fails {
			return nil, errBroken
		}
	}
	return c.serverConn.QueryContext(ctx, query, args)
}

// Close ends what was open: its locks go with the connection.
func (c *faultyConn) Close() error {
	if c.writing {
		c.writing = false
		c.f.begun(-1, 0)
	}
	if c.reading {
		c.reading = false
		c.f.begun(0, -1)
	}
	return c.serverConn.Close()
}
