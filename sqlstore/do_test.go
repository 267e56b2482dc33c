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
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// service is a service's own database with the engine's tables in it.
type service struct {
	link string
	db   *sqlstore.DB // to look at it from outside
	once *onlyonce.Engine
}

func newService(t *testing.T, link string, o sqlstore.Options) service {
	t.Helper()
	db := migrated(t, link, sqlstore.Options{})
	s := service{link, db, engine(t, sqlstore.New(db.Dialect(), o))}
	s.exec(t, "CREATE TABLE orders (id VARCHAR(64) NOT NULL)")
	return s
}

// newFile is a service with a file.
func newFile(t *testing.T, o sqlstore.Options) (s service, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "shop.db")
	return newService(t, "sqlite:"+path, o), path
}

// exec runs a statement in a transaction of its own.
func (s service) exec(t *testing.T, text string) {
	t.Helper()
	err := s.db.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := tx.Exec(ctx, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// number reads one number.
func (s service) number(t *testing.T, query string) (n int64) {
	t.Helper()
	err := s.db.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		rows, err := tx.Query(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&n); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// insert is the statement of an effect. The id is a plain word of the tests.
func insert(id string) string { return fmt.Sprintf("INSERT INTO orders (id) VALUES ('%s')", id) }

// order is an effect that writes one row.
func order(id string) func(tx *sql.Tx) (onlyonce.Outcome, error) {
	return func(tx *sql.Tx) (onlyonce.Outcome, error) {
		_, err := tx.Exec(insert(id))
		return onlyonce.Outcome{Status: 201, Body: []byte(id)}, err
	}
}

func (s service) expectOrders(t *testing.T, id string, want int64) {
	t.Helper()
	if got := s.number(t, fmt.Sprintf("SELECT count(*) FROM orders WHERE id = '%s'", id)); got != want {
		t.Errorf("%d orders %s, want %d", got, id, want)
	}
}

// TestDoOnAnyPool runs on pools as services configure them, one connection
// and no busy timeout among them.
func TestDoOnAnyPool(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		parameters := []string{""}
		if e.Dialect == "sqlite" {
			parameters = append(parameters, "?_txlock=immediate", "?_txlock=exclusive&_busy_timeout=1000")
		}
		for i, p := range parameters {
			for _, conns := range []int{1, 2, 0} {
				db := sql.OpenDB(connector(t, s.link+p))
				defer db.Close()
				db.SetMaxOpenConns(conns)
				s.expectOnce(t, db, fmt.Sprintf("k%d-%d", i, conns))
			}
		}
	})
}

// expectOnce runs Do twice and expects one order.
func (s service) expectOnce(t *testing.T, db *sql.DB, id string) {
	t.Helper()
	for _, replayed := range []bool{false, true} {
		res, err := sqlstore.Do(t.Context(), s.once, db, intent(id), order(id))
		if err != nil || res.Replayed != replayed || string(res.Outcome.Body) != id {
			t.Errorf("%s: %+v %v", id, res, err)
		}
	}
	s.expectOrders(t, id, 1)
	if in := db.Stats().InUse; in != 0 {
		t.Errorf("%s: %d connections are still in use", id, in)
	}
}

// TestDoWaitsForAnotherProcess holds the write lock from elsewhere, on a pool
// that has no busy timeout, and lets go after the first refusal.
func TestDoWaitsForAnotherProcess(t *testing.T) {
	s, path := newFile(t, sqlstore.Options{})
	rival, err := pool(t, path, "?_txlock=immediate").Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback()
	db := hookedPool(t, s.link, func(_ string, run func() error) error {
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
			s, path := newFile(t, sqlstore.Options{})
			db := pool(t, path, "")
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
			s, _ := newFile(t, sqlstore.Options{CommitWait: 20 * time.Millisecond})
			db := hookedPool(t, s.link, commits(&armed, act))
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
	s, path := newFile(t, sqlstore.Options{})
	strange := engine(t, struct{ onlyonce.Store }{s.once.Store()})
	if _, err := sqlstore.Do(t.Context(), strange, pool(t, path, ""), intent("k"), succeed); err == nil {
		t.Error("Do ran with a store that is not its own")
	}
}
