package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// failAt makes the first statement that begins with a word fail while armed.
func failAt(armed *atomic.Bool, word string, err error) hook {
	return func(statement string, run func() error) error {
		if strings.HasPrefix(statement, word) && armed.CompareAndSwap(true, false) {
			return err
		}
		return run()
	}
}

// TestLostRaceRunsTheWholeAgain loses once at COMMIT (case 39), and once at the
// second statement (case 43): all statements must run again, not the last one
// alone.
func TestLostRaceRunsTheWholeAgain(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		for name, lost := range lostRaces(t, e.Dialect) {
			for _, at := range []string{"COMMIT", "UPDATE"} {
				var armed atomic.Bool
				h := failAt(&armed, at, lost)
				db, own := reach(t, s.link, sqlstore.Options{Connect: h.connect}), hookedPool(t, s.link, h)
				id := at + name
				armed.Store(true)
				if replayed, err := s.orderIn(t.Context(), db, id); err != nil || replayed || armed.Load() {
					t.Errorf("InTx, %s: replayed %v, error %v", id, replayed, err)
				}
				s.expectOrders(t, id, 1)
				armed.Store(true)
				if replayed, err := s.orderDo(t.Context(), own, "do"+id); err != nil || replayed || armed.Load() {
					t.Errorf("Do, %s: replayed %v, error %v", id, replayed, err)
				}
				s.expectOrders(t, "do"+id, 1)
			}
		}
	})
}

// TestDoubtfulCommits answers COMMIT with what proves nothing.
func TestDoubtfulCommits(t *testing.T) {
	doubts := map[string]map[string]error{
		"mysql": {
			"no quorum": &mysql.MySQLError{Number: 1180, Message: "Got error 6 during COMMIT: Not connected to Primary"},
			"shutdown":  &mysql.MySQLError{Number: 1053}, "killed": &mysql.MySQLError{Number: 1317},
			"connection": mysql.ErrInvalidConn, "end": io.ErrUnexpectedEOF,
		},
		"postgres": {
			"shutdown": &pgconn.PgError{Code: "57P01"}, "disk": &pgconn.PgError{Code: "58030"}, "end": io.ErrUnexpectedEOF,
		},
		"sqlite": {"disk": errDisk},
	}
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		for id, doubt := range doubts[e.Dialect] {
			var armed atomic.Bool
			h := failAt(&armed, "COMMIT", doubt)
			db, own := reach(t, s.link, sqlstore.Options{Connect: h.connect}), hookedPool(t, s.link, h)
			armed.Store(true)
			if _, err := s.orderIn(t.Context(), db, id); !errors.Is(err, onlyonce.ErrCommitUnknown) {
				t.Errorf("InTx, %s: %v, want ErrCommitUnknown", id, err)
			}
			armed.Store(true)
			if _, err := s.orderDo(t.Context(), own, id); !errors.Is(err, onlyonce.ErrCommitUnknown) {
				t.Errorf("Do, %s: %v, want ErrCommitUnknown", id, err)
			}
			if _, err := s.orderDo(t.Context(), own, id); err != nil {
				t.Errorf("%s, the retry: %v", id, err)
			}
			s.expectOrders(t, id, 1)
		}
	})
}

// waiting counts the transactions that wait for a lock: on MySQL those of the
// whole server, because the tables that name each can't show binary arguments.
func waiting(e engines.Engine) string {
	if e.Dialect == "mysql" {
		return "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_row_lock_current_waits'"
	}
	return `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
}

// awaitWaiting returns once that many transactions wait for a lock.
func (s service) awaitWaiting(t *testing.T, e engines.Engine, want int64) {
	t.Helper()
	for over := time.After(20 * time.Second); s.number(t, waiting(e)) < want; {
		select {
		case <-over:
			t.Fatalf("not %d transactions wait", want)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestThreeWaitersAndARollback lets an original roll back under waiting
// duplicates (case 37): one of them runs, the others get its outcome.
func TestThreeWaitersAndARollback(t *testing.T) {
	eachServer(t, func(t *testing.T, e engines.Engine) {
		if e.Name == engines.PgBouncer {
			return // its pool of two holds the original and one duplicate
		}
		const waiters = 3
		s := newService(t, e.Database(t), sqlstore.Options{})
		own := ownPool(t, s.link)
		var ran, replays atomic.Int32
		var duplicates sync.WaitGroup
		_, err := sqlstore.Do(t.Context(), s.once, own, intent("k"), func(tx *sql.Tx) (onlyonce.Outcome, error) {
			for range waiters {
				duplicates.Go(func() {
					replayed, err := s.orderDo(t.Context(), own, "k")
					if err != nil {
						t.Error(err)
					}
					if replayed {
						replays.Add(1)
					} else {
						ran.Add(1)
					}
				})
			}
			s.awaitWaiting(t, e, waiters)
			return onlyonce.Outcome{}, errDisk
		})
		duplicates.Wait()
		if !errors.Is(err, errDisk) || ran.Load() != 1 || replays.Load() != waiters-1 {
			t.Errorf("the original: %v; %d ran, %d were replayed", err, ran.Load(), replays.Load())
		}
		s.expectOrders(t, "k", 1)
	})
}

// TestOriginalDoesNotEnd keeps an original open for longer than a duplicate
// waits: that one is told that it is in flight, and on SQLite, where writers
// queue, that the store is busy. Nothing is harmed.
func TestOriginalDoesNotEnd(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{BusyWait: time.Second})
		own := ownPool(t, s.link)
		want := onlyonce.ErrInFlight
		if e.Dialect == "sqlite" {
			want = sqlstore.ErrBusy
		}
		_, err := sqlstore.Do(t.Context(), s.once, own, intent("k"), func(tx *sql.Tx) (onlyonce.Outcome, error) {
			if _, err := s.orderDo(t.Context(), own, "k"); !errors.Is(err, want) {
				t.Errorf("the duplicate: %v, want %v", err, want)
			}
			return order("k")(tx)
		})
		if err != nil {
			t.Errorf("the original: %v", err)
		}
		if replayed, err := s.orderDo(t.Context(), own, "k"); err != nil || !replayed {
			t.Errorf("afterwards: replayed %v, error %v", replayed, err)
		}
		s.expectOrders(t, "k", 1)
	})
}

// TestLockWaitLeavesNothing lets an effect wait in vain for a row after it has
// written another (case 44): on MySQL only the statement is undone, so the rest
// must be rolled back.
func TestLockWaitLeavesNothing(t *testing.T) {
	eachServer(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{BusyWait: time.Second})
		s.exec(t, "CREATE TABLE accounts (id VARCHAR(64) NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)")
		s.exec(t, "INSERT INTO accounts (id, balance) VALUES ('x', 0)")
		rival, err := e.SQL(t, s.link).Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer rival.Rollback()
		const touch = "UPDATE accounts SET balance = balance + 1 WHERE id = 'x'"
		if _, err := rival.Exec(touch); err != nil {
			t.Fatal(err)
		}
		own := ownPool(t, s.link)
		effect := func(tx *sql.Tx) (onlyonce.Outcome, error) {
			if o, err := order("k")(tx); err != nil {
				return o, err
			}
			_, err := tx.Exec(touch)
			return onlyonce.Outcome{Status: 201}, err
		}
		if _, err := sqlstore.Do(t.Context(), s.once, own, intent("k"), effect); !errors.Is(err, sqlstore.ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
		s.expectOrders(t, "k", 0)
		if got := status(t, s.db, "k"); got != "" {
			t.Errorf("the key is %q, want it free", got)
		}
		if err := rival.Rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlstore.Do(t.Context(), s.once, own, intent("k"), effect); err != nil {
			t.Errorf("the retry: %v", err)
		}
		s.expectOrders(t, "k", 1)
	})
}

// TestSwallowedErrors lets an effect take no notice of an error that ended its
// transaction, and go on (case 43): nothing of it is durable, and Do says so.
func TestSwallowedErrors(t *testing.T) {
	eachServer(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		lose := func(t *testing.T, tx *sql.Tx) {
			if _, err := tx.Exec("SELECT nothing FROM nowhere"); err == nil {
				t.Error("the statement did not fail")
			}
		}
		if e.Dialect == "mysql" {
			lose = s.deadlock(t, e)
		}
		own := ownPool(t, s.link)
		_, err := sqlstore.Do(t.Context(), s.once, own, intent("k"), func(tx *sql.Tx) (onlyonce.Outcome, error) {
			if _, err := order("k")(tx); err != nil {
				return onlyonce.Outcome{}, err
			}
			lose(t, tx)
			_, _ = order("k")(tx)
			return onlyonce.Outcome{Status: 201}, nil
		})
		if !errors.Is(err, onlyonce.ErrTransactionLost) {
			t.Errorf("%v, want ErrTransactionLost", err)
		}
		s.expectOrders(t, "k", 0)
		if got := status(t, s.db, "k"); got != "" {
			t.Errorf("the key is %q, want it free", got)
		}
		if n := own.Stats().OpenConnections; n > 1 { // that of the look
			t.Errorf("%d connections are open, the lost one among them", n)
		}
		if replayed, err := s.orderDo(t.Context(), own, "k"); err != nil || replayed {
			t.Errorf("the retry: replayed %v, error %v", replayed, err)
		}
		s.expectOrders(t, "k", 1)
	})
}

// deadlock returns a real one, which the effect loses: InnoDB rolls back the
// transaction that has changed less.
func (s service) deadlock(t *testing.T, e engines.Engine) func(t *testing.T, tx *sql.Tx) {
	const heavy = 50
	s.exec(t, "CREATE TABLE accounts (id VARCHAR(64) NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)")
	s.exec(t, "INSERT INTO accounts (id, balance) VALUES ('x', 0), ('y', 0)")
	rival, err := e.SQL(t, s.link).Begin()
	if err != nil {
		t.Fatal(err)
	}
	for n := range heavy {
		if _, err := rival.Exec(fmt.Sprintf("INSERT INTO accounts (id, balance) VALUES ('r%d', 0)", n)); err != nil {
			t.Fatal(err)
		}
	}
	touch := func(tx *sql.Tx, id string) error {
		_, err := tx.Exec("UPDATE accounts SET balance = balance + 1 WHERE id = '" + id + "'")
		return err
	}
	if err := touch(rival, "y"); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, tx *sql.Tx) {
		if err := touch(tx, "x"); err != nil {
			t.Error(err)
		}
		ended := make(chan error)
		go func() { ended <- errors.Join(touch(rival, "x"), rival.Commit()) }()
		if err := touch(tx, "y"); !s.db.Dialect().Retryable(err) {
			t.Errorf("%v, want a deadlock", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestRivalBetweenInsertAndRead lets a caller own a transaction whose view is
// older than the original's commit (cases 34, 35). Where the engine can show
// him the outcome he gets it; where it can't, he is told to begin again. His
// transaction is usable as long as he is not told otherwise (case 36).
func TestRivalBetweenInsertAndRead(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		if e.Dialect == "sqlite" {
			return // a view that is old can't write there: SQLITE_BUSY_SNAPSHOT, case 45
		}
		s := newService(t, e.Database(t), sqlstore.Options{})
		own := ownPool(t, s.link)
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			id := fmt.Sprint("k", int(level))
			tx, err := own.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if err := tx.QueryRow("SELECT count(*) FROM idempotency_keys").Scan(&n); err != nil { // fixes the view
				t.Fatal(err)
			}
			if _, err := s.orderIn(t.Context(), s.db, id); err != nil {
				t.Fatal(err)
			}
			d, err := s.once.Begin(t.Context(), sqlstore.Wrap(tx), intent(id))
			if s.db.Dialect().Retryable(err) && level == sql.LevelRepeatableRead && e.Dialect == "postgres" {
				_ = tx.Rollback()
				continue // 40001: what it sees is settled
			}
			if err != nil || d.Outcome == nil || string(d.Outcome.Body) != id {
				t.Errorf("%v: %+v %v, want the outcome", level, d, err)
			}
			if _, err := tx.Exec(insert(id)); err != nil {
				t.Errorf("%v: the transaction is not usable any more: %v", level, err)
			}
			if err := tx.Commit(); err != nil {
				t.Errorf("%v: %v", level, err)
			}
			s.expectOrders(t, id, 2)
		}
	})
}

// TestSnapshotIsolation does the same on a MariaDB session that refuses to
// write over what its view does not show: error 1020.
func TestSnapshotIsolation(t *testing.T) {
	for _, e := range engines.Named(t, engines.MariaDB) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		own := ownPool(t, with(t, s.link, "innodb_snapshot_isolation=ON"))
		tx, err := own.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM idempotency_keys").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if _, err := s.orderIn(t.Context(), s.db, "k"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.once.Begin(t.Context(), sqlstore.Wrap(tx), intent("k")); !s.db.Dialect().Retryable(err) {
			t.Errorf("%v, want an error that says to begin again", err)
		}
	}
}
