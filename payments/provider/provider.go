// Package provider is what the flow needs of an outside payment service. An
// adapter speaks one wire format and classifies what comes back; it decides
// nothing about payments.
package provider

import (
	"context"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

// Provider is one account at an outside payment service. All methods are safe
// for concurrent use.
type Provider interface {
	// Instance names the account, for example "stripe:live" or "sandbox:ID".
	// A payment is looked up, re-sent and reconciled only where it began.
	Instance() string

	// Facts are what the provider guarantees of its keys and lists.
	Facts() payments.Facts

	// Prepare puts an instruction into the provider's wire format. The same
	// instruction gives the same bytes. The error says what in the instruction
	// the provider can't take (a currency, an amount); nothing was sent.
	Prepare(ctx context.Context, in payments.Instruction) (payments.Request, error)

	// Execute sends d.Request under d.ProviderKey, once, without hidden
	// retries. Nothing is written once sendBy has passed, on the wall clock or
	// on the monotonic clock; that is checked as the last act before the first
	// byte. It never returns an error: what can't be told is AnswerMaybe.
	Execute(ctx context.Context, d payments.Dispatch, sendBy time.Time) payments.Answer

	// Read asks for the object by d.ProviderID. A failed read is AnswerUnread.
	Read(ctx context.Context, d payments.Dispatch) payments.Answer

	// Find lists all that d's sends may have made (for a refund also by its
	// payment) and matches our reference. AnswerNotFound only when every page
	// was seen; else AnswerUnread.
	Find(ctx context.Context, d payments.Dispatch) payments.Answer
}
