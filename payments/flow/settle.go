package flow

import (
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// source says who brings the news, for the timeline.
type source string

const (
	byAPI   source = "the provider's answer"
	byQuery source = "query"
)

// timeline adds events to changes. Every event adds one to its resource's
// version.
type timeline struct {
	now     time.Time
	attempt int
	changes *db.Changes
}

func (t timeline) payment(kind payments.EventType, detail string) {
	p := t.changes.Payment
	p.Version++
	p.UpdatedAt = t.now
	t.changes.Events = append(t.changes.Events, payments.Event{
		Account: p.Account, Resource: p.ID, Version: p.Version, At: t.now, Type: kind, State: p.State,
		Attempt: t.attempt, Detail: detail,
	})
}

func (t timeline) refund(kind payments.EventType, detail string) {
	r := t.changes.Refund
	r.Version++
	r.UpdatedAt = t.now
	t.changes.Events = append(t.changes.Events, payments.Event{
		Account: r.Account, Resource: r.ID, Version: r.Version, At: t.now, Type: kind, State: r.State,
		Attempt: t.attempt, Detail: detail,
	})
}

// settlement is a phase 2 in the making: copies of what was read, changed by
// what the provider's answer proves.
type settlement struct {
	changes db.Changes
	kind    payments.Kind
	t       timeline
	alarm   bool // a person must look
}

// state returns the state of the payment or refund that is settled.
func (s *settlement) state() *payments.State {
	if s.kind == payments.KindRefund {
		return &s.changes.Refund.State
	}
	return &s.changes.Payment.State
}

func (s *settlement) event(kind payments.EventType, detail string) {
	if s.kind == payments.KindRefund {
		s.t.refund(kind, detail)
		return
	}
	s.t.payment(kind, detail)
}

func (s *settlement) final() bool { return (*s.state()).Final() }

// open copies what was read, so that a decision can be made anew.
func open(h db.Have) *settlement {
	s := &settlement{kind: h.Dispatch.Kind}
	d := *h.Dispatch
	s.changes.Dispatch = &d
	if h.Payment != nil && (s.kind == payments.KindPayment || h.Refund != nil) {
		p := *h.Payment
		s.changes.Payment = &p
	}
	if h.Refund != nil {
		r := *h.Refund
		s.changes.Refund = &r
	}
	s.t = timeline{now: h.Now, attempt: h.Claim.Attempt, changes: &s.changes}
	return s
}

// settle decides what the provider's answer does: the state, the timeline,
// what hangs on the state, and where the key goes from here.
func (f *Flow) settle(h db.Have, a payments.Answer, by source) *settlement {
	s := open(h)
	dispatch, ruling := h.Dispatch.Rule(a, h.Now, f.facts)
	s.changes.Dispatch = &dispatch
	before := *s.state()
	moved, err := payments.Move(s.kind, before, ruling.State)
	s.alarm = ruling.Alarm || err != nil
	if err != nil {
		// What is proved stays. It is a discrepancy, and a person must look.
		s.event(payments.EventNewsIgnored, detail(a))
		dispatch.NextCheckAt, dispatch.UnknownSince = time.Time{}, time.Time{}
	} else {
		*s.state() = ruling.State
		s.event(ruling.Event, detail(a))
		s.adopt(dispatch.ProviderID, ruling)
	}
	if moved {
		s.follow(before, by)
	}
	s.unchangedPayment()
	if !s.final() {
		c := *h.Claim
		c.Point, c.Lease = onlyonce.Unknown, 0 // the resolver's from now on
		s.changes.Key.Advance = &c
	}
	return s
}

// adopt writes what the provider said onto the resource.
func (s *settlement) adopt(providerID string, ruling payments.Ruling) {
	if s.kind == payments.KindRefund {
		s.changes.Refund.ProviderID, s.changes.Refund.DeclineCode = providerID, ruling.DeclineCode
		return
	}
	s.changes.Payment.ProviderID, s.changes.Payment.DeclineCode = providerID, ruling.DeclineCode
}

// follow does what hangs on a new state.
func (s *settlement) follow(before payments.State, by source) {
	now := *s.state()
	p := s.changes.Payment
	if now.Final() && (before == payments.PendingUnknown || before == payments.Review) {
		s.event(payments.EventResolved, "by "+string(by))
	}
	switch {
	case now == payments.Review:
		s.event(payments.EventReview, "")
	case s.kind == payments.KindPayment && now == payments.Succeeded:
		p.Captured = p.Amount.Minor
	case s.kind == payments.KindRefund && now == payments.Succeeded:
		p.Refunded += s.changes.Refund.Amount.Minor
		s.t.payment(payments.EventRefunded, s.changes.Refund.Amount.String()+" by refund "+s.changes.Refund.ID)
	case s.kind == payments.KindRefund && now == payments.Failed:
		p.Reserved -= s.changes.Refund.Amount.Minor
		s.t.payment(payments.EventRoomFreed, "refund "+s.changes.Refund.ID+" failed")
	}
	// The order is freed once, and never taken back.
	p.GuardsOrder = p.GuardsOrder && p.HoldsOrder()
	if now.Final() {
		s.event(payments.EventCompleted, "")
	}
}

// unchangedPayment leaves a refund's payment out when nothing happened to it.
func (s *settlement) unchangedPayment() {
	if s.kind != payments.KindRefund {
		return
	}
	for _, e := range s.changes.Events {
		if e.Resource == s.changes.Payment.ID {
			return
		}
	}
	s.changes.Payment = nil
}

// answer is what the client gets while the outcome is not known.
func (s *settlement) answer() Answer {
	since, next := s.changes.Dispatch.UnknownSince, s.changes.Dispatch.NextCheckAt
	if s.kind == payments.KindRefund {
		r := *s.changes.Refund
		r.UnknownSince, r.NextCheckAt = since, next
		return Answer{Refund: &r}
	}
	p := *s.changes.Payment
	p.UnknownSince, p.NextCheckAt = since, next
	return Answer{Payment: &p}
}

// result is what a final state is rendered from.
func (s *settlement) result() Result {
	r := Result{RequestID: s.changes.Dispatch.RequestID}
	switch a := s.answer(); {
	case a.Refund != nil && a.Refund.State == payments.Succeeded:
		r.Refund = a.Refund
	case a.Refund != nil:
		r.Refusal = &Refusal{Kind: RefusedDeclined, PaymentID: a.Refund.PaymentID, RefundID: a.Refund.ID,
			DeclineCode: a.Refund.DeclineCode}
	case a.Payment.State == payments.Succeeded:
		r.Payment = a.Payment
	default:
		r.Refusal = &Refusal{Kind: RefusedDeclined, PaymentID: a.Payment.ID, DeclineCode: a.Payment.DeclineCode}
	}
	return r
}

// abandoned decides what becomes of a dispatched claim whose owner is gone:
// the effect may have happened, so it is unknown, and is looked at now.
func abandoned(h db.Have, facts payments.Facts) db.Changes {
	s := open(h)
	d := s.changes.Dispatch
	*d = d.Abandoned(h.Now, facts)
	if *s.state() == payments.Processing {
		*s.state() = payments.PendingUnknown
	}
	s.event(payments.EventTakenOver, "the attempt before it ended without an answer")
	s.unchangedPayment()
	c := *h.Claim
	c.Point, c.Lease = onlyonce.Unknown, 0
	s.changes.Key.Advance = &c
	if s.changes.Payment != nil {
		s.changes.Payment.UnknownSince, s.changes.Payment.NextCheckAt = d.UnknownSince, d.NextCheckAt
	}
	if s.changes.Refund != nil {
		s.changes.Refund.UnknownSince, s.changes.Refund.NextCheckAt = d.UnknownSince, d.NextCheckAt
	}
	return s.changes
}

func detail(a payments.Answer) string {
	switch {
	case a.Code == "":
		return a.Detail
	case a.Detail == "":
		return a.Code
	}
	return a.Code + ": " + a.Detail
}
