package flow_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// atOnce runs n requests at the same time.
func atOnce(n int, request func(i int) (flow.Answer, error)) []string {
	got := make([]string, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			got[i] = show(request(i))
		})
	}
	close(start)
	wg.Wait()
	return got
}

func countOf(list []string, part string) (n int) {
	for _, s := range list {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

func TestOneOrderManyKeys(t *testing.T) { onEach(t, testOneOrderManyKeys) }

func testOneOrderManyKeys(t *testing.T, b *bed) {
	const keys = 20
	w := b.world(t, setup{})
	pay := func(i int) (flow.Answer, error) { return w.payOrder(fmt.Sprint("k", i), "order") }
	got := atOnce(keys, pay)
	if countOf(got, "201") != 1 || countOf(got, "order-busy") != keys-1 || len(w.fake.seen("")) != 1 {
		t.Fatalf("%d calls; %q", len(w.fake.seen("")), got)
	}
	w.paid("another", "other order")
	for i := range keys {
		w.checkSettled(fmt.Sprint("k", i), func() (flow.Answer, error) { return pay(i) })
	}
}

func TestOrderIsFreed(t *testing.T) { onSome(t, testOrderIsFreed) }

func testOrderIsFreed(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.fake.script(declines)
	a, err := w.payOrder("declined", "order")
	if err != nil || a.Outcome.Status != 402 {
		t.Fatalf("the decline: %s", show(a, err))
	}
	first := w.paid("first", "order") // freed by the failure
	busy := func(key string) {
		t.Helper()
		if a, err := w.payOrder(key, "order"); err != nil || !strings.Contains(show(a, err), "order-busy PaymentID:"+first) {
			t.Errorf("%s: %s", key, show(a, err))
		}
	}
	busy("while paid")
	w.refunded("r1", first, 6000)
	busy("while refunded in part")
	w.fake.script(maybe)
	if a, err = w.refund("r2", first, 0); show(a, err) != "refund pending_unknown" {
		t.Fatalf("the rest: %s", show(a, err))
	}
	busy("while the rest is unknown")
	w.finish("r2", nil)
	second := w.paid("second", "order") // freed by refunds of all
	if p := w.payment(first); p.GuardsOrder || !w.payment(second).GuardsOrder || p.Refunded != p.Captured {
		t.Errorf("the first payment guards %v, refunded %d", p.GuardsOrder, p.Refunded)
	}
	// News about the first never takes the order back.
	if a, err = w.refund("r3", first, 1); err != nil || !strings.Contains(show(a, err), "over-refund") {
		t.Errorf("a refund of nothing: %s", show(a, err))
	}
	if w.payment(first).GuardsOrder || !w.payment(second).GuardsOrder {
		t.Error("the order was taken back")
	}
}

// refunded makes a refund that succeeds.
func (w *world) refunded(key, payment string, minor int64) {
	w.t.Helper()
	if a, err := w.refund(key, payment, minor); err != nil || a.Outcome == nil || a.Outcome.Status != 201 {
		w.t.Fatalf("refund %s of %d: %s", key, minor, show(a, err))
	}
}

func TestOrderWaitsForTheUnknown(t *testing.T) { onSome(t, testOrderWaitsForTheUnknown) }

func testOrderWaitsForTheUnknown(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.fake.script(maybe, declines)
	if a, err := w.payOrder("k", "order"); show(a, err) != "payment pending_unknown" {
		t.Fatal(show(a, err))
	}
	if a, err := w.payOrder("other", "order"); err != nil || !strings.Contains(show(a, err), "order-busy") {
		t.Errorf("another key while the first is unknown: %s", show(a, err))
	}
	w.finish("k", nil)
	w.paid("third", "order")
}

func TestTwoRefundsAtOnce(t *testing.T) { onEach(t, testTwoRefundsAtOnce) }

func testTwoRefundsAtOnce(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	id := w.paid("k", "")
	refund := func(i int) (flow.Answer, error) { return w.refund(fmt.Sprint("r", i), id, 6000) }
	got := atOnce(2, refund)
	if countOf(got, "201") != 1 || countOf(got, "over-refund") != 1 || countOf(got, "Refundable:4000") != 1 {
		t.Errorf("two refunds of 60 on 100: %q", got)
	}
	for i := range 2 {
		w.checkSettled(fmt.Sprint("r", i), func() (flow.Answer, error) { return refund(i) })
	}
	w.timeline(id)
}

func TestRefundsUpToTheLastCent(t *testing.T) { onSome(t, testRefundsUpToTheLastCent) }

func testRefundsUpToTheLastCent(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	id := w.paid("k", "")
	w.refunded("r1", id, 6000)
	w.refunded("r2", id, 0) // all that is left
	if p := w.payment(id); p.Refundable() != 0 || p.Refunded != 10000 {
		t.Errorf("room %d, refunded %d", p.Refundable(), p.Refunded)
	}
	for _, minor := range []int64{1, 0, 1<<63 - 1, -1} {
		key := fmt.Sprint("over", minor)
		send := func() (flow.Answer, error) { return w.refund(key, id, minor) }
		if a, err := send(); err != nil || !strings.Contains(show(a, err), "over-refund") {
			t.Errorf("a refund of %d on nothing: %s", minor, show(a, err))
		}
		w.checkSettled(key, send)
	}
}

func TestUnknownRefundHoldsRoom(t *testing.T) { onSome(t, testUnknownRefundHoldsRoom) }

func testUnknownRefundHoldsRoom(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	id := w.paid("k", "")
	w.fake.script(maybe, declines)
	if a, err := w.refund("r1", id, 6000); show(a, err) != "refund pending_unknown" {
		t.Fatal(show(a, err))
	}
	send := func() (flow.Answer, error) { return w.refund("r2", id, 6000) }
	for range 2 {
		if a, err := send(); show(a, err) != "not stored: unresolved" {
			t.Errorf("while the room is in doubt: %s", show(a, err))
		}
	}
	if w.record("r2").Status != "" {
		t.Error("the key of a refusal that is not stored was kept")
	}
	if a, err := w.refund("over", id, 10001); !strings.Contains(show(a, err), "over-refund") {
		t.Errorf("what can't ever fit: %s", show(a, err))
	}
	w.finish("r1", nil)
	w.refunded("r2", id, 6000)
	w.checkSettled("r2", send)
}

func TestRefundOfWhatDidNotSucceed(t *testing.T) { onSome(t, testRefundOfWhatDidNotSucceed) }

func testRefundOfWhatDidNotSucceed(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.fake.script(declines, maybe)
	_, err := w.pay("declined")
	must(t, err)
	unknown := w.unknown("unknown")
	if a, err := w.refund("r1", w.record("declined").Resource, 1); !strings.Contains(show(a, err), "not-refundable") {
		t.Errorf("a refund of a declined payment: %s", show(a, err))
	}
	for id, want := range map[string]string{unknown: "unresolved", "pay_absent": "not-found"} {
		if a, err := w.refund("r2", id, 1); show(a, err) != "not stored: "+want || w.record("r2").Status != "" {
			t.Errorf("a refund of %s: %s", id, show(a, err))
		}
	}
	if n := len(w.fake.seen("")); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// TestRefundWhereThePaymentLives: another provider account has never heard of
// the charge.
func TestRefundWhereThePaymentLives(t *testing.T) { onSome(t, testRefundWhereThePaymentLives) }

func testRefundWhereThePaymentLives(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	id := w.paid("k", "")
	moved := w.again(setup{provider: elsewhere{w.fake}})
	if a, err := moved.refund("r", id, 1); !errors.Is(err, flow.ErrElsewhere) || len(w.fake.seen("")) != 1 {
		t.Errorf("a refund at another provider account: %s", show(a, err))
	}
	w.refunded("r", id, 1)
}

type elsewhere struct{ *fake }

func (elsewhere) Instance() string { return "fake:2" }

// TestRefundsNeverExceedTheCapture plays random refunds with random answers,
// and checks the room after every step.
func TestRefundsNeverExceedTheCapture(t *testing.T) { onSome(t, testRefundsNeverExceedTheCapture) }

func testRefundsNeverExceedTheCapture(t *testing.T, b *bed) {
	kinds := []payments.AnswerKind{payments.AnswerSucceeded, payments.AnswerFailed, payments.AnswerMaybe,
		payments.AnswerNotSent, payments.AnswerRejected, payments.AnswerRateLimited}
	w := b.world(t, setup{})
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		w.fake.decide = nil
		w.fake.ledger = map[string][]entry{}
		id := w.paid(fmt.Sprint("k", n), "")
		w.fake.decide = func(_ string, d payments.Dispatch) (reply, bool) {
			kind := rapid.SampledFrom(kinds).Draw(r, "answer")
			if kind == payments.AnswerFailed && len(w.fake.made(d.Resource)) > 0 {
				kind = payments.AnswerSucceeded // a key that has acted is never declined
			}
			acts := kind == payments.AnswerSucceeded || kind == payments.AnswerMaybe && rapid.Bool().Draw(r, "acts")
			return reply{kind: kind, acts: acts, withID: true}, true
		}
		var keys []string
		for i := range rapid.IntRange(1, 8).Draw(r, "steps") {
			switch rapid.IntRange(0, 3).Draw(r, "step") {
			case 0:
				w.clock.advance(w.engine.Lease())
				_, _ = (&flow.Resolver{Flow: w.flow, Parallel: 1}).Sweep(t.Context())
			default:
				keys = append(keys, fmt.Sprint("r", n, ".", i))
				minor := rapid.Int64Range(0, 9000).Draw(r, "amount")
				if a, err := w.refund(keys[len(keys)-1], id, minor); err != nil {
					r.Fatal(show(a, err))
				}
			}
			w.checkRoom(r, id)
		}
		w.fake.decide = nil
		for _, key := range keys {
			if w.record(key).Status != "" {
				w.finish(key, nil)
			}
		}
		w.checkRoom(r, id)
	})
}

// checkRoom compares three books: what we think is left, what the rows say,
// and what the provider has moved.
func (w *world) checkRoom(r *rapid.T, id string) {
	p := w.payment(id)
	reserved := w.count("SELECT COALESCE(SUM(amount), 0) FROM refunds WHERE payment_id = ? AND state <> 'failed'", id)
	var moved int64
	for _, e := range w.fake.made("") {
		if e.kind == payments.KindRefund {
			moved += e.amount
		}
	}
	if p.Refundable() < 0 || reserved > p.Captured || reserved != p.Reserved || moved > reserved || p.Refunded > moved {
		r.Fatalf("captured %d, reserved %d (%d), refunded %d, the provider moved %d",
			p.Captured, p.Reserved, reserved, p.Refunded, moved)
	}
}
