package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// database is a file that belongs to the servers. Each look opens and closes
// it, so that no open file of the test helps a server over a crash.
type database struct {
	t    *testing.T
	path string
}

// read runs a query and returns its rows as text, columns joined by spaces.
func (d database) read(query string, args ...any) []string {
	d.t.Helper()
	db, err := sql.Open("sqlite", "file:"+d.path+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		d.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(query, args...)
	if err != nil {
		d.t.Fatalf("read %s: %v", d.path, err)
	}
	defer rows.Close()
	found, err := texts(rows)
	if err != nil {
		d.t.Fatalf("read %s: %v", d.path, err)
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
			if b, ok := v.([]byte); ok {
				v = fmt.Sprintf("%x", b)
			}
			words = append(words, fmt.Sprint(v))
		}
		found = append(found, strings.Join(words, " "))
	}
	return found, rows.Err()
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

// write changes the file as the servers never would.
func (d database) write(query string, args ...any) {
	d.t.Helper()
	db, err := sql.Open("sqlite", "file:"+d.path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		d.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query, args...); err != nil {
		d.t.Fatalf("write %s: %v", d.path, err)
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
		return d.one(`SELECT status, recovery_point, length(body_hash) > 30, response_status IS NULL
			FROM idempotency_keys WHERE account_id = ? AND idempotency_key = ?`, account, name) == dispatched+" 1 1"
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
		return d.one(`SELECT lease_until <= unixepoch('subsec') * 1000000 FROM idempotency_keys
			WHERE account_id = ? AND idempotency_key = ?`, account, name) == "1"
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

// free reports whether the file can be written to soon.
func (d database) free() bool {
	d.t.Helper()
	db, err := sql.Open("sqlite", "file:"+d.path+"?_pragma=busy_timeout(200)&_txlock=immediate")
	if err != nil {
		d.t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return false
	}
	return tx.Rollback() == nil
}

// lock takes the file's write lock and returns what gives it back. Readers go
// on, writers wait.
func (d database) lock() (release func()) {
	d.t.Helper()
	db, err := sql.Open("sqlite", "file:"+d.path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		d.t.Fatal(err)
	}
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	}
	if err != nil {
		d.t.Fatalf("lock %s: %v", d.path, err)
	}
	held := true
	release = func() {
		if held {
			held = false
			_, _ = conn.ExecContext(ctx, "ROLLBACK") // closing ends it too
			_ = conn.Close()
			_ = db.Close()
		}
	}
	d.t.Cleanup(release)
	return release
}
