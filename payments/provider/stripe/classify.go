package stripe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/onlyonce-go/onlyonce/payments"
)

// object is what is read of a payment intent or a refund.
type object struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	Amount         int64             `json:"amount"`
	AmountReceived *int64            `json:"amount_received"` // payment intents only
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	Metadata       map[string]string `json:"metadata"`
	PaymentIntent  string            `json:"payment_intent"` // refunds only
	FailureReason  string            `json:"failure_reason"` // refunds only
	LastError      *problem          `json:"last_payment_error"`
}

// problem is what is read of an error. Its message is not: it can quote the
// token that was sent.
type problem struct {
	Type        string `json:"type"`
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	Intent      object `json:"payment_intent"` // what the declined send left behind
}

// name is the most telling code of the problem. "generic_decline" says less
// than the code beside it.
func (p problem) name() string {
	if p.DeclineCode != "" && p.DeclineCode != "generic_decline" {
		return word(p.DeclineCode)
	}
	return word(cmp.Or(p.Code, p.DeclineCode, p.Type))
}

// The codes that decide beside the status.
const (
	codeKeyInUse       = "idempotency_key_in_use"
	codeLockTimeout    = "lock_timeout"
	codeMissing        = "resource_missing"
	typeIdempotencyErr = "idempotency_error"
)

// classify is the table "what the provider's answer means", for the answer to
// a send. It goes by status and code; the type alone decides nothing but that
// a 400 is about the key. An error that is not in the provider's own format
// came from something in between and proves nothing.
func classify(d payments.Dispatch, r reply) payments.Answer {
	if r.status >= 200 && r.status < 300 {
		o, ok := r.object()
		if !ok {
			return r.answer(payments.AnswerMaybe, "the answer can't be read")
		}
		return judge(d, o, r)
	}
	p, ok := r.problem()
	code := p.name()
	if !ok {
		code = "an answer that is not the provider's"
	}
	a := r.answer(payments.AnswerMaybe, code)
	if ok {
		a.Code = code
		a.Kind = kindOf(r.status, p)
	}
	switch {
	case r.status >= 500 && r.replayed:
		a.Kind = payments.AnswerPinned
	case a.Kind == payments.AnswerFailed && contradicts(d, p.Intent):
		a.Kind, a.Detail = payments.AnswerConflict, a.Detail+", beside an object that says otherwise"
	case a.Kind == payments.AnswerFailed:
		a.ProviderID = word(p.Intent.ID)
	}
	return a
}

// contradicts reports whether the object beside a decline is another's, or is
// not declined at all.
func contradicts(d payments.Dispatch, o object) bool {
	if d.Kind != payments.KindPayment || o.ID == "" {
		return false
	}
	ref, given := o.Metadata[metaPayment]
	kind := statuses[d.Kind][o.Status]
	return given && ref != d.Resource || kind == payments.AnswerSucceeded || kind == payments.AnswerProcessing
}

// kindOf maps an error in the provider's format.
func kindOf(status int, p problem) payments.AnswerKind {
	switch status {
	case http.StatusBadRequest:
		if p.Type == typeIdempotencyErr {
			return payments.AnswerKeyMisused
		}
		return payments.AnswerRejected
	case http.StatusNotFound:
		return payments.AnswerRejected
	case http.StatusUnauthorized, http.StatusForbidden:
		return payments.AnswerUnauthorized
	case http.StatusPaymentRequired:
		return payments.AnswerFailed
	case http.StatusConflict:
		switch p.Code {
		case codeKeyInUse:
			return payments.AnswerKeyInUse
		case codeLockTimeout:
			return payments.AnswerRateLimited
		}
	case http.StatusTooManyRequests:
		return payments.AnswerRateLimited
	}
	return payments.AnswerMaybe
}

// object reads a single object; one without a usable id can't be read.
func (r reply) object() (object, bool) {
	var o object
	err := json.Unmarshal(r.body, &o)
	return o, err == nil && word(o.ID) != ""
}

func (r reply) problem() (problem, bool) {
	var body struct {
		Error *problem `json:"error"`
	}
	if json.Unmarshal(r.body, &body) != nil || body.Error == nil {
		return problem{}, false
	}
	return *body.Error, body.Error.Type != "" || body.Error.Code != ""
}

func (r reply) answer(kind payments.AnswerKind, what string) payments.Answer {
	detail := fmt.Sprintf("status %d, %s", r.status, cmp.Or(what, "no code"))
	if r.replayed {
		detail += ", replayed"
	}
	if r.requestID != "" {
		detail += ", provider request " + r.requestID
	}
	return payments.Answer{Kind: kind, Detail: detail}
}

// statuses is the status map of payment intents and refunds; what it lacks is
// a conflict, for a person.
var statuses = map[payments.Kind]map[string]payments.AnswerKind{
	payments.KindPayment: {
		"succeeded":               payments.AnswerSucceeded,
		"processing":              payments.AnswerProcessing,
		"requires_payment_method": payments.AnswerFailed,
		"canceled":                payments.AnswerFailed,
	},
	payments.KindRefund: {
		"succeeded":       payments.AnswerSucceeded,
		"pending":         payments.AnswerProcessing,
		"requires_action": payments.AnswerProcessing,
		"failed":          payments.AnswerFailed,
		"canceled":        payments.AnswerFailed,
	},
}

// judge compares an object with what was sent, and maps its status.
func judge(d payments.Dispatch, o object, r reply) payments.Answer {
	a := r.answer(statuses[d.Kind][o.Status], cmp.Or(word(o.Status), "no status"))
	if !isOurs(d, o) {
		// Its id is not ours to keep: the object belongs to something else.
		return r.answer(payments.AnswerConflict, "object "+word(o.ID)+" has another reference or kind")
	}
	a.ProviderID = word(o.ID)
	got, ok := fromWire(o.Amount, o.Currency)
	switch {
	case !ok || got != d.Amount:
		a.Kind, a.Detail = payments.AnswerConflict, a.Detail+", another amount or currency"
	case a.Kind == "":
		a.Kind, a.Detail = payments.AnswerConflict, a.Detail+", an unknown status"
	case a.Kind == payments.AnswerSucceeded && o.AmountReceived != nil && *o.AmountReceived != o.Amount:
		a.Kind, a.Detail = payments.AnswerConflict, a.Detail+", another amount was received"
	case a.Kind == payments.AnswerFailed:
		a.Code = word(cmp.Or(o.FailureReason, o.Status))
		if o.LastError != nil {
			a.Code = cmp.Or(o.LastError.name(), a.Code)
		}
	}
	return a
}

// isOurs reports whether the object carries our reference.
func isOurs(d payments.Dispatch, o object) bool {
	switch d.Kind {
	case payments.KindPayment:
		return o.Object == "payment_intent" && o.Metadata[metaPayment] == d.Resource
	case payments.KindRefund:
		charge := chargeOf(d)
		return o.Object == "refund" && o.Metadata[metaRefund] == d.Resource &&
			(charge == "" || o.PaymentIntent == charge)
	}
	return false
}

// chargeOf is the provider's id of the payment that a refund's request names,
// or "" once the request is blanked.
func chargeOf(d payments.Dispatch) string {
	values, err := url.ParseQuery(string(d.Request.Body))
	if err != nil {
		return ""
	}
	return values.Get("payment_intent")
}
