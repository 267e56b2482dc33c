// Package flow is the only control flow of payments: it takes an intent from
// its claim over the provider to its outcome, in phases between recovery
// points, and later resolves what stayed unknown.
//
//	phase 1   claim, payment, dispatch intent     one transaction
//	          the provider call                   no transaction open
//	phase 2   payment, events, outcome, key       one transaction
//
// A phase reads what it wants, decides in pure Go, and returns its changes as
// a value; package db turns them into SQL.
package flow

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/provider"
)

// Operations, as they stand in a key's row and in derived ids.
const (
	OpPayment = "payments.create"
	OpRefund  = "refunds.create"
)

// Options configure a [Flow].
type Options struct {
	DB       *db.DB
	Engine   *onlyonce.Engine
	Provider provider.Provider
	// KeyWindow is how long after the first send a re-send is allowed; at most
	// what the provider declares. Zero: 23/24 of that, so that clocks may differ.
	KeyWindow time.Duration
	// ProviderTimeout bounds one provider call, CommitWait the wait for one
	// COMMIT. Both together must stay below the engine's lease, so that a claim
	// never outlives the right to act on it. Default 10 s each.
	ProviderTimeout time.Duration
	CommitWait      time.Duration
	// Installation is the database's own id: a part of every derived id.
	Installation string
	// Render turns a final result into the outcome that is stored. It is pure.
	Render func(Result) onlyonce.Outcome
	// Settled is called after an outcome was stored or an unknown changed.
	// It must not block. Optional.
	Settled func(onlyonce.Key)
	Now     func() time.Time // default time.Now
	Log     *slog.Logger     // default slog.Default()
}

// Flow runs payments and refunds. It is safe for concurrent use.
type Flow struct {
	o     Options
	facts payments.Facts
	wake  chan struct{} // tells the resolver that an unknown was born here
}

const (
	defaultProviderTimeout = 10 * time.Second
	defaultCommitWait      = 10 * time.Second
)

// New returns a flow, or an error that names the setting that could lose money
// and what to set it to.
func New(o Options) (*Flow, error) {
	if o.DB == nil || o.Engine == nil || o.Provider == nil || o.Render == nil || o.Installation == "" {
		return nil, errors.New("flow: DB, Engine, Provider, Render and Installation are needed")
	}
	if o.ProviderTimeout == 0 {
		o.ProviderTimeout = defaultProviderTimeout
	}
	if o.CommitWait == 0 {
		o.CommitWait = defaultCommitWait
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Settled == nil {
		o.Settled = func(onlyonce.Key) {}
	}
	if o.ProviderTimeout < 0 || o.CommitWait < 0 || o.KeyWindow < 0 {
		return nil, fmt.Errorf("the provider timeout (%v), the commit wait (%v) and the key window (%v) must not be negative",
			o.ProviderTimeout, o.CommitWait, o.KeyWindow)
	}
	facts := o.Provider.Facts()
	if o.KeyWindow == 0 {
		o.KeyWindow = facts.KeyWindow * 23 / 24
	}
	if o.KeyWindow > facts.KeyWindow {
		return nil, fmt.Errorf("the provider key window is %v, but the provider forgets a key after %v and a re-send "+
			"could be a second charge: set --provider-key-window to at most %v", o.KeyWindow, facts.KeyWindow, facts.KeyWindow)
	}
	if o.ProviderTimeout+o.CommitWait >= o.Engine.Lease() {
		return nil, fmt.Errorf("the provider timeout (%v) and the commit wait (%v) together reach the lease (%v), "+
			"so a claim could be taken over while its owner still acts: raise --lease or lower "+
			"--provider-timeout or --commit-wait",
			o.ProviderTimeout, o.CommitWait, o.Engine.Lease())
	}
	// Absence is judged from the declared window, re-sends from the narrower one.
	facts.AbsenceGrace += facts.KeyWindow - o.KeyWindow
	facts.KeyWindow = o.KeyWindow
	return &Flow{o: o, facts: facts, wake: make(chan struct{}, 1)}, nil
}

// PaymentRequest is what a client asks for with POST /payments, validated.
type PaymentRequest struct {
	OrderID     string
	Amount      money.Amount
	Method      string // the payment method token; secret
	Description string
	Metadata    map[string]string
	RequestID   string // of the HTTP request that brings it
}

// RefundRequest is what a client asks for with POST /payments/{id}/refunds.
type RefundRequest struct {
	PaymentID string
	Amount    int64 // minor units; 0 is all that is left
	Reason    string
	RequestID string
}

// RefusalKind says why an intent ended without a payment or refund of its own.
type RefusalKind string

const (
	RefusedDeclined      RefusalKind = "declined"       // stored: the provider said no
	RefusedOrderBusy     RefusalKind = "order-busy"     // stored: another payment holds the order
	RefusedOver          RefusalKind = "over-refund"    // stored: more than is left
	RefusedNotRefundable RefusalKind = "not-refundable" // stored: the payment did not succeed
	RefusedUnresolved    RefusalKind = "unresolved"     // not stored: hangs on an unknown
	RefusedNotFound      RefusalKind = "not-found"      // not stored: no such payment
)

// Refusal is an intent's end that is not a success.
type Refusal struct {
	Kind        RefusalKind
	PaymentID   string
	RefundID    string
	DeclineCode string
	Refundable  int64 // for RefusedOver
}

// Result is what an intent ends in: exactly one of a succeeded payment, a
// succeeded refund, or a refusal. RequestID is of the request that began it.
type Result struct {
	Payment   *payments.Payment
	Refund    *payments.Refund
	Refusal   *Refusal
	RequestID string
}

// Answer is what one request gets. Exactly one of Outcome, Payment, Refund and
// Refusal is set: the stored outcome; a payment or refund whose outcome is not
// known yet; or a refusal that is not stored, so that the same key can be sent
// again.
type Answer struct {
	Outcome  *onlyonce.Outcome
	Replayed bool // Outcome was stored by an earlier request
	Payment  *payments.Payment
	Refund   *payments.Refund
	Refusal  *Refusal
}

// KeyError says that the key itself forbids the request. It wraps one of
// onlyonce's sentinel errors and carries the row, whose Resource names what
// the key made.
type KeyError struct {
	Record onlyonce.Record
	Err    error
}

func (e *KeyError) Error() string { return fmt.Sprintf("key %v: %v", e.Record.Key, e.Err) }

// Unwrap returns the sentinel.
func (e *KeyError) Unwrap() error { return e.Err }
