package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// acceptPayment decides what a fresh claim for a payment begins.
func (f *Flow) acceptPayment(ctx context.Context, in onlyonce.Intent, r PaymentRequest, h db.Have) (
	db.Changes, *Answer, error) {
	if h.Guard != nil {
		return f.refuse(ctx, Refusal{Kind: RefusedOrderBusy, PaymentID: h.Guard.ID}, r.RequestID)
	}
	names := payments.NamesOf(f.o.Installation, in, payments.KindPayment, h.Generation)
	req, err := f.prepare(instruction(in, names.Resource, r))
	if err != nil {
		return db.Changes{}, nil, err
	}
	p := &payments.Payment{
		Account: in.Key.Account, ID: names.Resource, Key: in.Key.Name, OrderID: r.OrderID, GuardsOrder: r.OrderID != "",
		Amount: r.Amount, State: payments.Processing, Description: r.Description, Metadata: r.Metadata,
		Instance: f.o.Provider.Instance(), CreatedAt: h.Now,
	}
	c := db.Changes{Payment: p, Dispatch: f.dispatch(in, names, payments.KindPayment, r.Amount, req, r.RequestID, h.Now)}
	t := timeline{now: h.Now, attempt: h.Claim.Attempt, changes: &c}
	t.payment(payments.EventClaimed, "")
	t.payment(payments.EventSent, "provider key "+names.ProviderKey)
	c.Key.Advance = dispatched(*h.Claim, names.Resource)
	return c, nil, nil
}

func instruction(in onlyonce.Intent, resource string, r PaymentRequest) payments.Instruction {
	return payments.Instruction{
		Kind: payments.KindPayment, Account: in.Key.Account, Resource: resource,
		Amount: r.Amount, Method: r.Method, OrderID: r.OrderID,
	}
}

// acceptRefund decides what a fresh claim for a refund begins: it reserves the
// room under the payment's lock and version.
func (f *Flow) acceptRefund(ctx context.Context, in onlyonce.Intent, r RefundRequest, h db.Have) (
	db.Changes, *Answer, error) {
	amount, refusal := refundRoom(r, h.Payment)
	if refusal != nil {
		return f.refuse(ctx, *refusal, r.RequestID)
	}
	if at := h.Payment.Instance; at != f.o.Provider.Instance() {
		return db.Changes{}, nil, fmt.Errorf("%w: %s at %s", ErrElsewhere, h.Payment.ID, at)
	}
	names := payments.NamesOf(f.o.Installation, in, payments.KindRefund, h.Generation)
	req, err := f.prepare(payments.Instruction{
		Kind: payments.KindRefund, Account: in.Key.Account, Resource: names.Resource,
		Amount: amount, Charge: h.Payment.ProviderID,
	})
	if err != nil {
		return db.Changes{}, nil, err
	}
	p := *h.Payment
	c := db.Changes{
		Payment: &p,
		Refund: &payments.Refund{
			Account: in.Key.Account, ID: names.Resource, PaymentID: p.ID, Key: in.Key.Name, Amount: amount,
			State: payments.Processing, Reason: r.Reason, Instance: f.o.Provider.Instance(), CreatedAt: h.Now,
		},
		Dispatch: f.dispatch(in, names, payments.KindRefund, amount, req, r.RequestID, h.Now),
	}
	t := timeline{now: h.Now, attempt: h.Claim.Attempt, changes: &c}
	t.payment(payments.EventReserved, amount.String()+" for refund "+names.Resource)
	t.refund(payments.EventClaimed, "")
	t.refund(payments.EventSent, "provider key "+names.ProviderKey)
	c.Key.Advance = dispatched(*h.Claim, names.Resource)
	return c, nil, nil
}

// refundRoom decides whether a refund fits, and how much "all that is left" is.
func refundRoom(r RefundRequest, p *payments.Payment) (money.Amount, *Refusal) {
	if p == nil {
		return money.Amount{}, &Refusal{Kind: RefusedNotFound}
	}
	switch p.State {
	case payments.Failed:
		return money.Amount{}, &Refusal{Kind: RefusedNotRefundable, PaymentID: p.ID}
	case payments.Succeeded:
	default: // its own outcome is not known yet
		return money.Amount{}, &Refusal{Kind: RefusedUnresolved, PaymentID: p.ID}
	}
	room := p.Refundable()
	minor := r.Amount
	if minor == 0 {
		minor = room
	}
	switch {
	case minor > 0 && minor <= room:
		return money.Amount{Minor: minor, Currency: p.Amount.Currency}, nil
	case p.Doubtful > 0 && minor <= room+p.Doubtful:
		// It fits exactly if the unknown refund turns out to have failed.
		return money.Amount{}, &Refusal{Kind: RefusedUnresolved, PaymentID: p.ID}
	}
	return money.Amount{}, &Refusal{Kind: RefusedOver, PaymentID: p.ID, Refundable: room}
}

// refuse ends an intent before anything was sent: the refusal is stored as its
// outcome, or, when it hangs on something that may change, nothing is written.
func (f *Flow) refuse(ctx context.Context, r Refusal, requestID string) (db.Changes, *Answer, error) {
	if r.Kind == RefusedUnresolved || r.Kind == RefusedNotFound {
		return db.Changes{}, &Answer{Refusal: &r}, nil
	}
	o, err := f.render(ctx, Result{Refusal: &r, RequestID: requestID})
	if err != nil {
		return db.Changes{}, nil, err
	}
	return db.Changes{Key: db.KeyChange{Finish: &o}}, &Answer{Outcome: &o}, nil
}

func (f *Flow) dispatch(in onlyonce.Intent, n payments.Names, kind payments.Kind, amount money.Amount,
	req payments.Request, requestID string, now time.Time) *payments.Dispatch {
	return &payments.Dispatch{
		Account: in.Key.Account, Resource: n.Resource, Kind: kind, Key: in.Key.Name, RequestID: requestID,
		Instance: f.o.Provider.Instance(), ProviderKey: n.ProviderKey, Request: req, Amount: amount,
		FirstSentAt: now, Sends: 1,
	}
}

// dispatched is the claim as phase 1 leaves it: from here on nothing releases it.
func dispatched(c onlyonce.Claim, resource string) *onlyonce.Claim {
	c.Point, c.Resource = onlyonce.Dispatched, resource
	return &c
}
