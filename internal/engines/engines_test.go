package engines_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

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

// Behind the pooler a session's state is lost between transactions, or it
// would be no test of one.
func TestPoolerIsInTransactionMode(t *testing.T) {
	for _, e := range engines.Named(t, engines.PgBouncer) {
		url := e.Database(t) + "?default_query_exec_mode=exec"
		db, err := engines.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		// Two transactions at once show both server connections. Three clients then share them.
		pids := map[int]bool{}
		var open []*sql.Tx
		for range 2 {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, tx)
			var pid int
			if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				t.Fatal(err)
			}
			pids[pid] = true
		}
		for _, tx := range open {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		conns := make([]*sql.Conn, 3)
		for i := range conns {
			if conns[i], err = db.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer conns[i].Close()
			var pid int
			if err := conns[i].QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				t.Fatal(err)
			}
			if !pids[pid] {
				t.Errorf("client %d is on server connection %d, which is none of the two %v", i, pid, pids)
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
