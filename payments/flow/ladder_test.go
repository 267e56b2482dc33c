package flow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

var (
	maybe    = reply{kind: payments.AnswerMaybe}
	pinned   = reply{kind: payments.AnswerPinned}
	notFound = reply{kind: payments.AnswerNotFound}
	unread   = reply{kind: payments.AnswerUnread}
)

// step looks at the unknown at its planned time and never before, and returns
// what was asked, when, and how long after that the next look is planned.
func (w *world) step(id string) (c call, next time.Duration) {
	w.t.Helper()
	planned := w.dispatch(id).next
	if planned.IsZero() {
		w.t.Fatalf("no check of %s is planned", id)
	}
	w.clock.reach(planned.Add(-900 * time.Millisecond))
	if n := w.sweep(); n != 0 {
		w.t.Fatalf("looked at %s before %v", id, planned)
	}
	before := len(w.fake.seen(""))
	w.clock.reach(planned)
	if n := w.sweep(); n != 1 {
		w.t.Fatalf("%d were looked at when the check of %s was due", n, id)
	}
	calls := w.fake.seen("")
	if len(calls) != before+1 {
		w.t.Fatalf("one check made %d calls", len(calls)-before)
	}
	events := w.timeline(id)
	if at := w.dispatch(id).next; !at.IsZero() {
		next = at.Sub(events[len(events)-1].At)
	}
	return calls[before], next
}

// always makes the provider answer every send and every list alike.
func (w *world) always(send, look reply) {
	w.fake.decide = func(op string, _ payments.Dispatch) (reply, bool) {
		if op == "execute" {
			return send, true
		}
		return look, true
	}
}

// unknown makes a payment that is unknown from its first attempt on.
func (w *world) unknown(key string) (id string) {
	w.t.Helper()
	a, err := w.pay(key)
	must(w.t, err)
	if a.Payment == nil || a.Payment.State != payments.PendingUnknown ||
		a.Payment.UnknownSince.IsZero() || a.Payment.NextCheckAt.IsZero() {
		w.t.Fatalf("the first attempt got %s: %+v", show(a, nil), a.Payment)
	}
	return a.Payment.ID
}

// TestLadderToAbsence walks the whole ladder of an effect that never happened:
// sends inside the key window, lists after it, and the proof.
func TestLadderToAbsence(t *testing.T) { onSome(t, testLadderToAbsence) }

func testLadderToAbsence(t *testing.T, b *bed) {
	w := b.world(t, setup{flow: flow.Options{KeyWindow: 20 * time.Hour}})
	w.always(maybe, notFound)
	id := w.unknown("k")
	d := w.dispatch(id)
	windowEnd, absentFrom := d.firstSent.Add(20*time.Hour), d.firstSent.Add(48*time.Hour)
	delays := []time.Duration{2, 4, 8, 15, 30, 60, 300, 900, 3600, 10800, 10800, 10800, 10800, 10800, 10800, 10800}
	for i, want := range delays {
		c, next := w.step(id)
		if c.op != "execute" || !c.at.Before(windowEnd) {
			t.Fatalf("check %d is %s %v after the first send", i+1, c.op, c.at.Sub(d.firstSent))
		}
		if next != want*time.Second {
			t.Errorf("after check %d the next is in %v, want %v", i+1, next, want*time.Second)
		}
	}
	finds, absences := 0, 0
	for range 10 {
		c, _ := w.step(id)
		if c.op != "find" || c.at.Before(windowEnd) {
			t.Fatalf("%s %v after the first send", c.op, c.at.Sub(d.firstSent))
		}
		finds++
		if !c.at.Before(absentFrom) {
			absences++
		}
		state, _ := w.state(id)
		if state == payments.Failed {
			break
		}
		if state != payments.PendingUnknown || absences >= 2 {
			t.Fatalf("after %d lists, %d of which count, the payment is %s", finds, absences, state)
		}
	}
	p := w.payment(id)
	if p.State != payments.Failed || p.DeclineCode != "not_executed" || absences != 2 {
		t.Errorf("the payment is %s (%s) after %d lists that count", p.State, p.DeclineCode, absences)
	}
	if sends := w.checkBytes(id); sends != len(delays)+1 || w.dispatch(id).sends != sends {
		t.Errorf("%d sends, %d counted", sends, w.dispatch(id).sends)
	}
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}

// TestLadderFindsWhatActed: past the window it is listed and adopted.
func TestLadderFindsWhatActed(t *testing.T) { onSome(t, testLadderFindsWhatActed) }

func testLadderFindsWhatActed(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.always(reply{kind: payments.AnswerMaybe, acts: true}, unread)
	id := w.unknown("k")
	for w.dispatch(id).next.Before(w.dispatch(id).firstSent.Add(23 * time.Hour)) {
		w.step(id)
	}
	w.fake.decide = nil
	w.fake.script(reply{kind: payments.AnswerSucceeded, withID: true})
	if c, _ := w.step(id); c.op != "find" {
		t.Errorf("past the window the step is %s", c.op)
	}
	if p := w.payment(id); p.State != payments.Succeeded || p.ProviderID == "" {
		t.Errorf("the payment is %s, the provider's id %q", p.State, p.ProviderID)
	}
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}

// TestReviewAfterSevenDays: what lists can't settle goes to a person, once.
func TestReviewAfterSevenDays(t *testing.T) { onSome(t, testReviewAfterSevenDays) }

func testReviewAfterSevenDays(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.always(maybe, unread)
	id := w.unknown("k")
	first := w.dispatch(id).firstSent
	for range 60 {
		if state, _ := w.state(id); state != payments.PendingUnknown {
			break
		}
		w.step(id)
	}
	state, _ := w.state(id)
	age := w.clock.now().Sub(first)
	if state != payments.Review || age < 7*24*time.Hour || age > 9*24*time.Hour {
		t.Errorf("the payment is %s after %v", state, age)
	}
	if !strings.Contains(w.log.String(), "level=ERROR") || !w.dispatch(id).next.IsZero() {
		t.Errorf("nobody was alarmed, or a check is still planned: %v", w.dispatch(id).next)
	}
	calls := len(w.fake.seen(""))
	for range 5 {
		w.clock.advance(24 * time.Hour)
		if n := w.sweep(); n != 0 {
			t.Fatalf("the sweep still looks at it")
		}
	}
	reviews := strings.Count(types(w.timeline(id)), string(payments.EventReview))
	if len(w.fake.seen("")) != calls || reviews != 1 {
		t.Errorf("%d calls after the review, %d review events", len(w.fake.seen(""))-calls, reviews)
	}
	if a, err := w.pay("k"); show(a, err) != "payment review" {
		t.Errorf("a retry gets %s", show(a, err))
	}
}

// TestProcessingIsExempt: what the provider itself works on is never a person's.
func TestProcessingIsExempt(t *testing.T) { onSome(t, testProcessingIsExempt) }

func testProcessingIsExempt(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	processing := reply{kind: payments.AnswerProcessing, acts: true, withID: true}
	w.always(processing, processing)
	id := w.unknown("k")
	for w.clock.now().Sub(w.dispatch(id).firstSent) < 10*24*time.Hour {
		if c, _ := w.step(id); c.op != "read" || c.d.ProviderID == "" {
			t.Fatalf("what the provider has accepted is not read but %s", c.op)
		}
	}
	w.always(processing, unread) // a failed read says nothing new
	w.step(id)
	if state, _ := w.state(id); state != payments.PendingUnknown {
		t.Errorf("after ten days of processing the payment is %s", state)
	}
	w.fake.decide = nil
	w.step(id)
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}

// TestPinnedIsNotSentAgain: a key that the provider has bound to an error is
// spent.
func TestPinnedIsNotSentAgain(t *testing.T) { onSome(t, testPinnedIsNotSentAgain) }

func testPinnedIsNotSentAgain(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.always(pinned, notFound)
	id := w.unknown("k")
	for range 4 {
		if c, _ := w.step(id); c.op != "find" {
			t.Fatalf("the step after a pinned error is %s", c.op)
		}
	}
	if state, _ := w.state(id); state != payments.PendingUnknown || w.dispatch(id).absences != 0 {
		t.Errorf("inside the window absence counts: %s, %+v", state, w.dispatch(id))
	}
	if n := w.checkBytes(id); n != 1 {
		t.Errorf("%d sends", n)
	}
}

// TestOneUnknownDoesNotStopTheOthers: what can't be looked at is reported and
// the rest goes on.
func TestOneUnknownDoesNotStopTheOthers(t *testing.T) { onSome(t, testOneUnknownDoesNotStopTheOthers) }

func testOneUnknownDoesNotStopTheOthers(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.always(maybe, unread)
	w.unknown("broken")
	good := w.unknown("good")
	w.clock.reach(w.dispatch(good).next)
	w.exec("UPDATE dispatches SET request = ? WHERE idempotency_key = 'broken'", []byte{9})
	w.fake.decide = nil
	n, err := w.resolver().Sweep(t.Context())
	if n != 1 || err == nil {
		t.Errorf("the sweep looked at %d, error %v", n, err)
	}
	w.checkSettled("good", func() (flow.Answer, error) { return w.pay("good") })
}

// TestInFlightAndAbandoned: a retry during the lease is told to wait; after it
// the key is looked at and not run again.
func TestInFlightAndAbandoned(t *testing.T) { onSome(t, testInFlightAndAbandoned) }

func testInFlightAndAbandoned(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	send := func() (flow.Answer, error) { return w.pay("k") }
	w.sendAndDie("k", send)
	if n, err := w.completer().Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("inside the lease the completer took over %d, %v", n, err)
	}
	a, err := send()
	if !isKeyError(err, onlyonce.ErrInFlight) {
		t.Errorf("inside the lease a retry gets %s", show(a, err))
	}
	calls := len(w.fake.seen(""))
	w.clock.advance(w.engine.Lease() + time.Second)
	if a, err = send(); show(a, err) != "payment pending_unknown" || len(w.fake.seen("")) != calls {
		t.Errorf("after the lease a retry gets %s, and %d calls were made", show(a, err), len(w.fake.seen(""))-calls)
	}
	if n := w.sweep(); n != 1 {
		t.Errorf("the resolver looked at %d at once", n)
	}
	w.checkSettled("k", send)
}

// TestTwoServersShareTheChecks: what another has looked at since it was listed
// waits for its next time.
func TestTwoServersShareTheChecks(t *testing.T) { onSome(t, testTwoServersShareTheChecks) }

func testTwoServersShareTheChecks(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	other := w.again(setup{})
	w.always(maybe, unread)
	id := w.unknown("k")
	w.clock.reach(w.dispatch(id).next)
	theirs := 0
	w.faults.watch = func(string) { // the list is read, the claim is not taken yet
		w.faults.watch = nil
		theirs = other.sweep()
	}
	if ours := w.sweep(); ours != 0 || theirs != 1 || len(w.fake.seen("")) != 2 {
		t.Errorf("they looked at %d, we at %d; %d calls", theirs, ours, len(w.fake.seen("")))
	}
}
