package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// What the dialects of database servers have in common; SQLite has none of it.

// connMaxLife lets connections find back to the first host after a failover,
// and forget what a pooler or a load balancer has changed.
const connMaxLife = 10 * time.Minute

// idleTransaction is how long a transaction of our own may be silent before the
// server ends it: as long as a caller waits, and never so short that a COMMIT
// which is late on its way is lost. An owner that was suspended, or cut off
// without a word, would hold its locks for hours.
func idleTransaction(o Options) time.Duration {
	const least = 5 * time.Second
	return max(o.BusyWait+o.CommitWait, least)
}

// longestDial is the longest that a URL may ask for: drivers' own defaults are minutes.
const longestDial = time.Minute

// dialTimeout bounds one connection's coming up. Where there is a next host
// that must be tried within one caller's patience.
func dialTimeout(several bool) time.Duration {
	if several {
		return 2 * time.Second
	}
	return 5 * time.Second
}

// connectionLost reports that the server could not be reached or was lost.
func connectionLost(err error) bool {
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}

// serverHandles opens a pool that writes and one that reads, and asks the
// server whether it keeps what it commits.
func serverHandles(ctx context.Context, d Dialect, c driver.Connector, hosts int, o Options) (h handles, err error) {
	if o.Connect != nil {
		c = o.Connect(c)
	}
	c = checkedConnector{c, d, o}
	pool := func(conns int) *sql.DB {
		db := sql.OpenDB(c)
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		db.SetConnMaxLifetime(connMaxLife)
		db.SetConnMaxIdleTime(idleTransaction(o) / 2) // before a server closes it
		return db
	}
	h = handles{writer: pool(o.Writers), readers: pool(o.Readers), present: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.writer.Close(), h.readers.Close())
		}
	}()
	if err := h.writer.PingContext(ctx); err != nil {
		return h, err
	}
	if hosts > 1 && !o.UnsafeAsyncFailover {
		return h, refuseAsync(ctx, d, h.writer)
	}
	return h, nil
}

// refuseAsync refuses several hosts of which one may lack the last commits of
// another.
func refuseAsync(ctx context.Context, d Dialect, db *sql.DB) error {
	fault, err := d.failover(ctx, db)
	if err != nil {
		return fmt.Errorf("ask how the hosts replicate: %w", err)
	}
	if fault != "" {
		return fmt.Errorf("%w: %s (or allow it with Options.UnsafeAsyncFailover)", ErrUnsafeSettings, fault)
	}
	return nil
}

// firstOf makes connections to the first host that can be reached, in a fixed
// order, and stays there until it fails: all of a process's connections write
// at one place. Which is why a list of hosts is no load balancer.
type firstOf struct {
	list    []driver.Connector
	wait    time.Duration // for one host, from the first packet to the last answer before the connection is used
	current atomic.Int64
}

func newFirstOf(list []driver.Connector) *firstOf {
	return &firstOf{list: list, wait: dialTimeout(len(list) > 1)}
}

// Connect opens a connection to the current host, or to the next one in order.
func (f *firstOf) Connect(ctx context.Context) (driver.Conn, error) {
	var errs []error
	first := f.current.Load()
	for i := range int64(len(f.list)) {
		at := (first + i) % int64(len(f.list))
		conn, err := f.connect(ctx, at)
		if err == nil {
			f.current.CompareAndSwap(first, at)
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// connect bounds a host that takes connections and then says nothing, so that
// the next one gets its turn.
func (f *firstOf) connect(ctx context.Context, at int64) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	return f.list[at].Connect(ctx)
}

// Driver returns the driver of the hosts.
func (f *firstOf) Driver() driver.Driver { return f.list[0].Driver() }
