// Package payments is the domain of the payments server, without any effect:
// what a payment and a refund are, how their states may change, what a
// provider's answer means, and what is done about an unknown.
package payments

import (
	"fmt"
	"slices"
)

// Kind says what a resource is.
type Kind string

const (
	KindPayment Kind = "payment" // a charge
	KindRefund  Kind = "refund"  // a part or all of a charge given back
)

// State is where a payment or a refund stands.
type State string

const (
	Processing     State = "processing"      // claimed; an attempt is running
	Succeeded      State = "succeeded"       // the provider proved that money moved
	Failed         State = "failed"          // it is proved that no money moved
	PendingUnknown State = "pending_unknown" // dispatched; no proof either way has been seen
	Review         State = "review"          // only a person, or definite evidence, can decide
)

// States lists every state a client may see.
func States() []State {
	return []State{Processing, Succeeded, Failed, PendingUnknown, Review}
}

// moves is the one table of allowed transitions, whoever brings the news: the
// API's answer, a webhook, the sweep, reconciliation or an operator.
var moves = map[Kind]map[State][]State{
	KindPayment: {
		Processing:     {Succeeded, Failed, PendingUnknown, Review},
		PendingUnknown: {Succeeded, Failed, Review},
		Review:         {Succeeded, Failed},
	},
	KindRefund: {
		Processing:     {Succeeded, Failed, PendingUnknown, Review},
		PendingUnknown: {Succeeded, Failed, Review},
		Review:         {Succeeded, Failed},
		Succeeded:      {Failed}, // banks return refunds days later
	},
}

// Final reports whether the state is a last word that a key may be completed with.
func (s State) Final() bool { return s == Succeeded || s == Failed }

// Move reports whether a resource of this kind goes from one state to another.
// False without an error means that it is there already, which is success. An
// error means that the news contradicts what is proved: the state stays, and
// it is a discrepancy for a person.
func Move(kind Kind, from, to State) (bool, error) {
	if from == to {
		return false, nil
	}
	if slices.Contains(moves[kind][from], to) {
		return true, nil
	}
	return false, fmt.Errorf("a %s can't go from %s to %s", kind, from, to)
}
