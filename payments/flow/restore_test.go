package flow_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// TestKeyUsedAnew: once its tombstone has gone a key names a new intent, with
// an id and a provider key of its own.
func TestKeyUsedAnew(t *testing.T) { onSome(t, testKeyUsedAnew) }

func testKeyUsedAnew(t *testing.T, b *bed) {
	w := b.world(t, setup{engine: onlyonce.Options{Tombstones: -1}})
	first := w.paid("k", "")
	if a, err := w.pay("k"); err != nil || !a.Replayed {
		t.Fatalf("within the retention: %s", show(a, err))
	}
	w.clock.advance(31 * 24 * time.Hour)
	second := w.paid("k", "")
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
	calls := w.fake.seen("execute")
	if first == second || len(calls) != 2 || calls[0].d.ProviderKey == calls[1].d.ProviderKey ||
		len(w.fake.made("")) != 2 {
		t.Errorf("the key used anew made %s after %s, with %d calls", second, first, len(calls))
	}
	// Generations count refunds as well as payments under the key.
	w.clock.advance(31 * 24 * time.Hour)
	w.refunded("k", second, 1)
	in := intentOf("k", flow.OpRefund, second, int64(1))
	installation, err := w.store.Installation(t.Context())
	must(t, err)
	want := payments.NamesOf(installation, in, payments.KindRefund, 2).Resource
	if got := w.record("k").Resource; got != want {
		t.Errorf("the refund is %s, want %s of generation 2", got, want)
	}
}

// TestExpiredKeyNamesWhatItMade: while the tombstone stands the key is over.
func TestExpiredKeyNamesWhatItMade(t *testing.T) { onSome(t, testExpiredKeyNamesWhatItMade) }

func testExpiredKeyNamesWhatItMade(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	id := w.paid("k", "")
	w.clock.advance(31 * 24 * time.Hour)
	for range 2 {
		a, err := w.pay("k")
		if !isKeyError(err, onlyonce.ErrExpired) || !strings.Contains(err.Error(), "expired") || len(w.fake.seen("")) != 1 {
			t.Errorf("an expired key gets %s", show(a, err))
		}
		if rec := w.record("k"); rec.Resource != id {
			t.Errorf("the tombstone names %q, want %s", rec.Resource, id)
		}
		_, err = (&onlyonce.Reaper{Engine: w.engine, Tx: w.store}).Sweep(t.Context())
		must(t, err)
	}
}

// TestRestoredBackup is case 50 of the reports: the database forgets the
// payment and the provider absorbs it.
func TestRestoredBackup(t *testing.T) { onEach(t, testRestoredBackup) }

func testRestoredBackup(t *testing.T, b *bed) {
	before := b.world(t, setup{})
	before.paid("earlier", "")
	restore := before.backUp()
	id := before.paid("k", "order")
	restore()
	after := before.again(setup{})
	if after.record("k").Status != "" || after.record("earlier").Status != onlyonce.Completed {
		t.Fatal("the backup knows the key, or not the one before it")
	}
	after.clock.advance(time.Hour)
	if got := after.paid("k", "order"); got != id {
		t.Errorf("the restored database made %s, the lost one %s", got, id)
	}
	if n := after.checkBytes(id); n != 2 || len(after.fake.made(id)) != 1 {
		t.Errorf("%d sends, %d charges", n, len(after.fake.made(id)))
	}
	after.checkSettled("k", func() (flow.Answer, error) { return after.payOrder("k", "order") })
}

// backUp copies the database's tables as they are now, and returns what brings
// that state back. No server may be at work then.
func (w *world) backUp() (restore func()) {
	w.t.Helper()
	all := append([]string{"installation"}, tables...)
	for _, table := range all {
		w.exec("CREATE TABLE backup_" + table + " AS SELECT * FROM " + table)
	}
	return func() {
		w.t.Helper()
		for _, table := range all {
			w.exec("DELETE FROM " + table)
			w.exec("INSERT INTO " + table + " SELECT * FROM backup_" + table)
			w.exec("DROP TABLE backup_" + table)
		}
	}
}

// TestOneKeyOneRequest: a key answers for no other request, and none of it is run.
func TestOneKeyOneRequest(t *testing.T) { onSome(t, testOneKeyOneRequest) }

func testOneKeyOneRequest(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	id := w.paid("k", "")
	w.fake.script(maybe)
	w.unknown("unknown")
	for _, key := range []string{"k", "unknown"} {
		if a, err := w.payOrder(key, "other"); !isKeyError(err, onlyonce.ErrMismatch) {
			t.Errorf("another request under %q gets %s", key, show(a, err))
		}
		if a, err := w.refund(key, id, 1); !isKeyError(err, onlyonce.ErrMismatch) {
			t.Errorf("a refund under the payment's key %q gets %s", key, show(a, err))
		}
	}
	if n := len(w.fake.seen("")); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestUnsupportedSpendsNoKey(t *testing.T) { onSome(t, testUnsupportedSpendsNoKey) }

func testUnsupportedSpendsNoKey(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	r := flow.PaymentRequest{Amount: usd(1), Method: "pm_secret"}
	r.Amount.Currency = "KWD"
	_, err := w.flow.Pay(t.Context(), intentOf("k", flow.OpPayment, ""), r)
	if err == nil || w.record("k").Status != "" || len(w.fake.seen("")) != 0 {
		t.Errorf("an unsupported currency: %v, the key is %q", err, w.record("k").Status)
	}
	w.paid("k", "")
}

// TestForeignClaimIsReleased: a claim under which nothing was dispatched is
// not the completer's to run.
func TestForeignClaimIsReleased(t *testing.T) { onSome(t, testForeignClaimIsReleased) }

func testForeignClaimIsReleased(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	must(t, w.store.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := w.engine.Begin(ctx, tx, intentOf("k", flow.OpPayment, ""))
		return err
	}))
	w.clock.advance(w.engine.Lease() + time.Second)
	if n, err := w.completer().Sweep(t.Context()); n != 1 || err != nil || w.record("k").Status != "" {
		t.Errorf("the completer resumed %d, %v; the key is %q", n, err, w.record("k").Status)
	}
	w.paid("k", "")
}

func TestLook(t *testing.T) { onSome(t, testLook) }

func testLook(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	look := func(key string) (string, bool) {
		a, open, err := w.flow.Look(t.Context(), intentOf(key, flow.OpPayment, ""))
		return show(a, err), open
	}
	if got, open := look("free"); got != "nothing" || open || w.record("free").Status != "" {
		t.Errorf("a free key: %s, open %v", got, open)
	}
	w.fake.before = func(string, payments.Dispatch) {
		if got, open := look("k"); !strings.Contains(got, onlyonce.ErrInFlight.Error()) || !open {
			t.Errorf("while it runs: %s, open %v", got, open)
		}
	}
	w.fake.script(maybe)
	w.unknown("k")
	w.fake.before = nil
	if got, open := look("k"); got != "payment pending_unknown" || !open {
		t.Errorf("while it is unknown: %s, open %v", got, open)
	}
	w.finish("k", nil)
	if got, open := look("k"); !strings.HasPrefix(got, "201 ") || open {
		t.Errorf("when it is over: %s, open %v", got, open)
	}
}

func TestReplayCounter(t *testing.T) { onSome(t, testReplayCounter) }

func testReplayCounter(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	c := &flow.ReplayCounter{DB: w.db, Now: w.clock.now}
	for range 3 {
		c.Count(account, "pay_1")
	}
	c.Count(account, "")
	if n, last := c.Pending(account, "pay_1"); n != 3 || last.IsZero() {
		t.Errorf("%d are pending since %v", n, last)
	}
	must(t, c.Flush(t.Context()))
	c.Count(account, "pay_1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, c.Run(ctx)) // flushes at its end
	n, last, err := w.db.Replays(t.Context(), account, "pay_1")
	if err != nil || n != 4 || last.IsZero() {
		t.Errorf("%d replays are stored, the last at %v; %v", n, last, err)
	}
	if n, _ := c.Pending(account, "pay_1"); n != 0 {
		t.Errorf("%d are pending after the end", n)
	}
}
