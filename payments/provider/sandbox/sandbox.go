// Package sandbox is a payment provider to develop and test against. It speaks
// Stripe's wire format, remembers keys as Stripe does, and misbehaves on
// demand: the payment method token of a charge chooses its fate.
//
// Keys, objects and the ledger live in one SQLite file of their own and are
// durable before anything is answered, so that they survive kill -9, and
// several processes may serve the same file.
package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/onlyonce-go/onlyonce/payments"
)

const (
	defaultKeyWindow = 24 * time.Hour
	defaultSlowBy    = 3 * time.Second

	// leaseMargin is how long after its planned end a slow charge is taken for
	// that of a dead process, so that the next send under its key runs it.
	leaseMargin = 5 * time.Second
	// busyTimeout is how long a statement waits for another process's write.
	busyTimeout = 10 * time.Second
	// readers is how many connections serve looks while one writes.
	readers = 4
	// maxHeld bounds the connections that are held without an answer; beyond
	// it they are cut instead, which is as unknown to the client.
	maxHeld = 1000
	// holdAtMost is the longest that a connection is held. Every client of
	// sense has gone by then.
	holdAtMost = 10 * time.Minute
	// openTries and openPause bound the wait for another process that creates
	// the file at the same moment: SQLite does not queue a change to WAL.
	openTries = 100
	openPause = 20 * time.Millisecond
)

// Options configure a [Sandbox]. The zero value of each but Path is its
// documented default.
type Options struct {
	// Path is the SQLite file; it is made when it is not there.
	Path string
	// KeyWindow is how long a key is remembered. Default 24 h. Past it a send
	// under the same key is a new charge.
	KeyWindow time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// SlowBy is how long a slow charge takes. Default 3 s.
	SlowBy time.Duration
	// NewID makes the random part of ids. Default: 128 random bits.
	NewID func() string
	// Log gets one line per decision about a POST. Default: none.
	Log *slog.Logger
}

// Sandbox is one opened file. It is safe for concurrent use.
type Sandbox struct {
	o     Options
	id    string
	write *sql.DB // one connection: writers queue here, in order
	read  *sql.DB
	held  chan struct{}
	done  chan struct{} // closed when the sandbox closes

	mu      sync.Mutex // guards closed, and running against a late Add
	closed  bool
	running sync.WaitGroup
}

// Open opens or makes the file. The error says what is wrong with the options
// or the file. It starts nothing; the caller serves [Sandbox.Handler] and calls
// [Sandbox.Close].
func Open(ctx context.Context, o Options) (*Sandbox, error) {
	o.KeyWindow = cmp.Or(o.KeyWindow, defaultKeyWindow)
	o.SlowBy = cmp.Or(o.SlowBy, defaultSlowBy)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Path == "" || o.Path == ":memory:":
		return nil, errors.New("sandbox: Options.Path must name a file: what it holds has to survive the process")
	case o.KeyWindow < 0 || o.SlowBy < 0:
		return nil, errors.New("sandbox: Options.KeyWindow and Options.SlowBy must be positive")
	}
	s := &Sandbox{o: o, held: make(chan struct{}, maxHeld), done: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: open %s: %w", o.Path, err), s.closeFiles())
	}
	return s, nil
}

func (s *Sandbox) open(ctx context.Context) error {
	path, err := filepath.Abs(s.o.Path)
	if err != nil {
		return err
	}
	if s.write, err = sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous(FULL)")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.read, err = sql.Open("sqlite", dsn(path, "query_only(1)")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	return s.write.QueryRowContext(ctx, sqlID).Scan(&s.id)
}

// dsn is the driver's name for the file, with what every connection begins with.
func dsn(path string, pragmas ...string) string {
	pragmas = append(pragmas, fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	query := url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + query.Encode()
}

// prepare makes the tables and the id, and proves the settings that make an
// answer durable.
func (s *Sandbox) prepare(ctx context.Context) error {
	var err error
	for range openTries {
		if err = s.makeTables(ctx); err == nil || !busy(err) {
			break
		}
		if err := s.pause(ctx, openPause); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	var mode string
	var level int
	if err := s.write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if err := s.write.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return err
	}
	if mode != "wal" || level < 2 {
		return fmt.Errorf("the file has journal_mode %s and synchronous %d; it needs wal and 2 (FULL)", mode, level)
	}
	return nil
}

func (s *Sandbox) makeTables(ctx context.Context) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, sqlMakeID, strings.ToLower(s.o.NewID()))
		return err
	})
}

// busy reports whether another process holds the file; nothing was written.
func busy(err error) bool {
	var coded interface{ Code() int }
	return errors.As(err, &coded) && coded.Code()&0xff == 5 // SQLITE_BUSY
}

// ID is random and made with the file; the provider instance is "sandbox:"+ID.
func (s *Sandbox) ID() string { return s.id }

// Facts are what the sandbox guarantees: its lists show an object at once, so
// that absence is proved a second key window after the first.
func (s *Sandbox) Facts() payments.Facts {
	return payments.Facts{KeyWindow: s.o.KeyWindow, AbsenceGrace: s.o.KeyWindow}
}

// Close lets go of every held connection, waits for what runs, and closes the
// file. Call it before http.Server.Shutdown, which would wait for the held
// ones.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	close(s.done)
	s.running.Wait()
	return s.closeFiles()
}

func (s *Sandbox) closeFiles() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// enter counts a request in, unless the sandbox is closing.
func (s *Sandbox) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// pause waits, unless the context or the sandbox ends first.
func (s *Sandbox) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return errClosed
	}
}

var errClosed = errors.New("the sandbox is closed")

// inTx runs the closure in one durable transaction.
func (s *Sandbox) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
