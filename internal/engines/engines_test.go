package engines_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// Two databases of one engine share nothing, and are gone after their test.
func TestDatabaseIsFreshAndGoes(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		var url string
		t.Run("made", func(t *testing.T) {
			url = e.Database(t)
			for _, db := range []*sql.DB{e.SQL(t, url), e.SQL(t, e.Database(t))} {
				if _, err := db.ExecContext(t.Context(), "CREATE TABLE kept (id BIGINT PRIMARY KEY)"); err != nil {
					t.Error("a database is not empty:", err)
				}
			}
		})
		if e.Name == engines.SQLite {
			return // it went with the test's folder
		}
		db, err := engines.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.PingContext(t.Context()); err == nil {
			t.Error("the database is there after its test")
		}
	})
}

// A database goes although a client still holds a transaction on it, as one
// does that a test has killed.
func TestDatabaseGoesUnderAnOpenTransaction(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		var held *sql.DB
		t.Run("made", func(t *testing.T) {
			var err error
			if held, err = engines.Open(e.Database(t)); err != nil {
				t.Fatal(err)
			}
			if _, err := held.Exec("CREATE TABLE kept (id BIGINT PRIMARY KEY)"); err != nil {
				t.Fatal(err)
			}
			// Not the test's own context: the transaction must outlive it.
			tx, err := held.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("INSERT INTO kept (id) VALUES (1)"); err != nil {
				t.Fatal(err)
			}
		})
		if err := held.Close(); err != nil {
			t.Log("the server had ended it:", err)
		}
	})
}

// The server behind a URL is the one that the list names.
func TestEngineIsWhatItSays(t *testing.T) {
	ask := map[string]string{"sqlite": "SELECT sqlite_version()", "postgres": "SHOW server_version",
		"mysql": "SELECT version()"}
	prefix := map[string]string{engines.Postgres15: "15.", engines.Postgres18: "18.", engines.PgBouncer: "15."}
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		var got string
		if err := e.SQL(t, e.Database(t)).QueryRowContext(t.Context(), ask[e.Dialect]).Scan(&got); err != nil {
			t.Fatal(err)
		}
		// The pooler's own version is its program's, not the one of the server behind it.
		if e.Name != engines.PgBouncer && e.Version != got || !strings.HasPrefix(got, prefix[e.Name]) {
			t.Errorf("%s says it is %q, the list says %q", e.Name, got, e.Version)
		}
		if maria := strings.Contains(got, "MariaDB"); maria != (e.Name == engines.MariaDB) {
			t.Errorf("%s is %s", e.Name, got)
		}
	})
}

// The pooler has two server connections for a database, which clients hold for
// a transaction and no longer; or it would be no test of one.
func TestPoolerIsInTransactionMode(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // in session mode it would wait for ever
	defer cancel()
	for _, e := range engines.Named(t, engines.PgBouncer) {
		db, err := engines.Open(e.Database(t) + "?default_query_exec_mode=exec")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		backend := func(ctx context.Context, by interface {
			QueryRowContext(context.Context, string, ...any) *sql.Row
		}) (pid int, err error) {
			err = by.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid)
			return pid, err
		}
		pids := map[int]bool{}
		var open []*sql.Tx
		for range 2 {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, tx)
			pid, err := backend(ctx, tx)
			if err != nil {
				t.Fatal(err)
			}
			pids[pid] = true
		}
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if pid, err := backend(short, db); err == nil {
			t.Errorf("beside two open transactions there was a third server connection, %d", pid)
		}
		for _, tx := range open {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		// The two clients are still connected. In session mode they would keep what they have.
		for range 3 {
			conn, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if pid, err := backend(ctx, conn); err != nil || !pids[pid] {
				t.Errorf("a client is on server connection %d (%v), which is none of %v", pid, err, pids)
			}
		}
	}
}

func TestNamedKeepsTheOrder(t *testing.T) {
	var names []string
	for _, e := range engines.Named(t, engines.MySQL, engines.SQLite) {
		names = append(names, e.Name)
	}
	if !slices.Contains([]string{"sqlite", "sqlite mysql"}, strings.Join(names, " ")) {
		t.Errorf("Named gave %v", names)
	}
}
