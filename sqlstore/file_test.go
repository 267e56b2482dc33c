package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// TestBlankedSecretsLeaveTheFile: what was overwritten or deleted must not be
// found by whoever reads the file's bytes.
func TestBlankedSecretsLeaveTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	db := open(t, path, sqlstore.Options{})
	exec := func(query string, args ...any) {
		t.Helper()
		err := db.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			_, err := tx.Exec(ctx, query, args...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	stays := func() bool {
		found := false
		for _, name := range []string{path, path + "-wal"} {
			text, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			found = found || bytes.Contains(text, []byte("tok_secret"))
		}
		return found
	}
	exec("CREATE TABLE secrets (id INTEGER PRIMARY KEY, request BLOB)")
	for id := range 50 {
		exec("INSERT INTO secrets (id, request) VALUES (?, ?)", id, bytes.Repeat([]byte("tok_secret"), 10+id))
	}
	if !stays() {
		t.Fatal("the secret is not where this test looks for it")
	}
	exec("UPDATE secrets SET request = NULL WHERE id % 2 = 0")
	exec("DELETE FROM secrets WHERE id % 2 = 1")
	if err := db.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stays() {
		t.Error("a secret that was blanked can still be read from the file")
	}
}

// TestAFileThatWasMovedTakesNothing: commits to a file that the next start
// would not find are lost, so there are none.
func TestAFileThatWasMovedTakesNothing(t *testing.T) {
	for name, act := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".away") },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.db")
			db := open(t, path, sqlstore.Options{})
			if err := db.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := act(path); err != nil {
				t.Fatal(err)
			}
			write := db.InTx(t.Context(), func(context.Context, onlyonce.Tx) error {
				t.Error("work ran")
				return nil
			})
			read := db.Ping(t.Context())
			if !errors.Is(write, sqlstore.ErrUnavailable) || !errors.Is(read, sqlstore.ErrUnavailable) {
				t.Errorf("a write says %v, a read %v", write, read)
			}
		})
	}
}

// TestMigrateNothingPastADeadOne: a process that was killed while it held the
// lease must not keep one from starting that has nothing to migrate.
func TestMigrateNothingPastADeadOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	open(t, path, sqlstore.Options{})
	_, err := pool(t, path, "").Exec(
		"INSERT INTO migration_lease (name, owner, lease_until) VALUES ('migrate', 'dead', ?)", int64(1)<<60)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // where it would wait, it gives up
	defer cancel()
	if n, err := bare(t, path, sqlstore.Options{}).Migrate(ctx, sqlstore.EngineMigrations()); n != 0 || err != nil {
		t.Errorf("applied %d, %v", n, err)
	}
}

// TestUpkeepGivesWayToReaders: a reader that stays keeps the log from being
// emptied, and must not keep anybody from writing.
func TestUpkeepGivesWayToReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	db := open(t, path, sqlstore.Options{BusyWait: time.Minute})
	write := func() error {
		return db.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			_, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS stones (id TEXT)")
			return err
		})
	}
	err := db.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		if _, err := db.Store().Load(ctx, tx, []onlyonce.Key{intent("k").Key}, false); err != nil {
			return err
		}
		if err := write(); err != nil {
			return err
		}
		// With the minute of BusyWait as its patience it would outlast the test.
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := db.Upkeep(soon); err != nil {
			return err
		}
		return write()
	})
	if err != nil {
		t.Error(err)
	}
}
