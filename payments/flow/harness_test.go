package flow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/payments/provider"
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

func (c *clock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = 0
}

// reach makes it just past t. The database's clock counts milliseconds.
func (c *clock) reach(t time.Time) { c.advance(t.Sub(c.now()) + 2*time.Millisecond) }

// setup is what a test wants otherwise than usual.
type setup struct {
	ground   *ground // default one of the bed's
	engine   onlyonce.Options
	flow     flow.Options
	provider provider.Provider // default the world's fake
	fake     *fake
}

// world is one payments server on a real database, with a provider and a clock
// that are in the test's hands.
type world struct {
	*ground
	t      testing.TB
	fake   *fake
	engine *onlyonce.Engine
	db     *db.DB
	flow   *flow.Flow
}

func (b *bed) world(t testing.TB, s setup) *world {
	t.Helper()
	if s.ground == nil {
		s.ground = b.take(t)
	}
	w := &world{ground: s.ground, t: t, fake: s.fake}
	if w.fake == nil {
		w.fake = newFake(t, w.clock)
	}
	s.engine.Store = w.store.Store()
	var err error
	w.engine, err = onlyonce.New(s.engine)
	must(t, err)
	w.db = db.New(w.store, w.engine, db.PlainSealer())
	o := s.flow
	o.DB, o.Engine, o.Log = w.db, w.engine, w.logger()
	if o.Installation == "" {
		o.Installation, err = w.store.Installation(t.Context())
		must(t, err)
	}
	if o.Now == nil {
		o.Now = w.clock.now
	}
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

// again is a second server on the same database, with the same provider.
func (w *world) again(s setup) *world {
	w.t.Helper()
	s.ground, s.fake = w.ground.again(w.t), w.fake
	return w.bed.world(w.t, s)
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
		OrderID: order, Amount: usd(10000), Method: "pm_secret", RequestID: fmt.Sprintf("req_%.200s", key),
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
	must(w.t, w.raw.QueryRowContext(w.t.Context(), w.rebind(query), args...).Scan(&n))
	return n
}

// exec runs a statement on the other process's connection.
func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.raw.ExecContext(w.t.Context(), w.rebind(query), args...)
	must(w.t, err)
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
