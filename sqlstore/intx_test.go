package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// begin claims a key in a transaction of its own.
func begin(db *sqlstore.DB, once *onlyonce.Engine, key string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		return db.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
			_, err := once.Begin(ctx, tx, intent(key))
			return err
		})
	}
}

// status reads where a key stands.
func status(t *testing.T, db *sqlstore.DB, key string) onlyonce.Status {
	t.Helper()
	var status onlyonce.Status
	err := db.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		recs, err := db.Store().Load(ctx, tx, []onlyonce.Key{intent(key).Key}, false)
		if err == nil {
			status = recs[0].Status
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// commits makes a hook that acts on COMMIT while armed.
func commits(armed *atomic.Bool, act func(run func() error) error) hook {
	return func(statement string, run func() error) error {
		if statement == "COMMIT" && armed.Load() {
			return act(run)
		}
		return run()
	}
}

// TestHungCommit makes COMMIT hang: the caller is told that the outcome is
// unknown, the next one that the store is busy, and when the commit goes
// through the store serves again and the work is there.
func TestHungCommit(t *testing.T) {
	var armed atomic.Bool
	hung := make(chan struct{})
	h := commits(&armed, func(run func() error) error {
		<-hung
		return run()
	})
	db := open(t, filepath.Join(t.TempDir(), "keys.db"),
		sqlstore.Options{CommitWait: 20 * time.Millisecond, BusyWait: 200 * time.Millisecond, Connect: h.connect})
	once := engine(t, db.Store())
	armed.Store(true)
	if err := begin(db, once, "k1")(t.Context()); !errors.Is(err, onlyonce.ErrCommitUnknown) {
		t.Errorf("hung commit: %v, want ErrCommitUnknown", err)
	}
	err := begin(db, once, "k2")(t.Context())
	if !errors.Is(err, sqlstore.ErrBusy) || !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("while a commit hangs: %v, want ErrBusy", err)
	}
	if got := status(t, db, "k1"); got != "" {
		t.Errorf("before the commit the key is %q", got)
	}
	armed.Store(false)
	close(hung)
	if err := eventually(func() error { return begin(db, once, "k3")(t.Context()) }); err != nil {
		t.Errorf("after the commit: %v", err)
	}
	if got := status(t, db, "k1"); got != onlyonce.InProgress {
		t.Errorf("after the commit the key is %q", got)
	}
	if got := status(t, db, "k2"); got != "" {
		t.Errorf("the refused key is %q", got)
	}
}

// eventually tries again while the store is busy, a bounded number of times.
func eventually(try func() error) (err error) {
	for range 50 {
		if err = try(); !errors.Is(err, sqlstore.ErrBusy) {
			return err
		}
	}
	return err
}

// loseAnswer commits and then fails in a way that proves nothing.
func loseAnswer(run func() error) error { return errors.Join(run(), errDisk) }

// TestCommitErrors makes COMMIT fail in each way and expects what it proves.
func TestCommitErrors(t *testing.T) {
	busy := busyError(t)
	for name, test := range map[string]struct {
		act     func(run func() error) error
		want    error
		durable bool
	}{
		"answer lost":       {loseAnswer, onlyonce.ErrCommitUnknown, true},
		"never arrived":     {func(func() error) error { return errDisk }, onlyonce.ErrCommitUnknown, false},
		"known rolled back": {func(func() error) error { return busy }, sqlstore.ErrBusy, false},
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			db := open(t, filepath.Join(t.TempDir(), "keys.db"),
				sqlstore.Options{Connect: commits(&armed, test.act).connect, BusyWait: 100 * time.Millisecond})
			once := engine(t, db.Store())
			armed.Store(true)
			err := begin(db, once, "k")(t.Context())
			armed.Store(false)
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if got := status(t, db, "k") != ""; got != test.durable {
				t.Errorf("durable: %v, want %v", got, test.durable)
			}
			if err := begin(db, once, "other")(t.Context()); err != nil {
				t.Errorf("the next transaction: %v", err)
			}
		})
	}
}

// TestClientGone cancels the context before, during and after the wait for
// the transaction. Once begun the work goes on and commits.
func TestClientGone(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
	once := engine(t, db.Store())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := begin(db, once, "before")(gone); !errors.Is(err, sqlstore.ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("before: %v, want ErrBusy and context.Canceled", err)
	}
	leaving, cancel := context.WithCancel(t.Context())
	err := db.InTx(leaving, func(ctx context.Context, tx onlyonce.Tx) error {
		cancel()
		if _, err := once.Begin(leaving, tx, intent("during")); err != nil { // not even its own context counts
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		t.Errorf("during: %v", err)
	}
	if a, b := status(t, db, "before"), status(t, db, "during"); a != "" || b != onlyonce.InProgress {
		t.Errorf("before the client left %q, after %q", a, b)
	}
	waiting, cancel := context.WithCancel(t.Context())
	err = db.InTx(t.Context(), func(context.Context, onlyonce.Tx) error {
		cancel()
		return begin(db, once, "queued")(waiting)
	})
	if !errors.Is(err, sqlstore.ErrBusy) {
		t.Errorf("in the queue: %v, want ErrBusy", err)
	}
}

// TestDiskFull fills the disk, as SQLite sees it. The work swallows the error,
// after which SQLite would run its next statement outside any transaction.
func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	open(t, path, sqlstore.Options{})
	db := open(t, path, sqlstore.Options{Connect: hook(passOn).connectThen("PRAGMA max_page_count = 40")})
	once := engine(t, db.Store())
	var second error
	err := db.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		d, err := once.Begin(ctx, tx, intent("k"))
		if err != nil {
			return err
		}
		_ = once.Finish(ctx, tx, *d.Claim, onlyonce.Outcome{Status: 200, Body: make([]byte, 1<<19)})
		_, second = once.Begin(ctx, tx, intent("stray"))
		return nil
	})
	if !errors.Is(err, sqlstore.ErrUnavailable) || !errors.Is(err, onlyonce.ErrTransactionLost) {
		t.Errorf("full disk: %v, want ErrUnavailable and ErrTransactionLost", err)
	}
	if !errors.Is(second, onlyonce.ErrTransactionLost) {
		t.Errorf("the statement after: %v, want ErrTransactionLost", second)
	}
	if a, b := status(t, db, "k"), status(t, db, "stray"); a != "" || b != "" {
		t.Errorf("after the rollback the keys are %q and %q", a, b)
	}
	if err := begin(db, once, "small")(t.Context()); err != nil {
		t.Errorf("what still fits: %v", err)
	}
}

func passOn(_ string, run func() error) error { return run() }

// TestHundredWriters lets 100 write at once through two handles on one file,
// as two processes do. Each reads before it writes, which a transaction that
// takes the write lock late could only answer with "database is locked" or by
// running again (case 45).
func TestHundredWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	handles := []*sqlstore.DB{open(t, path, sqlstore.Options{}), open(t, path, sqlstore.Options{})}
	const writers, rounds = 100, 3
	var runs atomic.Int32
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			db := handles[i%2]
			once := engine(t, db.Store())
			for n := range rounds {
				in := intent(fmt.Sprintf("k%d-%d", i, n))
				err := eventually(func() error {
					return db.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
						runs.Add(1)
						if _, err := once.Look(ctx, tx, in); err != nil {
							return err
						}
						_, err := once.Begin(ctx, tx, in)
						return err
					})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if runs.Load() != writers*rounds {
		t.Errorf("%d runs of %d transactions: some ran again", runs.Load(), writers*rounds)
	}
}

// TestWritersTakeTurns queues writers one by one behind an open transaction
// and expects them in that order.
func TestWritersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers = 20
		db := open(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
		order := make(chan int, writers)
		err := db.InTx(t.Context(), func(context.Context, onlyonce.Tx) error {
			for i := range writers {
				go func() {
					err := db.InTx(t.Context(), func(context.Context, onlyonce.Tx) error {
						order <- i
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait() // until this one stands in the queue
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for want := range writers {
			if got := <-order; got != want {
				t.Fatalf("writer %d came when it was the turn of %d", got, want)
			}
		}
	})
}
