package httponce

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// How long a client is asked to leave us alone before it sends the same
// request again, where nobody knows better.
const (
	inFlightAfter   = time.Second     // most requests end within one
	unresolvedAfter = 5 * time.Second // a look at the outside takes longer
	downAfter       = 5 * time.Second // a store that went away needs some time to come back
)

// KeyMissing: 400, there is no Idempotency-Key header.
func KeyMissing() *Problem {
	return &Problem{
		Type: "key-missing", Title: "Idempotency key missing", Status: http.StatusBadRequest, Retry: RetryFix,
		Detail: "The header Idempotency-Key is missing. Choose one key per intent and send the same one with every " +
			"retry of it. Nothing was run.",
	}
}

// KeyInvalid: 400, the header can't be a key; why completes "the key was
// refused:" and must not repeat what was sent.
func KeyInvalid(why string) *Problem {
	return &Problem{
		Type: "key-invalid", Title: "Idempotency key invalid", Status: http.StatusBadRequest, Retry: RetryFix,
		Detail: "The header Idempotency-Key was refused: " + why + ". Send it once, with 1 to 255 characters out of " +
			"0x20–0x7E, bare or as a quoted string. Nothing was run.",
	}
}

// InvalidRequest: 400, the request itself is wrong, whatever its key has been
// used for.
func InvalidRequest(detail string, errs ...FieldError) *Problem {
	return &Problem{
		Type: "invalid-request", Title: "Invalid request", Status: http.StatusBadRequest, Retry: RetryFix,
		Detail: detail, Errors: errs,
	}
}

// Unauthorized: 401, no key was read or written.
func Unauthorized() *Problem {
	return &Problem{
		Type: "unauthorized", Title: "Unauthorized", Status: http.StatusUnauthorized, Retry: RetryFix,
		Detail: "The API key is missing or not valid. Send it as \"Authorization: Bearer APIKEY\". Nothing was run.",
	}
}

// Declined: 402, a definite decline. Set PaymentID or RefundID.
func Declined(code string) *Problem {
	return &Problem{
		Type: "declined", Title: "Declined", Status: http.StatusPaymentRequired, Retry: RetryNewKey,
		Detail: "The provider declined it definitely; no money moved. This intent is over. " +
			"Another try, for example with another payment method, is a new intent and needs a new key.",
		DeclineCode: code,
	}
}

// InsufficientFunds: 402, a transfer that its wallet can't pay.
func InsufficientFunds() *Problem {
	return &Problem{
		Type: "insufficient-funds", Title: "Insufficient funds", Status: http.StatusPaymentRequired,
		Retry: RetryNewKey,
		Detail: "The wallet does not hold that much; no money moved. This intent is over. " +
			"Another try, once the wallet holds enough, is a new intent and needs a new key.",
	}
}

// NotFound: 404; what is for example "payment".
func NotFound(what string) *Problem {
	return &Problem{
		Type: "not-found", Title: "Not found", Status: http.StatusNotFound, Retry: RetryFix,
		Detail: "There is no such " + what + " in this account. Nothing was run; correct the request.",
	}
}

// MethodNotAllowed: 405, naming the methods that are.
func MethodNotAllowed(allow ...string) *Problem {
	return &Problem{
		Type: "method-not-allowed", Title: "Method not allowed", Status: http.StatusMethodNotAllowed,
		Retry: RetryFix, Allow: allow,
		Detail: "This path does not know that method; the header Allow lists those it does. Nothing was run.",
	}
}

// TooLarge: 413; limit is in bytes.
func TooLarge(limit int64) *Problem {
	return &Problem{
		Type: "too-large", Title: "Body too large", Status: http.StatusRequestEntityTooLarge, Retry: RetryFix,
		Detail: fmt.Sprintf("The body is larger than %d bytes. Make it smaller; its key is not spent.", limit),
	}
}

// UnsupportedMediaType: 415, the body is not JSON.
func UnsupportedMediaType() *Problem {
	return &Problem{
		Type: "unsupported-media-type", Title: "Unsupported media type",
		Status: http.StatusUnsupportedMediaType, Retry: RetryFix,
		Detail: "Send the body as \"Content-Type: application/json\" in UTF-8, without a Content-Encoding. " +
			"Nothing was run.",
	}
}

// Misdirected: 421, the Host header names none of these hosts, the only ones
// that are served (RFC 9110, 15.5.20).
func Misdirected(hosts ...string) *Problem {
	return &Problem{
		Type: "misdirected", Title: "Misdirected request", Status: http.StatusMisdirectedRequest, Retry: RetryFix,
		Detail: "Only these hosts are served here: " + strings.Join(hosts, ", ") + ". Nothing was run.",
	}
}

// InFlight: 409, another attempt under this key is running.
func InFlight(after time.Duration) *Problem {
	n := seconds(after)
	return &Problem{
		Type: "in-flight", Title: "Still running", Status: http.StatusConflict, Retry: RetrySameKey, RetryAfter: n,
		Detail: fmt.Sprintf("An earlier request with this key is still running. Send the very same request again, "+
			"with the same key, after %s to get its outcome. Don't use a new key: it could do it twice.", wait(n)),
	}
}

// OrderBusy: 409, another key's payment for the order is unresolved or has
// succeeded; paymentID names it.
func OrderBusy(paymentID string) *Problem {
	return &Problem{
		Type: "order-busy", Title: "Order is being paid or paid", Status: http.StatusConflict, Retry: RetryNewKey,
		Detail: "Another payment for this orderId has succeeded or is not decided yet; nothing was charged now. " +
			"Look at that payment (paymentId) first, and only if it ends as failed send a new request with a new key.",
		PaymentID: paymentID,
	}
}

// Unresolved: 409, the request hangs on something whose outcome is not known
// yet. Set the id of what it hangs on, where there is one.
func Unresolved(after time.Duration) *Problem {
	n := seconds(after)
	return &Problem{
		Type: "unresolved", Title: "Outcome not known yet", Status: http.StatusConflict,
		Retry: RetrySameKey, RetryAfter: n,
		Detail: fmt.Sprintf("This request hangs on something whose outcome is not known yet: it may have happened. "+
			"Send the very same request again, with the same key, after %s. Don't use a new key: it could do it twice.",
			wait(n)),
	}
}

// KeyExpired: 409, the key's response is no longer kept; resource names what
// it made, "" if that is not known.
func KeyExpired(resource string) *Problem {
	made := "Look at what came of it"
	if resource != "" {
		made = fmt.Sprintf("It made %s: look at that", resource)
	}
	return &Problem{
		Type: "key-expired", Title: "Idempotency key expired", Status: http.StatusConflict, Retry: RetryNewKey,
		Detail: "The request under this key was finished earlier and its response is no longer kept; nothing was " +
			"run now. " + made + ", and use a new key only for a new intent.",
	}
}

// KeyReuse: 422, the key is bound to another request. rec is that request's
// record, so that the client learns how it stands; it may be zero.
func KeyReuse(rec onlyonce.Record) *Problem {
	return &Problem{
		Type: "key-reuse", Title: "Idempotency key reused", Status: http.StatusUnprocessableEntity,
		Retry: RetryNewKey,
		Detail: "This key is bound to another request (method, path, query or body differ); nothing was run now. " +
			standing(rec) + " A changed request is a new intent and needs a new key.",
	}
}

// standing says how the request that owns a key stands.
func standing(rec onlyonce.Record) string {
	const first = "Send it again, unchanged and with this key, to learn its outcome before you decide."
	switch {
	case rec.Status == onlyonce.InProgress && rec.Point == onlyonce.Unknown:
		return "The outcome of that request is not known yet: it may have happened. " + first
	case rec.Status == onlyonce.InProgress:
		return "That request is not finished yet. " + first
	case rec.Status == onlyonce.Tombstone:
		return "That request is finished; its response is no longer kept."
	case rec.Status != onlyonce.Completed || rec.Outcome == nil:
		return "Look at that request first."
	case rec.Outcome.Status == http.StatusPaymentRequired:
		return "That request is finished: it ended as a definite decline (402), no money moved."
	case rec.Outcome.Status < http.StatusMultipleChoices:
		return fmt.Sprintf("That request is finished: it succeeded (%d).", rec.Outcome.Status)
	}
	return fmt.Sprintf("That request is finished: it ended with status %d.", rec.Outcome.Status)
}

// OverRefund: 422; refundable is what could still be refunded, in minor units.
func OverRefund(paymentID string, refundable int64) *Problem {
	left := fmt.Sprintf("At most %d (minor units) of this payment can still be refunded; nothing was refunded now. "+
		"A smaller refund is a new intent and needs a new key.", refundable)
	if refundable == 0 {
		left = "Nothing of this payment is left to be refunded; nothing was refunded now. This intent is over; a new " +
			"one needs a new key, and something that is left."
	}
	return &Problem{
		Type: "over-refund", Title: "More than can be refunded", Status: http.StatusUnprocessableEntity,
		Retry: RetryNewKey, Detail: left, PaymentID: paymentID, Refundable: &refundable,
	}
}

// NotRefundable: 422, the payment has ended, or stands, in a way that leaves
// nothing to refund.
func NotRefundable(paymentID string) *Problem {
	return &Problem{
		Type: "not-refundable", Title: "Not refundable", Status: http.StatusUnprocessableEntity, Retry: RetryNewKey,
		Detail: "Only a payment that has succeeded can be refunded; nothing was " +
			"refunded now. Look at the payment; a later refund is a new intent and needs a new key.",
		PaymentID: paymentID,
	}
}

// WalletExists: 422, another key made a wallet of this id.
func WalletExists() *Problem {
	return &Problem{
		Type: "wallet-exists", Title: "Wallet exists", Status: http.StatusUnprocessableEntity, Retry: RetryNewKey,
		Detail: "A wallet with this id exists already; it was not changed. Use that wallet, or choose another id " +
			"and send it with a new key.",
	}
}

// RateLimited: 429, before anything was run.
func RateLimited(after time.Duration) *Problem {
	n := seconds(after)
	return &Problem{
		Type: "rate-limited", Title: "Too many requests", Status: http.StatusTooManyRequests,
		Retry: RetrySameKey, RetryAfter: n,
		Detail: fmt.Sprintf("Too many requests. Nothing was run; send the very same request again, with the same key, "+
			"after %s.", wait(n)),
	}
}

// Unavailable: 503, the store can't be reached and so nothing was run.
func Unavailable(after time.Duration) *Problem {
	n := seconds(after)
	return &Problem{
		Type: "unavailable", Title: "Unavailable", Status: http.StatusServiceUnavailable,
		Retry: RetrySameKey, RetryAfter: n,
		Detail: fmt.Sprintf("The store can't be reached, so nothing was run by this request. Send the very same "+
			"request again, with the same key, after %s.", wait(n)),
	}
}

func wait(n int) string {
	if n == 1 {
		return "1 second"
	}
	return fmt.Sprintf("%d seconds", n)
}

// FromError is the problem that an error of the engine is for a client. A
// *[Problem] inside err is returned as it is; an error that nobody foresaw is
// unavailable, and its text stays in the log.
func FromError(err error) *Problem { return FromDecision(onlyonce.Record{}, err) }

// FromDecision is [FromError] with the record that the engine's decision holds,
// so that the answer can say how the earlier request stands and what it made.
func FromDecision(rec onlyonce.Record, err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, onlyonce.ErrInvalidKey):
		return KeyInvalid(reason(err, onlyonce.ErrInvalidKey))
	case errors.Is(err, onlyonce.ErrMismatch):
		return KeyReuse(rec)
	case errors.Is(err, onlyonce.ErrInFlight), errors.Is(err, onlyonce.ErrFenced):
		return InFlight(inFlightAfter)
	case errors.Is(err, onlyonce.ErrUnknown):
		return Unresolved(unresolvedAfter)
	case errors.Is(err, onlyonce.ErrExpired):
		return KeyExpired(rec.Resource)
	}
	// Also ErrFingerprintVersion: another release must answer this one.
	return Unavailable(downAfter)
}
