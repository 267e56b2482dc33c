package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// database belongs to the servers of a house.
type database struct {
	t       *testing.T
	dialect string
	path    string  // SQLite's file
	pool    *sql.DB // to a database server; nil on SQLite
}

// fileAt is the SQLite file at the path.
func fileAt(t *testing.T, path string) database {
	return database{t: t, dialect: "sqlite", path: path}
}

// open opens the database for one look. On SQLite each look opens and closes
// the file, so that no open file of the test helps a server over a crash.
func (d database) open(parameters string) (db *sql.DB, done func()) {
	d.t.Helper()
	if d.pool != nil {
		return d.pool, func() {}
	}
	db, err := sql.Open("sqlite", "file:"+d.path+"?"+parameters)
	if err != nil {
		d.t.Fatal(err)
	}
	return db, func() { _ = db.Close() }
}

// rebind turns each ? of a query into what the engine wants.
func (d database) rebind(query string) string {
	if d.dialect != "postgres" {
		return query
	}
	var out strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			fmt.Fprintf(&out, "$%d", n)
		}
		out.WriteString(part)
		n++
	}
	return out.String()
}

// read runs a query and returns its rows as text, columns joined by spaces.
func (d database) read(query string, args ...any) []string {
	d.t.Helper()
	db, done := d.open("mode=ro&_pragma=busy_timeout(10000)")
	defer done()
	rows, err := db.Query(d.rebind(query), args...)
	if err != nil {
		d.t.Fatalf("read the database: %v", err)
	}
	defer rows.Close()
	found, err := texts(rows)
	if err != nil {
		d.t.Fatalf("read the database: %v", err)
	}
	return found
}

func texts(rows *sql.Rows) ([]string, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var found []string
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		var words []string
		for _, v := range values {
			words = append(words, text(v))
		}
		found = append(found, strings.Join(words, " "))
	}
	return found, rows.Err()
}

// text is a value as every engine's driver would give it.
func text(v any) string {
	b, ok := v.([]byte)
	switch {
	case !ok:
		return fmt.Sprint(v)
	case utf8.Valid(b):
		return string(b)
	}
	return fmt.Sprintf("%x", b)
}

// one is read for a query with one row, "" if there is none.
func (d database) one(query string, args ...any) string {
	d.t.Helper()
	rows := d.read(query, args...)
	if len(rows) == 0 {
		return ""
	}
	return rows[0]
}

// count is how many rows a table has.
func (d database) count(table string) int {
	d.t.Helper()
	n, err := strconv.Atoi(d.one("SELECT count(*) FROM " + table))
	if err != nil {
		d.t.Fatalf("count %s: %v", table, err)
	}
	return n
}

// write changes the database as the servers never would.
func (d database) write(query string, args ...any) {
	d.t.Helper()
	db, done := d.open("_pragma=busy_timeout(20000)")
	defer done()
	if _, err := db.Exec(d.rebind(query), args...); err != nil {
		d.t.Fatalf("write the database: %v", err)
	}
}

// Where a key stands: its status and recovery point.
const (
	absent     = ""
	dispatched = "in_progress dispatched"
	unknown    = "in_progress unknown"
	completed  = "completed dispatched"
)

// key is where a key of the account stands.
func (d database) key(name string) string {
	d.t.Helper()
	return d.one(`SELECT status, recovery_point FROM idempotency_keys WHERE account_id = ? AND idempotency_key = ?`,
		account, name)
}

// claimed waits until the key's row is durable: with its fingerprint, without
// a response.
func (d database) claimed(name string) {
	d.t.Helper()
	eventually(d.t, patience, "the row of key "+name, func() bool {
		return d.one(`SELECT status, recovery_point, CASE WHEN length(body_hash) > 30 AND response_status IS NULL
			THEN 'claimed' END FROM idempotency_keys WHERE account_id = ? AND idempotency_key = ?`,
			account, name) == dispatched+" claimed"
	})
}

// finished waits until the key's outcome is stored.
func (d database) finished(name string) {
	d.t.Helper()
	eventually(d.t, lease+sweepEvery+slack, "the outcome of key "+name, func() bool {
		return strings.HasPrefix(d.key(name), "completed")
	})
}

// lapsed waits until the key's lease is over.
func (d database) lapsed(name string) {
	d.t.Helper()
	eventually(d.t, lease+patience, "the end of the lease of key "+name, func() bool {
		until, err := strconv.ParseInt(d.one(`SELECT lease_until FROM idempotency_keys
			WHERE account_id = ? AND idempotency_key = ?`, account, name), 10, 64)
		return err == nil && time.Now().UnixMicro() >= until // the database runs on this machine
	})
}

// all is every row that says what became of keys and money, to see that
// nothing has changed.
func (d database) all() string {
	d.t.Helper()
	var out strings.Builder
	for _, table := range []string{"idempotency_keys", "payments", "refunds", "events", "dispatches"} {
		for _, row := range d.read("SELECT * FROM " + table + " ORDER BY 1, 2, 3") {
			fmt.Fprintf(&out, "%s: %s\n", table, row)
		}
	}
	return out.String()
}

// free reports whether the database can be written to soon. Only SQLite has
// one lock for all of it.
func (d database) free() bool {
	d.t.Helper()
	if d.pool != nil {
		return true
	}
	db, done := d.open("_pragma=busy_timeout(200)&_txlock=immediate")
	defer done()
	tx, err := db.Begin()
	if err != nil {
		return false
	}
	return tx.Rollback() == nil
}

// locks are statements that keep all writers away from the keys until unlock.
// Readers go on.
var locks = map[string]struct{ lock, unlock string }{
	"sqlite":   {"BEGIN IMMEDIATE", "ROLLBACK"},
	"postgres": {"BEGIN; LOCK TABLE idempotency_keys IN EXCLUSIVE MODE", "ROLLBACK"},
	"mysql":    {"LOCK TABLES idempotency_keys READ", "UNLOCK TABLES"},
}

// lock keeps all writers away and returns what lets them in again.
func (d database) lock() (release func()) {
	d.t.Helper()
	db, done := d.open("_pragma=busy_timeout(20000)")
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, locks[d.dialect].lock)
	}
	if err != nil {
		d.t.Fatalf("lock the database: %v", err)
	}
	held := true
	release = func() {
		if held {
			held = false
			_, _ = conn.ExecContext(ctx, locks[d.dialect].unlock) // closing ends it too
			_ = conn.Close()
			done()
		}
	}
	d.t.Cleanup(release)
	return release
}
