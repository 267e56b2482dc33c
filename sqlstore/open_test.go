package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// TestOpenRefuses opens what can't be opened and expects to be told why.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for url, want := range map[string]string{
		"mysql://localhost":                  "names no database",
		"mysql:///x":                         "names no host",
		"mysql:x":                            "can't be read",
		"mysql://u:p%zz@localhost/x":         "can't be read",
		"mysql://localhost/x?readTimeout=x":  "parameter",
		"postgres://localhost/x?a=%zz":       "parameters",
		"postgres://u:p%zz@localhost/x":      "can't be read",
		"postgres://localhost/x?sslmode=odd": "sslmode",
		"oracle://x":                         "sqlite:PATH",
		"":                                   "sqlite:PATH",
		"onlyonce.db":                        "sqlite:PATH",
		"sqlite:":                            "path of a file",
		"sqlite::memory:":                    "path of a file",
		"sqlite://onlyonce.db":               "root folder",
		"sqlite:" + dir + "/x.db?_synchronous=NORMAL":    "no parameters",
		"sqlite:" + dir + "/x.db?_pragma=synchronous(0)": "no parameters",
	} {
		db, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
		if err == nil {
			t.Errorf("%s was opened", url)
			_ = db.Close()
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", url, err, want)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("files were made: %v", files)
	}
}

// TestOpenUnreachable opens files that can't be had: the store is
// unavailable, and the same command may work later.
func TestOpenUnreachable(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing", "x.db"), dir, text} {
		_, err := sqlstore.Open(t.Context(), "sqlite:"+path, sqlstore.Options{})
		if !errors.Is(err, sqlstore.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", path, err)
		}
	}
}

// TestOpenNames opens files whose names mean something to URLs and drivers.
func TestOpenNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.db", "file:b.db", "c%20d.db", "e f#g.db", "h&i=j.db"} {
		open(t, name, sqlstore.Options{})
		if _, err := os.Stat(name); err != nil {
			t.Errorf("sqlite:%s made another file: %v", name, err)
		}
	}
	db, err := sqlstore.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "k.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Ping(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
}

// TestSettingsOfEveryConnection holds all connections of both pools at once
// and asks each for its settings (case 46).
func TestSettingsOfEveryConnection(t *testing.T) {
	const readers = 3
	db := open(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{Readers: readers})
	check := func(ctx context.Context, tx onlyonce.Tx, queryOnly int) error {
		for pragma, want := range map[string]any{
			"synchronous": int64(2), "journal_mode": "wal", "busy_timeout": int64(5000), "query_only": int64(queryOnly),
		} {
			rows, err := tx.Query(ctx, "PRAGMA "+pragma)
			if err != nil {
				return err
			}
			var got any
			for rows.Next() {
				if err := rows.Scan(&got); err != nil {
					return err
				}
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
			if got != want {
				t.Errorf("query_only %d: %s is %v, want %v", queryOnly, pragma, got, want)
			}
		}
		return nil
	}
	nested := func(ctx context.Context, tx onlyonce.Tx) error { return check(ctx, tx, 0) }
	work := func(ctx context.Context) error { return db.InTx(ctx, nested) }
	for range readers {
		inner := work
		work = func(ctx context.Context) error {
			return db.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
				return errors.Join(check(ctx, tx, 1), inner(ctx))
			})
		}
	}
	if err := work(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestUnsafeSettingsAreRefused turns down what makes commits durable, on the
// module's own connections and on a service's.
func TestUnsafeSettingsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	db := open(t, path, sqlstore.Options{})
	weaker := sqlstore.Options{Connect: hook(passOn).connectThen("PRAGMA synchronous = NORMAL")}
	_, err := sqlstore.Open(t.Context(), "sqlite:"+path, weaker)
	if !errors.Is(err, sqlstore.ErrUnsafeSettings) {
		t.Errorf("Open: %v, want ErrUnsafeSettings", err)
	}
	once := engine(t, db.Store())
	for parameters, safe := range map[string]bool{
		"": true, "?_synchronous=EXTRA": true, "?_synchronous=NORMAL": false, "?_synchronous=OFF": false,
		"?_pragma=synchronous(1)": false,
	} {
		_, err := sqlstore.Do(t.Context(), once, pool(t, path, parameters), intent("k"+parameters), succeed)
		if safe != (err == nil) || !safe && !errors.Is(err, sqlstore.ErrUnsafeSettings) && err != nil {
			t.Errorf("Do with %q: %v", parameters, err)
		}
	}
}

// TestViewCanNotWrite writes where only reading is allowed.
func TestViewCanNotWrite(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
	err := db.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM idempotency_keys")
		return err
	})
	if err == nil {
		t.Error("View could write")
	}
}

// TestViewDoesNotWaitForTheWriter reads while a transaction is open, and sees
// what was committed before.
func TestViewDoesNotWaitForTheWriter(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
	once := engine(t, db.Store())
	err := db.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		if _, err := once.Begin(ctx, tx, intent("k")); err != nil {
			return err
		}
		return db.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
			d, err := once.Look(ctx, tx, intent("k"))
			if d.Record.Status != "" {
				t.Errorf("the snapshot shows an uncommitted key: %+v", d.Record)
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// engine returns an engine on a store.
func engine(t *testing.T, s onlyonce.Store) *onlyonce.Engine {
	t.Helper()
	once, err := onlyonce.New(onlyonce.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return once
}

// intent names a request.
func intent(key string) onlyonce.Intent {
	return onlyonce.Intent{
		Key:         onlyonce.Key{Account: "acct_1", Name: key},
		Operation:   "test.effect",
		Fingerprint: onlyonce.NewFingerprint([]byte("body")),
	}
}

// succeed is an effect that changes nothing.
func succeed(*sql.Tx) (onlyonce.Outcome, error) { return onlyonce.Outcome{Status: 201}, nil }
