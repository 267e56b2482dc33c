package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// paymentsCmd looks at payments.
type paymentsCmd struct {
	Show paymentsShowCmd `cmd:"" help:"Show a payment, its refunds, and the timeline of both."`
}

type paymentsShowCmd struct {
	storeFlags
	ID      string `arg:"" help:"The payment's id (pay_…), or a refund's (re_…)."`
	Account string `placeholder:"ID" help:"The account it belongs to. Default: whichever has it."`
	JSON    bool   `name:"json"`
}

func (paymentsShowCmd) example() string {
	return "onlyonce payments show pay_3kq7zt2mbw6hq4xw5gkyhf2n4e"
}

// maxRefunds bounds what is shown of one payment.
const maxRefunds = 100

// shownPayment is a payment and all that belongs to it.
type shownPayment struct {
	payment   payments.Payment
	refunds   []payments.Refund // newest first
	events    []payments.Event  // of the payment
	ofRefunds [][]payments.Event
	replays   int64
	replayed  time.Time
}

// Run shows the payment.
func (c paymentsShowCmd) Run(p *program) error {
	if payments.KindOf(c.ID) == "" {
		return refuse("%q is neither a payment's id (pay_…) nor a refund's (re_…)", c.ID)
	}
	o, err := p.openExisting(c.storeFlags)
	if err != nil {
		return err
	}
	defer o.close()
	accounts, err := o.accounts(p.ctx, c.Account)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		shown, err := o.showPayment(p.ctx, account, c.ID)
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(p.stdout, shown.line())
		}
		_, err = fmt.Fprint(p.stdout, shown.draw(p.paintFor(p.stdout)))
		return err
	}
	return fmt.Errorf("there is no %s %s", payments.KindOf(c.ID), c.ID)
}

func (o *opened) showPayment(ctx context.Context, account, id string) (s shownPayment, err error) {
	if payments.KindOf(id) == payments.KindRefund {
		refund, err := o.db.Refund(ctx, account, id)
		if err != nil {
			return s, err
		}
		id = refund.PaymentID
	}
	if s.payment, err = o.db.Payment(ctx, account, id); err != nil {
		return s, err
	}
	if s.refunds, _, err = o.db.Refunds(ctx, account, id, db.Page{Limit: maxRefunds}); err != nil {
		return s, err
	}
	if s.events, _, err = o.db.Events(ctx, account, id, 0, maxEvents); err != nil {
		return s, err
	}
	for _, r := range s.refunds {
		events, _, err := o.db.Events(ctx, account, r.ID, 0, maxEvents)
		if err != nil {
			return s, err
		}
		s.ofRefunds = append(s.ofRefunds, events)
	}
	s.replays, s.replayed, err = o.db.Replays(ctx, account, id)
	return s, err
}

func (s shownPayment) draw(p paint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n %s of account %s, key %s\n\n", p.bold(s.payment.ID), visible(s.payment.Account),
		clip(s.payment.Key, 40))
	b.WriteString(paymentBox(s.payment, p))
	b.WriteString(timeline(s.payment.ID, s.events, p))
	if s.replays > 0 {
		fmt.Fprintf(&b, "  answered again %s, last %s\n", plural(int(s.replays), "time", "times"), moment(s.replayed))
	}
	for i, r := range s.refunds {
		b.WriteString("\n" + refundBox(r, p) + timeline(r.ID, s.ofRefunds[i], p))
	}
	return b.String()
}

func (s shownPayment) line() any {
	refunds := []refundRow{}
	events := eventRowsOf(s.events)
	for i := range s.refunds {
		refunds = append(refunds, *refundRowOf(&s.refunds[i]))
		events = append(events, eventRowsOf(s.ofRefunds[i])...)
	}
	return struct {
		paymentRow
		Refunds        []refundRow `json:"refunds"`
		Timeline       []eventRow  `json:"timeline"`
		Replays        int64       `json:"replays"`
		LastReplayedAt *time.Time  `json:"lastReplayedAt,omitempty"`
	}{*paymentRowOf(&s.payment), refunds, events, s.replays, unlessZero(s.replayed)}
}

// paymentRow is a payment as programs get it; amounts are minor units.
type paymentRow struct {
	ID           string     `json:"id"`
	Account      string     `json:"account"`
	Key          string     `json:"key"`
	OrderID      string     `json:"orderId,omitempty"`
	Amount       int64      `json:"amount"`
	Currency     string     `json:"currency"`
	State        string     `json:"state"`
	Captured     int64      `json:"captured"`
	Refunded     int64      `json:"refunded"`
	Refundable   int64      `json:"refundable"`
	DeclineCode  string     `json:"declineCode,omitempty"`
	Instance     string     `json:"instance"`
	ProviderID   string     `json:"providerId,omitempty"`
	CreatedAt    time.Time  `json:"createdAt"`
	UpdatedAt    time.Time  `json:"updatedAt"`
	UnknownSince *time.Time `json:"unknownSince,omitempty"`
	NextCheckAt  *time.Time `json:"nextCheckAt,omitempty"`
}

func paymentRowOf(p *payments.Payment) *paymentRow {
	if p == nil {
		return nil
	}
	return &paymentRow{
		ID: p.ID, Account: p.Account, Key: p.Key, OrderID: p.OrderID, Amount: p.Amount.Minor,
		Currency: string(p.Amount.Currency), State: string(p.State), Captured: p.Captured, Refunded: p.Refunded,
		Refundable: p.Refundable(), DeclineCode: p.DeclineCode, Instance: p.Instance, ProviderID: p.ProviderID,
		CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.UpdatedAt.UTC(),
		UnknownSince: unlessZero(p.UnknownSince), NextCheckAt: unlessZero(p.NextCheckAt),
	}
}

// refundRow is a refund as programs get it.
type refundRow struct {
	ID           string     `json:"id"`
	PaymentID    string     `json:"paymentId"`
	Key          string     `json:"key"`
	Amount       int64      `json:"amount"`
	Currency     string     `json:"currency"`
	State        string     `json:"state"`
	Reason       string     `json:"reason,omitempty"`
	DeclineCode  string     `json:"declineCode,omitempty"`
	ProviderID   string     `json:"providerId,omitempty"`
	CreatedAt    time.Time  `json:"createdAt"`
	UpdatedAt    time.Time  `json:"updatedAt"`
	UnknownSince *time.Time `json:"unknownSince,omitempty"`
	NextCheckAt  *time.Time `json:"nextCheckAt,omitempty"`
}

func refundRowOf(r *payments.Refund) *refundRow {
	if r == nil {
		return nil
	}
	return &refundRow{
		ID: r.ID, PaymentID: r.PaymentID, Key: r.Key, Amount: r.Amount.Minor, Currency: string(r.Amount.Currency),
		State: string(r.State), Reason: r.Reason, DeclineCode: r.DeclineCode, ProviderID: r.ProviderID,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		UnknownSince: unlessZero(r.UnknownSince), NextCheckAt: unlessZero(r.NextCheckAt),
	}
}
