package sqlstore_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
	"github.com/onlyonce-go/onlyonce/storetest"
)

// variant is a way to use an engine that must make no difference.
type variant struct {
	name       string
	parameters string // of the URL, for all pools
	isolation  sql.IsolationLevel
	keys       int  // of storetest.Harness
	serial     bool // its transactions lose also against those that have nothing to do with them
}

// harness opens one database and empties it for each test, which is much
// quicker than to make and remove one.
func harness(t *testing.T, e engines.Engine, v variant) storetest.Harness {
	link := e.Database(t)
	migrated(t, link, sqlstore.Options{})
	outside := e.SQL(t, link)
	return storetest.Harness{Keys: v.keys, Open: func(t *testing.T) storetest.Subject {
		for _, text := range storetest.Empty() {
			if _, err := outside.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		return subject(t, with(t, link, v.parameters), v)
	}}
}

// with adds parameters to a URL of a database.
func with(t *testing.T, link, parameters string) string {
	t.Helper()
	if parameters == "" {
		return link
	}
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = parameters
	return u.String()
}

// subject opens a database as a process would.
func subject(t *testing.T, link string, v variant) storetest.Subject {
	var skew atomic.Int64
	var reruns atomic.Int64
	o := sqlstore.Options{
		Skew: func() time.Duration { return time.Duration(skew.Load()) }, Isolation: v.isolation,
		Log: slog.New(&counter{Handler: slog.DiscardHandler, n: &reruns}),
	}
	db, own := reach(t, link, o), ownPool(t, link)
	s := storetest.Subject{
		Store: db.Store(), Tx: db,
		Skew:  func(d time.Duration) { skew.Store(int64(d)) },
		Again: func(t *testing.T) storetest.Subject { return subject(t, link, v) },
		Do: func(ctx context.Context, once *onlyonce.Engine, in onlyonce.Intent, effect storetest.Effect) (
			onlyonce.Outcome, bool, error) {
			return do(ctx, once, own, in, effect)
		},
		Reruns: reruns.Load,
	}
	if v.serial {
		s.Reruns = nil
	}
	return s
}

// counter is a log that counts the transactions that are run again.
type counter struct {
	slog.Handler
	n *atomic.Int64
}

func (*counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "run again") {
		c.n.Add(1)
	}
	return nil
}

// do gives sqlstore.Do an effect that is written for any adapter.
func do(ctx context.Context, once *onlyonce.Engine, db *sql.DB, in onlyonce.Intent, effect storetest.Effect) (
	onlyonce.Outcome, bool, error) {
	res, err := sqlstore.Do(ctx, once, db, in, func(tx *sql.Tx) (onlyonce.Outcome, error) {
		return effect(ctx, sqlstore.Wrap(tx))
	})
	return res.Outcome, res.Replayed, err
}

// reach opens the database behind a URL, without bringing it up to date.
func reach(t *testing.T, link string, o sqlstore.Options) *sqlstore.DB {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), link, o)
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

// migrated opens the database behind a URL and brings it up to date.
func migrated(t *testing.T, link string, o sqlstore.Options) *sqlstore.DB {
	t.Helper()
	// A test's own patience may be too short for a busy machine.
	patient := sqlstore.Options{Skew: o.Skew}
	if _, err := reach(t, link, patient).Migrate(t.Context(), sqlstore.EngineMigrations()); err != nil {
		t.Fatal(err)
	}
	return reach(t, link, o)
}

// ownPool opens the database behind a URL as a service does for its own use.
func ownPool(t *testing.T, link string) *sql.DB {
	t.Helper()
	db, _, err := sqlstore.OpenSQL(link)
	if err != nil {
		t.Fatal(err)
	}
	const conns = 32 // many transactions at once, and yet fewer than a crowd of callers
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// open opens an SQLite file and brings it up to date.
func open(t *testing.T, path string, o sqlstore.Options) *sqlstore.DB {
	t.Helper()
	return migrated(t, "sqlite:"+path, o)
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
