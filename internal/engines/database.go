package engines

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	// The drivers under which Open opens.
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// adminWait bounds making and removing a database. It is much longer than
// either takes, so that only a server that hangs is reported.
const adminWait = time.Minute

// Open opens a plain pool with the driver's own defaults on a URL as --db
// takes it: "sqlite:PATH", "postgres://…" or "mysql://…".
func Open(text string) (*sql.DB, error) {
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		// A reader from outside must not fail because a writer is at work.
		return sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("open a database: %w", err)
	}
	switch u.Scheme {
	case "postgres":
		return sql.Open("pgx", text)
	case "mysql":
		dsn := u.User.String() + "@tcp(" + u.Host + ")/" + strings.TrimPrefix(u.Path, "/")
		if u.RawQuery != "" {
			dsn += "?" + u.RawQuery
		}
		return sql.Open("mysql", dsn)
	}
	return nil, fmt.Errorf("open %s: say sqlite:, postgres:// or mysql://", text)
}

// Local is SQLite, which needs no server.
func Local() (Engine, error) {
	db, err := Open("sqlite::memory:")
	if err != nil {
		return Engine{}, err
	}
	defer db.Close()
	e := Engine{Name: SQLite, Dialect: "sqlite"}
	if err := db.QueryRow("SELECT sqlite_version()").Scan(&e.Version); err != nil {
		return Engine{}, fmt.Errorf("ask SQLite for its version: %w", err)
	}
	return e, nil
}

// Database makes an empty database and returns its URL as --db takes it. The
// database goes when the test ends, connections that are still open with it.
func (e Engine) Database(t testing.TB) string {
	t.Helper()
	if e.Name == SQLite {
		return "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	}
	name := "t" + strings.ToLower(rand.Text())
	e.administer(t, "create", func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE "+name)
		return err
	})
	t.Cleanup(func() {
		e.administer(t, "drop", func(ctx context.Context, db *sql.DB) error { return e.drop(ctx, db, name) })
	})
	u, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// drop removes a database to which poolers, and clients that the test killed,
// may still hold connections.
func (e Engine) drop(ctx context.Context, db *sql.DB, name string) error {
	if e.Dialect == "postgres" {
		_, err := db.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		return err
	}
	ids, err := sessionsIn(ctx, db, name)
	if err != nil {
		return err
	}
	for _, id := range ids {
		// One that has gone by itself meanwhile is an error, and fine.
		_, _ = db.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
	}
	_, err = db.ExecContext(ctx, "DROP DATABASE "+name)
	return err
}

// sessionsIn lists who uses a database of MySQL. To select from the list of
// processes fails when another session runs a statement with bytes that are no
// text; to show it does not.
func sessionsIn(ctx context.Context, db *sql.DB, name string) (ids []int64, err error) {
	rows, err := db.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var id int64
	var in sql.NullString
	into := make([]any, len(columns)) // MariaDB has one more
	for i, column := range columns {
		switch column {
		case "Id":
			into[i] = &id
		case "db":
			into[i] = &in
		default:
			into[i] = new(sql.RawBytes)
		}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		if in.String == name {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

// administer works as the administrator on a connection of its own, so that no
// test waits for another.
func (e Engine) administer(t testing.TB, what string, work func(context.Context, *sql.DB) error) {
	t.Helper()
	// The test's own context has ended when its cleanup runs.
	ctx, cancel := context.WithTimeout(context.Background(), adminWait)
	defer cancel()
	db, err := Open(e.direct(e.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := work(ctx, db); err != nil {
		t.Fatalf("%s: %s a database: %v", e.Name, what, err)
	}
}

// SQL returns a plain pool with the driver's own defaults, for tests that look
// from outside at the database behind a URL of Database. It goes around a
// pooler: the drivers' defaults do not work through one.
func (e Engine) SQL(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := Open(e.direct(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// direct turns a URL of the engine into the server's own.
func (e Engine) direct(text string) string {
	if e.Direct == "" {
		return text
	}
	server, err := url.Parse(e.Direct)
	if err != nil {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	u.Host = server.Host
	return u.String()
}
