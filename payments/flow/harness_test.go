package flow_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/payments/provider"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const account = "acct_1"

// clock is the real one with an offset that the test sets: time passes, but a
// week of it costs nothing. The database's skew follows it.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *clock) skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

func (c *clock) now() time.Time { return time.Now().Add(c.skew()) }

// advance lets d pass at once.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// reach makes it just past t. The database's clock counts milliseconds.
func (c *clock) reach(t time.Time) { c.advance(t.Sub(c.now()) + 2*time.Millisecond) }

// setup is what a test wants otherwise than usual.
type setup struct {
	path     string // of the database; default a new file
	clock    *clock
	engine   onlyonce.Options
	flow     flow.Options
	provider provider.Provider // default the world's fake
	fake     *fake
}

// world is one payments server on a real file, with a provider and a clock
// that are in the test's hands.
type world struct {
	t      testing.TB
	path   string
	clock  *clock
	faults *faults
	fake   *fake
	raw    *sql.DB // another process's view of the file
	store  *sqlstore.DB
	engine *onlyonce.Engine
	db     *db.DB
	flow   *flow.Flow
	log    *logBuffer
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, path: s.path, clock: s.clock, faults: &faults{}, fake: s.fake, log: &logBuffer{}}
	if w.path == "" {
		w.path = filepath.Join(t.TempDir(), "once.db")
	}
	if w.clock == nil {
		w.clock = &clock{}
	}
	if w.fake == nil {
		w.fake = newFake(t, w.clock)
	}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.openStore(log)
	s.engine.Store = w.store.Store()
	engine, err := onlyonce.New(s.engine)
	must(t, err)
	w.engine = engine
	w.db = db.New(w.store, engine, db.PlainSealer())
	installation, err := w.store.Installation(t.Context())
	must(t, err)
	o := s.flow
	o.DB, o.Engine, o.Installation, o.Now, o.Log = w.db, engine, installation, w.clock.now, log
	if o.Render == nil {
		o.Render = render
	}
	if o.Provider = s.provider; o.Provider == nil {
		o.Provider = w.fake
	}
	w.flow, err = flow.New(o)
	must(t, err)
	return w
}

// template is an empty database with its tables. To copy it is many times
// quicker than to migrate.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "flow")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "once.db")
	store, err := sqlstore.Open(context.Background(), "sqlite:"+path, sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	_, err = store.Migrate(context.Background(), sqlstore.EngineMigrations(), db.Migrations())
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func (w *world) openStore(log *slog.Logger) {
	w.t.Helper()
	if _, err := os.Stat(w.path); errors.Is(err, fs.ErrNotExist) {
		empty, err := template()
		must(w.t, err)
		must(w.t, os.WriteFile(w.path, empty, 0o600))
	}
	store, err := sqlstore.Open(w.t.Context(), "sqlite:"+w.path, sqlstore.Options{
		Skew: w.clock.skew, Connect: w.faults.wrap, Log: log, CommitWait: 30 * time.Second, BusyWait: 30 * time.Second,
	})
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, store.Close()) })
	w.store = store
	w.raw, err = sql.Open("sqlite", w.path+"?_pragma=busy_timeout(5000)")
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, w.raw.Close()) })
}

// again is a second process on the same file, with the same provider.
func (w *world) again(s setup) *world {
	w.t.Helper()
	s.path, s.clock, s.fake = w.path, w.clock, w.fake
	return newWorld(w.t, s)
}

func (w *world) resolver() *flow.Resolver { return &flow.Resolver{Flow: w.flow} }

func (w *world) completer() *onlyonce.Completer {
	return &onlyonce.Completer{Engine: w.engine, Tx: w.store, Resume: w.flow.Resume}
}

// render is a stand-in for the API's: it tells apart all that may differ.
func render(r flow.Result) onlyonce.Outcome {
	status, text := 201, ""
	switch {
	case r.Payment != nil:
		text = fmt.Sprintf("payment %s %s %v captured %d",
			r.Payment.ID, r.Payment.State, r.Payment.Amount, r.Payment.Captured)
	case r.Refund != nil:
		text = fmt.Sprintf("refund %s %s %v of %s", r.Refund.ID, r.Refund.State, r.Refund.Amount, r.Refund.PaymentID)
	default:
		status, text = 402, fmt.Sprintf("refused %+v", *r.Refusal)
	}
	return onlyonce.Outcome{
		Status: status, Header: map[string][]string{"Content-Type": {"text/plain"}},
		Body: []byte(text + " for " + r.RequestID),
	}
}

func intentOf(key, operation string, parts ...any) onlyonce.Intent {
	return onlyonce.Intent{
		Key: onlyonce.Key{Account: account, Name: key}, Operation: operation,
		Fingerprint: onlyonce.NewFingerprint(fmt.Append(nil, parts...)),
	}
}

func usd(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "USD"} }

// pay sends a payment of 100.00 for no order under a key.
func (w *world) pay(key string) (flow.Answer, error) { return w.payOrder(key, "") }

func (w *world) payOrder(key, order string) (flow.Answer, error) {
	return w.flow.Pay(w.t.Context(), intentOf(key, flow.OpPayment, order), flow.PaymentRequest{
		OrderID: order, Amount: usd(10000), Method: "pm_secret", RequestID: "req_" + key,
		Metadata: map[string]string{"note": "x"},
	})
}

func (w *world) refund(key, payment string, minor int64) (flow.Answer, error) {
	return w.flow.Refund(w.t.Context(), intentOf(key, flow.OpRefund, payment, minor), flow.RefundRequest{
		PaymentID: payment, Amount: minor, RequestID: "req_" + key,
	})
}

// paid makes a succeeded payment and returns its id.
func (w *world) paid(key, order string) string {
	w.t.Helper()
	a, err := w.payOrder(key, order)
	must(w.t, err)
	if a.Outcome == nil || a.Outcome.Status != 201 {
		w.t.Fatalf("payment %s: %s, want success", key, show(a, nil))
	}
	return w.record(key).Resource
}

// record reads the key's row.
func (w *world) record(key string) (rec onlyonce.Record) {
	w.t.Helper()
	must(w.t, w.store.View(w.t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		recs, err := w.store.Store().Load(ctx, tx, []onlyonce.Key{{Account: account, Name: key}}, false)
		if err == nil {
			rec = recs[0]
		}
		return err
	}))
	return rec
}

func (w *world) payment(id string) payments.Payment {
	w.t.Helper()
	p, err := w.db.Payment(w.t.Context(), account, id)
	must(w.t, err)
	return p
}

func (w *world) sweep() int {
	w.t.Helper()
	n, err := w.resolver().Sweep(w.t.Context())
	must(w.t, err)
	return n
}

// count runs a query for one number on the other process's connection.
func (w *world) count(query string, args ...any) (n int64) {
	w.t.Helper()
	must(w.t, w.raw.QueryRowContext(w.t.Context(), query, args...).Scan(&n))
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// show puts what a request got into words.
func show(a flow.Answer, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case a.Outcome != nil:
		return fmt.Sprintf("%d %s (replayed %v)", a.Outcome.Status, a.Outcome.Body, a.Replayed)
	case a.Payment != nil:
		return "payment " + string(a.Payment.State)
	case a.Refund != nil:
		return "refund " + string(a.Refund.State)
	case a.Refusal != nil:
		return "not stored: " + string(a.Refusal.Kind)
	}
	return "nothing"
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
