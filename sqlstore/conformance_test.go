package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
	"github.com/onlyonce-go/onlyonce/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(t *testing.T) storetest.Subject {
		return subject(t, filepath.Join(t.TempDir(), "keys.db"))
	}})
}

// subject opens a file as a process would.
func subject(t *testing.T, path string) storetest.Subject {
	var skew atomic.Int64
	options := sqlstore.Options{Skew: func() time.Duration { return time.Duration(skew.Load()) }}
	db, own := open(t, path, options), pool(t, path, "")
	return storetest.Subject{
		Store: db.Store(), Tx: db,
		Skew:  func(d time.Duration) { skew.Store(int64(d)) },
		Again: func(t *testing.T) storetest.Subject { return subject(t, path) },
		Do: func(ctx context.Context, once *onlyonce.Engine, in onlyonce.Intent, effect storetest.Effect) (
			onlyonce.Outcome, bool, error) {
			return do(ctx, once, own, in, effect)
		},
	}
}

// do gives sqlstore.Do an effect that is written for any adapter.
func do(ctx context.Context, once *onlyonce.Engine, db *sql.DB, in onlyonce.Intent, effect storetest.Effect) (
	onlyonce.Outcome, bool, error) {
	res, err := sqlstore.Do(ctx, once, db, in, func(tx *sql.Tx) (onlyonce.Outcome, error) {
		return effect(ctx, sqlstore.Wrap(tx))
	})
	return res.Outcome, res.Replayed, err
}

// open opens a file and brings it up to date.
func open(t *testing.T, path string, o sqlstore.Options) *sqlstore.DB {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), "sqlite:"+path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.Migrate(t.Context(), sqlstore.EngineMigrations()); err != nil {
		t.Fatal(err)
	}
	return db
}

// pool opens the same file as a service does that knows nothing of this
// module: unless parameters say so there are no immediate transactions, no
// busy timeout, and connections without end.
func pool(t *testing.T, path, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+parameters)
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
