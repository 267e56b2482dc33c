package payments

import (
	"time"

	"github.com/onlyonce-go/onlyonce/money"
)

// Payment is one charge that an account asked for. Amounts are minor units.
type Payment struct {
	Account     string
	ID          string // derived from the intent, never minted
	Key         string // the client's idempotency key
	OrderID     string // optional; one order is paid once
	GuardsOrder bool   // no other payment for the order may begin
	Amount      money.Amount
	Captured    int64 // what the provider took; 0 until succeeded
	State       State
	Version     int // one more with every event; orders the timeline
	Description string
	Metadata    map[string]string
	DeclineCode string
	Instance    string // the provider account it lives in, for example "stripe:live"
	ProviderID  string // the provider's own id, once it is known
	CreatedAt   time.Time
	UpdatedAt   time.Time

	// Sums over its refunds, read with it and never stored.
	Refunded int64 // succeeded
	Reserved int64 // not failed: succeeded, running and unknown
	Doubtful int64 // unknown or in review: room that may come back

	// From its dispatch, read with it.
	UnknownSince time.Time
	NextCheckAt  time.Time
}

// Refundable is the room that is left for refunds: what was captured less all
// refunds that have not failed, unknown ones included.
func (p Payment) Refundable() int64 { return p.Captured - p.Reserved }

// HoldsOrder reports whether the payment keeps its order from being paid
// again: from the claim on, until it failed or was refunded in full by refunds
// that succeeded.
func (p Payment) HoldsOrder() bool {
	if p.OrderID == "" || p.State == Failed {
		return false
	}
	return p.State != Succeeded || p.Refunded < p.Captured
}

// Refund gives a part or all of a succeeded payment back.
type Refund struct {
	Account     string
	ID          string
	PaymentID   string
	Key         string
	Amount      money.Amount
	State       State
	Version     int
	Reason      string
	DeclineCode string
	Instance    string
	ProviderID  string
	CreatedAt   time.Time
	UpdatedAt   time.Time

	// From its dispatch, read with it.
	UnknownSince time.Time
	NextCheckAt  time.Time
}

// EventType is what happened to a resource.
type EventType string

const (
	EventClaimed     EventType = "claimed"      // the intent is durable
	EventSent        EventType = "sent"         // a request to the provider is about to go out
	EventNotSent     EventType = "not_sent"     // no byte of it reached the provider
	EventAnswered    EventType = "answered"     // the provider said something definite or readable
	EventTimedOut    EventType = "timed_out"    // the answer was not seen
	EventTakenOver   EventType = "taken_over"   // another worker claimed it after the lease
	EventChecked     EventType = "checked"      // looked at, still unknown
	EventResolved    EventType = "resolved"     // an unknown got its proof
	EventCompleted   EventType = "completed"    // the outcome is stored
	EventReserved    EventType = "reserved"     // room for a refund was taken
	EventRoomFreed   EventType = "room_freed"   // a refund failed and gave its room back
	EventRefunded    EventType = "refunded"     // a refund succeeded
	EventReview      EventType = "review"       // handed to a person
	EventNewsIgnored EventType = "news_ignored" // news that contradicts what is proved
)

// Event is one line of a resource's timeline. Its version is unique per
// resource: a duplicate means that a race was lost.
type Event struct {
	Account  string
	Resource string
	Version  int
	At       time.Time
	Type     EventType
	State    State // after the event
	Attempt  int
	Detail   string // for people; never a body, token or secret
}

// Instruction is what the provider is asked to do, in our words.
type Instruction struct {
	Kind     Kind
	Account  string
	Resource string // our payment's or refund's id, which stands in the provider's metadata
	Amount   money.Amount
	// Payments only.
	Method  string // the payment method token; secret
	OrderID string
	// Refunds only: the provider's id of the payment.
	Charge string
}

// Request is an instruction in the provider's wire format. The same intent
// always gives the same bytes.
type Request struct {
	Body    []byte // secret: it holds the payment method token
	Version string // the provider's API version that the bytes were made for
}

// Dispatch is an effect at the provider that is intended, running or over. It
// is durable before the provider sees a byte.
type Dispatch struct {
	Account      string
	Resource     string
	Kind         Kind
	Key          string // the client's idempotency key
	RequestID    string // of the request that began it
	Instance     string
	ProviderKey  string  // the derived idempotency key
	Request      Request // Body is blanked when the resource is final
	Amount       money.Amount
	ProviderID   string
	FirstSentAt  time.Time // the provider's key window counts from here
	Sends        int       // how often the request may have gone out
	Ambiguous    bool      // some attempt may have acted
	ReadsOnly    bool      // a further send can't help: reads, webhooks and reconciliation only
	Accepted     bool      // the provider has said that it is processing
	Checks       int       // how often the unknown was looked at
	Absences     int       // how often a complete list past the window did not show it
	UnknownSince time.Time // zero when its outcome is known
	NextCheckAt  time.Time // zero when there is nothing left to check
}
