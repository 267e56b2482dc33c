package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

const (
	defaultCommitWait = 10 * time.Second // longer than a disk's hiccup, shorter than a client's patience
	defaultBusyWait   = 5 * time.Second  // half of it, so that waiting and committing fit into one request
	defaultWriters    = 16               // transactions that wait for the disk or the network
	defaultReaders    = 4                // reads are short; more would only share the same few cores
)

// Options configure Open and New. The zero value is the documented default.
type Options struct {
	// CommitWait is how long a caller waits for the answer to COMMIT before it
	// is told onlyonce.ErrCommitUnknown; the commit itself goes on. Default 10 s.
	CommitWait time.Duration
	// BusyWait is how long a caller waits for its turn before it is told
	// ErrBusy. Default 5 s.
	BusyWait time.Duration
	// Skew is added to the database's clock. Default: nothing. Tests move it.
	Skew func() time.Duration
	// Log hears of commits whose caller had gone. Default slog.Default().
	Log *slog.Logger
	// Isolation is that of the transactions of Do. Default: the pool's own.
	Isolation sql.IsolationLevel
	// Readers is how many connections serve View; for Open only. Default 4.
	Readers int
	// Writers is how many connections serve InTx; for Open only. Default 16;
	// SQLite has one.
	Writers int
	// UnsafeAsyncFailover allows a URL with several hosts that don't replicate
	// before they answer COMMIT: for Open only. A failover then loses commits
	// that were reported as done.
	UnsafeAsyncFailover bool
	// Connect wraps the driver, for tracing and for tests that break it; for
	// Open only. Default: as it is.
	Connect func(driver.Connector) driver.Connector

	jitter func(limit time.Duration) time.Duration
}

func (o Options) withDefaults() Options {
	if o.CommitWait <= 0 {
		o.CommitWait = defaultCommitWait
	}
	if o.BusyWait <= 0 {
		o.BusyWait = defaultBusyWait
	}
	if o.Skew == nil {
		o.Skew = func() time.Duration { return 0 }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Readers <= 0 {
		o.Readers = defaultReaders
	}
	if o.Writers <= 0 {
		o.Writers = defaultWriters
	}
	if o.jitter == nil {
		o.jitter = rand.N[time.Duration]
	}
	return o
}

// DB is a database that this package opened. It is safe for concurrent use.
type DB struct {
	store *Store
	handles
}

var _ onlyonce.Transactor = (*DB)(nil)

// Open opens the database that url names: "sqlite:PATH", where the path may
// be relative, "postgres://USER:PASSWORD@HOST/NAME" or
// "mysql://USER:PASSWORD@HOST/NAME", with the parameters of the drivers pgx and
// go-sql-driver/mysql. An SQLite file is made if it is missing; the tables are
// made by Migrate. Every connection is asked for its settings and refused with
// ErrUnsafeSettings if they could lose a commit.
//
// Several hosts, HOST,HOST/NAME, are an order of failover: the first that can
// be written serves until it fails. They must replicate synchronously, else
// they are refused in the same way.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	d, err := dialectOf(url)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	store := New(d, o)
	ctx, cancel := context.WithTimeout(ctx, store.o.BusyWait)
	defer cancel()
	h, err := d.open(ctx, url, store.o)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", d.classed(err))
	}
	return &DB{store, h}, nil
}

// OpenSQL opens a plain pool on the database that url names as for Open, for
// an application's own use and for Do. The drivers' defaults hold, but that an
// SQLite file is in WAL mode with synchronous=FULL and a busy timeout. Several
// hosts are an order of failover here too, but only Open asks whether they
// replicate before they answer COMMIT.
func OpenSQL(url string) (*sql.DB, Dialect, error) {
	d, err := dialectOf(url)
	if err != nil {
		return nil, d, fmt.Errorf("open the database: %w", err)
	}
	db, err := d.pool(url, Options{}.withDefaults())
	if err != nil {
		return nil, d, fmt.Errorf("open the database: %w", err)
	}
	return db, d, nil
}

// dialectOf returns the dialect that a URL's scheme names.
func dialectOf(url string) (Dialect, error) {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "sqlite":
		return SQLite(), nil
	case "postgres", "postgresql":
		return Postgres(), nil
	case "mysql", "mariadb":
		return MySQL(), nil
	}
	return Dialect{}, errors.New("its URL must be sqlite:PATH, postgres://HOST/NAME or mysql://HOST/NAME")
}

// Store returns the store of the keys in this database.
func (d *DB) Store() *Store { return d.store }

// Dialect returns what is particular to this database's engine.
func (d *DB) Dialect() Dialect { return d.store.d }

// Close closes the database once no connection is in use.
func (d *DB) Close() error { return errors.Join(d.readers.Close(), d.writer.Close()) }

// Ping reports whether the database can be read now.
func (d *DB) Ping(ctx context.Context) error {
	return d.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := d.store.Now(ctx, tx)
		return err
	})
}

// Upkeep tidies up what the engine leaves behind, and is to be run about once a
// minute: on SQLite it empties the write-ahead log, in which overwritten
// secrets live on until then. It waits for a turn like any writer.
func (d *DB) Upkeep(ctx context.Context) error {
	if d.store.d.upkeep == nil {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, d.store.o.BusyWait)
	defer cancel()
	if err := d.store.turns.enter(wait); err != nil {
		return err
	}
	defer d.store.turns.leave()
	conn, err := d.writer.Conn(wait)
	if err != nil {
		return d.store.d.unreached(wait, "get a connection that writes", err)
	}
	defer conn.Close()
	if err := d.store.d.upkeep(wait, conn, d.store.o); err != nil {
		discard(conn) // its settings may not be ours any more
		return d.store.d.unreached(wait, "tidy up", err)
	}
	return nil
}

// View runs a function on a snapshot that it can only read. It never waits
// for a writer. On a database server it ends after BusyWait and CommitWait
// together unless ctx has a deadline of its own. ErrUnavailable and ErrBusy mean
// what they say; every other error is the function's own.
func (d *DB) View(ctx context.Context, work func(ctx context.Context, tx onlyonce.Tx) error) error {
	if err := d.present(); err != nil {
		return err
	}
	s := d.store
	wait, cancel := context.WithTimeout(ctx, s.o.BusyWait)
	defer cancel()
	conn, err := s.beginOn(wait, d.readers, s.d.snapshot...)
	if err != nil {
		return err
	}
	ctx, cancel = s.bounded(ctx)
	defer cancel()
	tx := &guarded{wrapped: wrapped{conn}, d: s.d, ctx: ctx}
	defer s.endView(ctx, conn, tx)
	return s.d.classed(work(ctx, tx))
}

// endView gives the connection back, unless something that happened on it says
// that it should serve nobody else.
func (s *Store) endView(ctx context.Context, conn *sql.Conn, tx *guarded) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.BusyWait)
	defer cancel()
	if _, err := conn.ExecContext(ctx, s.d.rollback); err != nil || tx.unfit {
		discard(conn)
		return
	}
	_ = conn.Close() // back to the pool, which reports nothing worth knowing
}
