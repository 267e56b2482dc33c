package flow_test

import (
	"fmt"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// answerRow is what one answer must do, written down from the design's table
// and not from the code's.
type answerRow struct {
	kind           payments.AnswerKind
	acts, withID   bool
	first, tainted payments.State // after a first attempt; after an ambiguous one
	ambiguous      bool           // after a first attempt
	readsOnly      bool
	accepted       bool
	event          string
	looks          bool // it comes from a read or a list, not from a send
}

var answerRows = []answerRow{
	{kind: payments.AnswerNotSent, first: "pending_unknown", tainted: "pending_unknown", event: "not_sent"},
	{kind: payments.AnswerSucceeded, acts: true, withID: true, first: "succeeded", tainted: "succeeded",
		event: "answered"},
	{kind: payments.AnswerProcessing, acts: true, withID: true, first: "pending_unknown", tainted: "pending_unknown",
		ambiguous: true, readsOnly: true, accepted: true, event: "answered"},
	{kind: payments.AnswerFailed, first: "failed", tainted: "failed", event: "answered"},
	{kind: payments.AnswerConflict, acts: true, first: "review", tainted: "review",
		ambiguous: true, readsOnly: true, event: "answered"},
	{kind: payments.AnswerUnauthorized, first: "pending_unknown", tainted: "pending_unknown", event: "answered"},
	{kind: payments.AnswerRejected, first: "failed", tainted: "pending_unknown", event: "answered"},
	{kind: payments.AnswerKeyMisused, first: "review", tainted: "review",
		ambiguous: true, readsOnly: true, event: "answered"},
	{kind: payments.AnswerKeyInUse, acts: true, first: "pending_unknown", tainted: "pending_unknown",
		ambiguous: true, event: "answered"},
	{kind: payments.AnswerRateLimited, first: "pending_unknown", tainted: "pending_unknown", event: "answered"},
	{kind: payments.AnswerMaybe, acts: true, first: "pending_unknown", tainted: "pending_unknown",
		ambiguous: true, event: "timed_out"},
	{kind: payments.AnswerPinned, first: "pending_unknown", tainted: "pending_unknown",
		ambiguous: true, readsOnly: true, event: "answered"},
	{kind: payments.AnswerNotFound, tainted: "pending_unknown", readsOnly: true, event: "checked", looks: true},
	{kind: payments.AnswerUnread, tainted: "pending_unknown", readsOnly: true, event: "checked", looks: true},
	{kind: "nobody has mapped this", first: "review", tainted: "review",
		ambiguous: true, readsOnly: true, event: "answered"},
}

func TestEveryAnswer(t *testing.T) { onSome(t, testEveryAnswer) }

func testEveryAnswer(t *testing.T, b *bed) {
	for _, kind := range []payments.Kind{payments.KindPayment, payments.KindRefund} {
		for _, tainted := range []bool{false, true} {
			for _, row := range answerRows {
				if row.looks && !tainted {
					continue // nothing is looked up at a first attempt
				}
				t.Run(fmt.Sprintf("%s/tainted=%v/%s", kind, tainted, row.kind), func(t *testing.T) {
					testAnswer(t, b, kind, tainted, row)
				})
			}
		}
	}
}

// subject begins a payment or a refund under key "k" and says how to send it again.
func (w *world) subject(kind payments.Kind) (send func() (flow.Answer, error)) {
	if kind == payments.KindPayment {
		return func() (flow.Answer, error) { return w.payOrder("k", "order") }
	}
	id := w.paid("paid", "order")
	return func() (flow.Answer, error) { return w.refund("k", id, 6000) }
}

func testAnswer(t *testing.T, b *bed, kind payments.Kind, tainted bool, row answerRow) {
	w := b.world(t, setup{})
	send := w.subject(kind)
	want, events := row.first, "claimed sent "+row.event
	last := reply{kind: row.kind, acts: row.acts, withID: row.withID, code: "some_code"}
	var a flow.Answer
	var err error
	switch {
	case !tainted:
		w.fake.script(last)
		a, err = send()
	default:
		want = row.tainted
		before := payments.AnswerMaybe
		events = "claimed sent timed_out sent " + row.event
		if row.looks {
			before, events = payments.AnswerPinned, "claimed sent answered "+row.event
		}
		w.fake.script(reply{kind: before, code: "some_code"}, last)
		if a, err = send(); err != nil || a.Outcome != nil {
			t.Fatalf("first attempt: %s", show(a, err))
		}
		w.clock.reach(w.dispatch(w.record("k").Resource).next)
		if n := w.sweep(); n != 1 {
			t.Fatalf("the sweep looked at %d", n)
		}
		a, err = send()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.checkAnswered(kind, tainted, row, want, a)
	w.checkTimeline(kind, tainted, want, events)
	if want.Final() {
		w.checkSettled("k", send)
		return
	}
	if again, err := send(); show(again, err) != show(a, nil) || len(w.fake.replies) != 0 {
		t.Errorf("a retry gets %s, want %s; replies left: %v", show(again, err), show(a, nil), w.fake.replies)
	}
}

// checkAnswered compares the answer, the key and the dispatch with the row.
func (w *world) checkAnswered(kind payments.Kind, tainted bool, row answerRow, want payments.State, a flow.Answer) {
	w.t.Helper()
	rec := w.record("k")
	d := w.dispatch(rec.Resource)
	state, _ := w.state(rec.Resource)
	if state != want {
		w.t.Errorf("state %s, want %s", state, want)
	}
	switch {
	case want == payments.Succeeded && (rec.Status != onlyonce.Completed || a.Outcome.Status != 201),
		want == payments.Failed && (rec.Status != onlyonce.Completed || a.Outcome.Status != 402),
		want.Final() && a.Replayed != tainted:
		w.t.Errorf("the key is %s, the answer %s", rec.Status, show(a, nil))
	case !want.Final() && (rec.Status != onlyonce.InProgress || rec.Point != onlyonce.Unknown || !rec.Lapsed()):
		w.t.Errorf("the key is %s at %s, want it given up as unknown", rec.Status, rec.Point)
	case !want.Final() && show(a, nil) != string(kind)+" "+string(want):
		w.t.Errorf("the answer is %s, want a %s that is %s", show(a, nil), kind, want)
	}
	if d.ambiguous != (row.ambiguous || tainted) || d.readsOnly != row.readsOnly || d.accepted != row.accepted {
		w.t.Errorf("the dispatch is %+v", d)
	}
	sends := 1
	if tainted && !row.looks {
		sends = 2
	}
	if d.sends != sends || w.checkBytes(rec.Resource) != sends {
		w.t.Errorf("%d sends are counted and %d happened, want %d", d.sends, w.checkBytes(rec.Resource), sends)
	}
	if d.hasRequest == want.Final() {
		w.t.Errorf("state %s, and the request is kept: %v", want, d.hasRequest)
	}
	if planned := !d.next.IsZero(); planned != (want == payments.PendingUnknown) {
		w.t.Errorf("state %s, next check at %v", want, d.next)
	}
	if made := w.fake.made(rec.Resource); len(made) > 1 {
		w.t.Errorf("%d effects at the provider", len(made))
	}
	if (d.providerID != "") != row.withID {
		w.t.Errorf("the provider's id is %q", d.providerID)
	}
}

func (w *world) checkTimeline(kind payments.Kind, tainted bool, want payments.State, events string) {
	w.t.Helper()
	switch {
	case want.Final() && tainted:
		events += " resolved completed"
	case want.Final():
		events += " completed"
	case want == payments.Review:
		events += " review"
	}
	rec := w.record("k")
	if got := types(w.timeline(rec.Resource)); got != events {
		w.t.Errorf("timeline %q, want %q", got, events)
	}
	if kind == payments.KindPayment {
		p := w.payment(rec.Resource)
		if p.GuardsOrder != (want != payments.Failed) || (p.Captured == 10000) != (want == payments.Succeeded) {
			w.t.Errorf("state %s: guards its order %v, captured %d", want, p.GuardsOrder, p.Captured)
		}
		return
	}
	paid := w.record("paid").Resource
	p, ofPayment := w.payment(paid), "claimed sent answered completed reserved"
	room, refunded := int64(4000), int64(0)
	switch want {
	case payments.Succeeded:
		ofPayment, refunded = ofPayment+" refunded", 6000
	case payments.Failed:
		ofPayment, room = ofPayment+" room_freed", 10000
	}
	if got := types(w.timeline(paid)); got != ofPayment || p.Refundable() != room || p.Refunded != refunded ||
		!p.GuardsOrder {
		w.t.Errorf("the payment: %q, room %d, refunded %d", got, p.Refundable(), p.Refunded)
	}
}
