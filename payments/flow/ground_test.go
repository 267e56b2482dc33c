package flow_test

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// bed is where the worlds of one test on one engine stand. Its databases are
// made and migrated once, and emptied for the next world.
type bed struct {
	e    engines.Engine
	t    testing.TB // the engine's own test, at whose end the databases go
	mu   sync.Mutex
	free []*ground
}

// onEach runs a test on every engine.
func onEach(t *testing.T, test func(t *testing.T, b *bed)) {
	engines.Each(t, func(t *testing.T, e engines.Engine) { test(t, &bed{e: e, t: t}) })
}

// some are one engine of each dialect: enough for what is decided above the SQL.
var some = []string{engines.SQLite, engines.Postgres15, engines.MariaDB}

// onSome runs a test on one engine of each dialect.
func onSome(t *testing.T, test func(t *testing.T, b *bed)) {
	for _, e := range engines.Named(t, some...) {
		t.Run(e.Name, func(t *testing.T) { test(t, &bed{e: e, t: t}) })
	}
}

// onSQLite runs a test that makes sense for a file alone.
func onSQLite(t *testing.T, test func(t *testing.T, b *bed)) {
	for _, e := range engines.Named(t, engines.SQLite) {
		test(t, &bed{e: e, t: t})
	}
}

// ground is one server's handle on a database, with the clock and the faults
// that the test moves.
type ground struct {
	bed    *bed
	url    string
	clock  *clock
	faults *faults
	log    *logBuffer
	store  *sqlstore.DB
	raw    *sql.DB // another process's view of the database
}

// take returns an empty database with its tables, and takes it back when the
// test ends, or before that by giveBack.
func (b *bed) take(t testing.TB) *ground {
	t.Helper()
	g := b.pop()
	if g == nil {
		g = b.open(b.t, b.e.Database(b.t), &clock{})
		_, err := g.store.Migrate(t.Context(), sqlstore.EngineMigrations(), db.Migrations())
		must(t, err)
	}
	t.Cleanup(func() { b.push(t, g) })
	return g
}

func (b *bed) pop() *ground {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.free) == 0 {
		return nil
	}
	g := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	return g
}

func (b *bed) push(t testing.TB, g *ground) {
	t.Helper()
	g.empty(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, g)
}

// open opens a database for as long as a test runs.
func (b *bed) open(t testing.TB, url string, c *clock) *ground {
	t.Helper()
	g := &ground{bed: b, url: url, clock: c, faults: &faults{file: b.e.Dialect == "sqlite"}, log: &logBuffer{}}
	var err error
	g.store, err = sqlstore.Open(t.Context(), url, sqlstore.Options{
		Skew: c.skew, Connect: g.faults.wrap, Log: g.logger(), CommitWait: 30 * time.Second, BusyWait: 30 * time.Second,
	})
	must(t, err)
	t.Cleanup(func() { must(t, g.store.Close()) })
	g.raw = b.e.SQL(t, url)
	return g
}

// again is another server's handle on the same database.
func (g *ground) again(t testing.TB) *ground { return g.bed.open(t, g.url, g.clock) }

func (g *ground) logger() *slog.Logger { return slog.New(slog.NewTextHandler(g.log, nil)) }

func (g *ground) rebind(query string) string { return g.store.Dialect().Rebind(query) }

// tables are all that a server writes.
var tables = []string{"idempotency_keys", "api_keys", "payments", "refunds", "events", "dispatches", "replays"}

// empty makes the ground as good as new.
func (g *ground) empty(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // the test is over
	tx, err := g.raw.BeginTx(ctx, nil)
	must(t, err)
	for _, table := range tables {
		_, err := tx.ExecContext(ctx, "DELETE FROM "+table)
		must(t, err)
	}
	must(t, tx.Commit())
	g.clock.reset()
	g.faults.reset()
	g.log.reset()
}

// logBuffer keeps what the server logs; safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}
