package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// timeLayout is RFC 3339 in UTC, always with microseconds, which is what the
// database keeps; so times sort as text.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// stamp is a time in an answer.
type stamp time.Time

// MarshalText implements encoding.TextMarshaler.
func (t stamp) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, timeLayout), nil
}

// IsZero is for the option omitzero.
func (t stamp) IsZero() bool { return time.Time(t).IsZero() }

// paymentBody is a payment as clients see it, its members in documented order.
type paymentBody struct {
	ID           string            `json:"id"`
	OrderID      string            `json:"orderId,omitempty"`
	Amount       int64             `json:"amount"`
	Currency     string            `json:"currency"`
	State        payments.State    `json:"state"`
	Refunded     int64             `json:"refunded"`
	Refundable   int64             `json:"refundable"`
	Livemode     bool              `json:"livemode"`
	Description  string            `json:"description,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	DeclineCode  string            `json:"declineCode,omitempty"`
	ProviderID   string            `json:"providerId,omitempty"`
	UnknownSince stamp             `json:"unknownSince,omitzero"`
	NextCheckAt  stamp             `json:"nextCheckAt,omitzero"`
	CreatedAt    stamp             `json:"createdAt"`
	UpdatedAt    stamp             `json:"updatedAt"`
}

func bodyOfPayment(p payments.Payment) paymentBody {
	return paymentBody{
		ID: p.ID, OrderID: p.OrderID, Amount: p.Amount.Minor, Currency: string(p.Amount.Currency), State: p.State,
		Refunded: p.Refunded, Refundable: max(0, p.Refundable()), Livemode: livemode(p.Instance),
		Description: p.Description, Metadata: p.Metadata, DeclineCode: p.DeclineCode, ProviderID: p.ProviderID,
		UnknownSince: stamp(p.UnknownSince), NextCheckAt: stamp(p.NextCheckAt),
		CreatedAt: stamp(p.CreatedAt), UpdatedAt: stamp(p.UpdatedAt),
	}
}

// refundBody is a refund as clients see it.
type refundBody struct {
	ID           string         `json:"id"`
	PaymentID    string         `json:"paymentId"`
	Amount       int64          `json:"amount"`
	Currency     string         `json:"currency"`
	State        payments.State `json:"state"`
	Livemode     bool           `json:"livemode"`
	Reason       string         `json:"reason,omitempty"`
	DeclineCode  string         `json:"declineCode,omitempty"`
	ProviderID   string         `json:"providerId,omitempty"`
	UnknownSince stamp          `json:"unknownSince,omitzero"`
	NextCheckAt  stamp          `json:"nextCheckAt,omitzero"`
	CreatedAt    stamp          `json:"createdAt"`
	UpdatedAt    stamp          `json:"updatedAt"`
}

func bodyOfRefund(r payments.Refund) refundBody {
	return refundBody{
		ID: r.ID, PaymentID: r.PaymentID, Amount: r.Amount.Minor, Currency: string(r.Amount.Currency), State: r.State,
		Livemode: livemode(r.Instance), Reason: r.Reason, DeclineCode: r.DeclineCode, ProviderID: r.ProviderID,
		UnknownSince: stamp(r.UnknownSince), NextCheckAt: stamp(r.NextCheckAt),
		CreatedAt: stamp(r.CreatedAt), UpdatedAt: stamp(r.UpdatedAt),
	}
}

// eventBody is a line of a timeline as clients see it.
type eventBody struct {
	At      stamp              `json:"at"`
	Type    payments.EventType `json:"type"`
	Attempt int                `json:"attempt,omitempty"`
	Detail  string             `json:"detail,omitempty"`
}

func bodyOfEvent(e payments.Event) eventBody {
	return eventBody{At: stamp(e.At), Type: e.Type, Attempt: e.Attempt, Detail: e.Detail}
}

// livemode reports whether real money moves at a provider instance.
func livemode(instance string) bool { return strings.HasSuffix(instance, ":live") }

func paymentPath(id string) string { return "/payments/" + id }

func refundPath(id string) string { return "/refunds/" + id }

// Render turns the final result of an intent into the answer that is stored
// under its key. It is pure, and it is what flow.Options.Render is given.
func Render(r flow.Result) onlyonce.Outcome {
	var o onlyonce.Outcome
	switch {
	case r.Payment != nil:
		o = created(paymentPath(r.Payment.ID), bodyOfPayment(*r.Payment))
	case r.Refund != nil:
		o = created(refundPath(r.Refund.ID), bodyOfRefund(*r.Refund))
	case r.Refusal != nil:
		o = refused(*r.Refusal).Outcome()
	default:
		panic("server: a result without a payment, a refund or a refusal has no answer")
	}
	return httponce.WithOrigin(o, r.RequestID)
}

func created(location string, body any) onlyonce.Outcome {
	return onlyonce.Outcome{
		Status: http.StatusCreated,
		Header: map[string][]string{"Content-Type": {"application/json"}, "Location": {location}},
		Body:   encode(body),
	}
}

// unresolvedAfter is what a client waits before it asks again for what hangs
// on an unknown: the first looks at one come after 1, 2 and 4 s.
const unresolvedAfter = 5 * time.Second

// refused is the problem that a refusal is for a client.
func refused(r flow.Refusal) *httponce.Problem {
	var p *httponce.Problem
	switch r.Kind {
	case flow.RefusedDeclined:
		p = httponce.Declined(r.DeclineCode)
		if r.DeclineCode == payments.CodeNotExecuted {
			p.Detail = "It is proved that the provider never executed this; no money moved, and nobody declined it. " +
				"This intent is over. Another try, with the same payment method too, is a new intent and needs a new key."
		}
	case flow.RefusedOrderBusy:
		p = httponce.OrderBusy(r.PaymentID)
	case flow.RefusedOver:
		p = httponce.OverRefund(r.PaymentID, max(0, r.Refundable))
	case flow.RefusedNotRefundable:
		p = httponce.NotRefundable(r.PaymentID)
	case flow.RefusedUnresolved:
		p = httponce.Unresolved(unresolvedAfter)
	case flow.RefusedNotFound:
		return httponce.NotFound("payment")
	default:
		panic(fmt.Sprintf("server: the refusal %q has no problem", r.Kind))
	}
	p.PaymentID, p.RefundID = r.PaymentID, r.RefundID
	return p
}

// encode never fails: bodies are strings, numbers and times.
func encode(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic("server: a body of strings, numbers and times always marshals: " + err.Error())
	}
	return text
}

// write answers with JSON that is not stored.
func write(w http.ResponseWriter, status int, body any) {
	httponce.WriteOutcome(w, onlyonce.Outcome{
		Status: status,
		Header: map[string][]string{"Content-Type": {"application/json"}},
		Body:   encode(body),
	}, false)
}
