package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// service is a service's own database with the engine's tables in it.
type service struct {
	path string
	db   *sqlstore.DB // to look at it from outside
	once *onlyonce.Engine
}

func newService(t *testing.T, o sqlstore.Options) service {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db := open(t, path, sqlstore.Options{})
	own := pool(t, path, "")
	if _, err := own.Exec("CREATE TABLE orders (id TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return service{path, db, engine(t, sqlstore.New(sqlstore.SQLite(), o))}
}

// order is an effect that writes one row.
func order(id string) func(tx *sql.Tx) (onlyonce.Outcome, error) {
	return func(tx *sql.Tx) (onlyonce.Outcome, error) {
		_, err := tx.Exec("INSERT INTO orders (id) VALUES (?)", id)
		return onlyonce.Outcome{Status: 201, Body: []byte(id)}, err
	}
}

func (s service) expectOrders(t *testing.T, id string, want int) {
	t.Helper()
	var got int
	if err := pool(t, s.path, "").QueryRow("SELECT count(*) FROM orders WHERE id = ?", id).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%d orders %s, want %d", got, id, want)
	}
}

// TestDoOnAnyPool runs on pools as services configure them, one connection
// and no busy timeout among them.
func TestDoOnAnyPool(t *testing.T) {
	s := newService(t, sqlstore.Options{})
	for i, parameters := range []string{"", "?_txlock=immediate", "?_txlock=exclusive&_busy_timeout=1000"} {
		for _, conns := range []int{1, 2, 0} {
			db := pool(t, s.path, parameters)
			db.SetMaxOpenConns(conns)
			id := fmt.Sprintf("k%d-%d", i, conns)
			for _, replayed := range []bool{false, true} {
				res, err := sqlstore.Do(t.Context(), s.once, db, intent(id), order(id))
				if err != nil || res.Replayed != replayed || string(res.Outcome.Body) != id {
					t.Errorf("%q with %d connections: %+v %v", parameters, conns, res, err)
				}
			}
			s.expectOrders(t, id, 1)
			if in := db.Stats().InUse; in != 0 {
				t.Errorf("%q: %d connections are still in use", parameters, in)
			}
		}
	}
}

// TestDoWaitsForAnotherProcess holds the write lock from elsewhere, on a pool
// that has no busy timeout, and lets go after the first refusal.
func TestDoWaitsForAnotherProcess(t *testing.T) {
	s := newService(t, sqlstore.Options{})
	rival, err := pool(t, s.path, "?_txlock=immediate").Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback()
	db := hookedPool(t, "sqlite:"+s.path, func(_ string, run func() error) error {
		err := run()
		if s.once.Store().(*sqlstore.Store).Dialect().Retryable(err) {
			return errors.Join(err, rival.Rollback())
		}
		return err
	})
	if _, err := sqlstore.Do(t.Context(), s.once, db, intent("k"), order("k")); err != nil {
		t.Error(err)
	}
	s.expectOrders(t, "k", 1)
}

// TestDoTransactionLost lets an effect lose its transaction and go on: Do must
// not commit, must say so, and must not keep the connection.
func TestDoTransactionLost(t *testing.T) {
	const endless = `INSERT INTO orders (id)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`
	effects := map[string]func(t *testing.T, tx *sql.Tx){
		"interrupted": func(t *testing.T, tx *sql.Tx) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := tx.ExecContext(ctx, endless); err == nil {
				t.Error("the statement was not interrupted")
			}
		},
		"interrupted, and goes on regardless": func(t *testing.T, tx *sql.Tx) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := tx.ExecContext(ctx, endless); err == nil {
				t.Error("the statement was not interrupted")
			}
			_, _ = tx.Exec("INSERT INTO orders (id) VALUES ('k')") // in autocommit, behind everybody's back
		},
		"rolled back by the database": func(t *testing.T, tx *sql.Tx) {
			if _, err := tx.Exec("ROLLBACK"); err != nil {
				t.Error(err)
			}
		},
		"rolled back by the effect": func(t *testing.T, tx *sql.Tx) {
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		},
	}
	for name, lose := range effects {
		t.Run(name, func(t *testing.T) {
			s := newService(t, sqlstore.Options{})
			db := pool(t, s.path, "")
			_, err := sqlstore.Do(t.Context(), s.once, db, intent("k"), func(tx *sql.Tx) (onlyonce.Outcome, error) {
				if _, err := order("k")(tx); err != nil {
					return onlyonce.Outcome{}, err
				}
				lose(t, tx)
				return onlyonce.Outcome{Status: 201}, nil
			})
			if !errors.Is(err, onlyonce.ErrTransactionLost) {
				t.Errorf("%v, want ErrTransactionLost", err)
			}
			if n := db.Stats().OpenConnections; n != 0 {
				t.Errorf("%d connections are open, the lost one among them", n)
			}
			s.expectOrders(t, "k", 0)
			if got := status(t, s.db, "k"); got != "" {
				t.Errorf("the key is %q, want it free", got)
			}
			if _, err := sqlstore.Do(t.Context(), s.once, db, intent("k"), order("k")); err != nil {
				t.Errorf("the retry: %v", err)
			}
			s.expectOrders(t, "k", 1)
		})
	}
}

// TestDoClientGone cancels the client's context at every statement, before
// and after it ran (case 49). Whatever Do said, a retry ends in one order.
func TestDoClientGone(t *testing.T) {
	for _, after := range []bool{false, true} {
		s := newService(t, sqlstore.Options{})
		const maxStatements = 20
		for at := 1; ; at++ {
			if at > maxStatements {
				t.Fatalf("more than %d statements", maxStatements)
			}
			id := fmt.Sprintf("k%d", at)
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			db := hookedPool(t, "sqlite:"+s.path, func(_ string, run func() error) error {
				calls++
				if calls != at {
					return run()
				}
				if !after {
					cancel()
					return run()
				}
				err := run()
				cancel()
				return err
			})
			_, err := sqlstore.Do(ctx, s.once, db, intent(id), order(id))
			cancel()
			if err != nil && !errors.Is(err, sqlstore.ErrBusy) {
				t.Errorf("gone at statement %d: %v, want ErrBusy or nothing", at, err)
			}
			if err != nil {
				s.expectOrders(t, id, 0)
			}
			if _, err := sqlstore.Do(t.Context(), s.once, db, intent(id), order(id)); err != nil {
				t.Errorf("gone at statement %d, the retry: %v", at, err)
			}
			s.expectOrders(t, id, 1)
			if calls < at {
				break
			}
		}
	}
}

// TestDoHungCommit makes COMMIT hang, and lose its answer: Do says unknown,
// and the same key finds out.
func TestDoHungCommit(t *testing.T) {
	hung := make(chan struct{})
	for name, act := range map[string]func(run func() error) error{
		"hangs":         func(run func() error) error { <-hung; return run() },
		"loses answer":  loseAnswer,
		"never arrives": func(func() error) error { return errDisk },
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			s := newService(t, sqlstore.Options{CommitWait: 20 * time.Millisecond})
			db := hookedPool(t, "sqlite:"+s.path, commits(&armed, act))
			armed.Store(true)
			_, err := sqlstore.Do(t.Context(), s.once, db, intent("k"), order("k"))
			if !errors.Is(err, onlyonce.ErrCommitUnknown) {
				t.Errorf("%v, want ErrCommitUnknown", err)
			}
			armed.Store(false)
			if name == "hangs" {
				close(hung)
			}
			res, err := sqlstore.Do(t.Context(), s.once, db, intent("k"), order("k"))
			if err != nil || res.Replayed != (name != "never arrives") {
				t.Errorf("the retry: %+v %v", res, err)
			}
			s.expectOrders(t, "k", 1)
		})
	}
}

// TestDoNeedsItsStore runs Do with an engine whose store it can't know.
func TestDoNeedsItsStore(t *testing.T) {
	s := newService(t, sqlstore.Options{})
	strange := engine(t, struct{ onlyonce.Store }{s.once.Store()})
	if _, err := sqlstore.Do(t.Context(), strange, pool(t, s.path, ""), intent("k"), succeed); err == nil {
		t.Error("Do ran with a store that is not its own")
	}
}
