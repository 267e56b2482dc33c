package flow_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// watchFirstByte makes the provider read the database, as another process,
// when it is called: what it finds there is durable.
func (w *world) watchFirstByte(calls *int) {
	w.fake.before = func(op string, d payments.Dispatch) {
		*calls++
		if w.faults.busy() {
			w.t.Errorf("%s of %s while a transaction is open", op, d.Resource)
		}
		got := w.count(`SELECT COUNT(*) FROM idempotency_keys k
			JOIN dispatches d ON d.account_id = k.account_id AND d.resource_id = k.resource
			WHERE k.account_id = ? AND k.idempotency_key = ? AND k.status = 'in_progress' AND length(k.body_hash) = 33
			AND k.recovery_point IN ('dispatched', 'unknown') AND k.resource = ?
			AND k.response_status IS NULL AND k.response_body IS NULL
			AND d.provider_key = ? AND substr(d.request, 2) = ? AND d.first_sent_at > 0 AND d.sends = ?`,
			d.Account, d.Key, d.Resource, d.ProviderKey, d.Request.Body, d.Sends)
		if got != 1 {
			w.t.Errorf("the provider's first byte of %s came before the row was durable", d.Resource)
		}
	}
}

func TestRowIsDurableBeforeTheFirstByte(t *testing.T) { onSome(t, testRowIsDurableBeforeTheFirstByte) }

func testRowIsDurableBeforeTheFirstByte(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	calls := 0
	w.watchFirstByte(&calls)
	w.fake.script(reply{kind: payments.AnswerMaybe})
	a, err := w.pay("k")
	if err != nil || a.Payment == nil {
		t.Fatalf("pay: %s", show(a, err))
	}
	id := w.record("k").Resource
	w.clock.reach(w.dispatch(id).next)
	w.sweep()
	a, err = w.refund("r", id, 0)
	if err != nil || a.Outcome == nil || a.Outcome.Status != 201 {
		t.Fatalf("refund: %s", show(a, err))
	}
	if calls != 3 {
		t.Errorf("%d calls, want the send, the re-send and the refund", calls)
	}
}

// TestNothingIsSentUnlessPhaseOneCommitted breaks every statement of phase 1,
// COMMIT included, before and after it took effect.
func TestNothingIsSentUnlessPhaseOneCommitted(t *testing.T) {
	onEach(t, testNothingIsSentUnlessPhaseOneCommitted)
}

func testNothingIsSentUnlessPhaseOneCommitted(t *testing.T, b *bed) {
	for _, m := range []mode{failBefore, failAfter, failFrom} {
		for n, last := 1, false; !last && !t.Failed(); n++ {
			t.Run(fmt.Sprintf("%s/%d", m, n), func(t *testing.T) { last = breakPhaseOne(t, b.world(t, setup{}), m, n) })
		}
	}
}

// breakPhaseOne breaks the n-th statement and reports whether it was COMMIT.
func breakPhaseOne(t *testing.T, w *world, m mode, n int) (last bool) {
	w.faults.arm(n, m)
	a, err := w.pay("k")
	failed, _ := w.faults.disarm()
	last = failed == "COMMIT"
	switch {
	case failed == "":
		t.Fatalf("statement %d was never reached", n)
	case len(w.fake.seen("")) != 0:
		t.Errorf("%q failed, and the provider was called", failed)
	case last && (err != nil || a.Payment == nil || a.Payment.State != payments.PendingUnknown):
		t.Errorf("the answer to COMMIT was lost, and the client got %s; want an unknown", show(a, err))
	case !last && err == nil:
		t.Errorf("%q failed, and the client got %s; want an error", failed, show(a, err))
	}
	return last
}

func TestDiskFull(t *testing.T) { onSQLite(t, testDiskFull) }

func testDiskFull(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.faults.size(1)
	var err error
	n, calls := 0, 0
	for ; err == nil && n < 200; n++ {
		calls = len(w.fake.seen("execute"))
		_, err = w.pay(fmt.Sprint("k", n))
	}
	n--
	if !errors.Is(err, sqlstore.ErrUnavailable) || len(w.fake.seen("execute")) != calls {
		t.Fatalf("payment %d on a full disk: %v, %d calls, %d before it", n, err, len(w.fake.seen("execute")), calls)
	}
	w.faults.size(1 << 20)
	key := fmt.Sprint("k", n)
	send := func() (flow.Answer, error) { return w.pay(key) }
	if a, err := send(); err != nil || a.Outcome == nil || a.Replayed {
		t.Fatalf("the same key once there is room: %s", show(a, err))
	}
	if got := len(w.fake.seen("execute")); got != calls+1 {
		t.Errorf("%d calls, want %d", got, calls+1)
	}
	w.checkSettled(key, send)
}

// TestOthersCommitWhileTheProviderHangs is case 51 of the reports: no
// transaction may be open during the call.
func TestOthersCommitWhileTheProviderHangs(t *testing.T) {
	onEach(t, testOthersCommitWhileTheProviderHangs)
}

func testOthersCommitWhileTheProviderHangs(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	other := w.again(setup{})
	called, held := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	w.fake.before = func(_ string, d payments.Dispatch) {
		if d.Key == "slow" {
			close(called)
			<-held
		}
	}
	done := make(chan string, 1)
	go func() { done <- show(w.pay("slow")) }()
	<-called
	if w.faults.busy() {
		t.Fatal("a transaction is open while the provider hangs")
	}
	other.paid("fast", "")
	a, err := other.pay("slow")
	var key *flow.KeyError
	if !errors.As(err, &key) || !errors.Is(err, onlyonce.ErrInFlight) || key.Record.Resource == "" {
		t.Errorf("the slow key meanwhile: %s, want in flight with its resource", show(a, err))
	}
	release()
	if got := <-done; got == "" || len(w.fake.made("")) != 2 {
		t.Errorf("the slow payment: %s, %d charges", got, len(w.fake.made("")))
	}
	w.checkSettled("slow", func() (flow.Answer, error) { return w.pay("slow") })
}
