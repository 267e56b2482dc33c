package flow_test

import (
	"context"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// TestAResendGoesOutInsideTheKeyWindow: a re-send that is planned just before
// the window's end must not leave just after it.
func TestAResendGoesOutInsideTheKeyWindow(t *testing.T) {
	onSome(t, testAResendGoesOutInsideTheKeyWindow)
}

func testAResendGoesOutInsideTheKeyWindow(t *testing.T, b *bed) {
	w := b.world(t, setup{flow: flow.Options{KeyWindow: time.Hour}})
	w.fake.script(maybe, maybe)
	id := w.unknown("k")
	first := w.timeline(id)[0].At
	w.clock.reach(first.Add(time.Hour - time.Second))
	w.sweep()
	sends := w.fake.seen("execute")
	if len(sends) != 2 {
		t.Fatalf("%d sends, want a re-send inside the window", len(sends))
	}
	// The two clocks are read one after the other.
	if end := first.Add(time.Hour + 100*time.Millisecond); sends[1].sendBy.After(end) {
		t.Errorf("the re-send may go out until %v, the window ends at %v", sends[1].sendBy, end)
	}
}

// TestAClockThatWasSetBackSendsNothingAgain: a first send in the future tells
// nothing about the key window, not even when its time has come.
func TestAClockThatWasSetBackSendsNothingAgain(t *testing.T) {
	onSome(t, testAClockThatWasSetBackSendsNothingAgain)
}

func testAClockThatWasSetBackSendsNothingAgain(t *testing.T, b *bed) {
	const fast = 48 * time.Hour
	w := b.world(t, setup{})
	w.clock.advance(fast)
	w.fake.script(reply{kind: payments.AnswerMaybe, acts: true})
	id := w.unknown("k")
	w.clock.advance(-fast)
	w.sweep()
	w.clock.advance(fast)
	for range 5 {
		w.clock.advance(time.Minute)
		w.sweep()
	}
	if n := len(w.fake.seen("execute")); n != 1 || len(w.fake.made(id)) != 1 {
		t.Errorf("%d sends, %d charges", n, len(w.fake.made(id)))
	}
	if state, _ := w.state(id); state != payments.Succeeded {
		t.Errorf("the payment is %s, though a look finds it", state)
	}
}

// TestResumeLeavesAnUnknownToTheResolver: its owner concluded between the
// completer's list and its takeover, so nothing was abandoned.
func TestResumeLeavesAnUnknownToTheResolver(t *testing.T) {
	onSome(t, testResumeLeavesAnUnknownToTheResolver)
}

func testResumeLeavesAnUnknownToTheResolver(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.fake.script(reply{kind: payments.AnswerRateLimited})
	id := w.unknown("k")
	before, timeline := w.dispatch(id), types(w.timeline(id))
	var claim onlyonce.Claim
	must(t, w.store.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) (err error) {
		claim, err = w.engine.TakeOver(ctx, tx, w.record("k"))
		return err
	}))
	must(t, w.flow.Resume(t.Context(), claim))
	if now := w.dispatch(id); now != before || types(w.timeline(id)) != timeline {
		t.Errorf("the dispatch was %+v and is %+v, timeline %q", before, now, types(w.timeline(id)))
	}
	if !w.record("k").Lapsed() {
		t.Error("the completer keeps the claim")
	}
	w.finish("k", nil)
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}
