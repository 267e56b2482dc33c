package httponce

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// problemBase is where a problem's type can be read; its name follows.
const problemBase = "https://github.com/onlyonce-go/onlyonce/blob/main/docs/reference/problems.md#"

const problemMedia = "application/problem+json"

// Retry tells a client its next move after a problem.
type Retry string

const (
	RetrySameKey Retry = "same-key" // send the very same request again, with the same key
	RetryNewKey  Retry = "new-key"  // this intent is over; a new try is a new intent
	RetryFix     Retry = "fix"      // correct the request; the key is not spent
)

// FieldError is one fault of a request's body.
type FieldError struct {
	Pointer string `json:"pointer"` // RFC 6901; "" is the whole body
	Detail  string `json:"detail"`
}

// Problem is an error as a client gets it (RFC 9457). Make one with the
// constructor of its type, add what it concerns, and [Problem.Write] it.
type Problem struct {
	Type   string // the short name, for example "in-flight"
	Title  string
	Status int
	Detail string // what happened and what to do next
	Retry  Retry

	RetryAfter int // seconds, for the header Retry-After; 0: none

	PaymentID   string
	RefundID    string
	TransferID  string
	DeclineCode string
	Refundable  *int64 // minor units
	Errors      []FieldError

	// Allow lists the methods that a method-not-allowed answer must name.
	Allow []string
}

// Error implements error, for logs.
func (p *Problem) Error() string {
	text := fmt.Sprintf("%d %s: %s", p.Status, p.Type, p.Detail)
	for _, e := range p.Errors {
		text += fmt.Sprintf(" [%q %s]", e.Pointer, e.Detail)
	}
	return text
}

// MarshalJSON writes the members of application/problem+json, the type as an
// absolute URI.
func (p *Problem) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type        string       `json:"type"`
		Title       string       `json:"title"`
		Status      int          `json:"status"`
		Detail      string       `json:"detail"`
		Retry       Retry        `json:"retry"`
		PaymentID   string       `json:"paymentId,omitempty"`
		RefundID    string       `json:"refundId,omitempty"`
		TransferID  string       `json:"transferId,omitempty"`
		DeclineCode string       `json:"declineCode,omitempty"`
		Refundable  *int64       `json:"refundable,omitempty"`
		Errors      []FieldError `json:"errors,omitempty"`
	}{
		problemBase + p.Type, p.Title, p.Status, p.Detail, p.Retry,
		p.PaymentID, p.RefundID, p.TransferID, p.DeclineCode, p.Refundable, p.Errors,
	})
}

// Outcome is the problem as it is stored under a key whose last word it is.
// Retry-After is never stored: it belongs to one moment.
func (p *Problem) Outcome() onlyonce.Outcome {
	body, err := json.Marshal(p)
	if err != nil {
		panic("httponce: a problem is strings and numbers, it always marshals: " + err.Error())
	}
	return onlyonce.Outcome{
		Status: p.Status,
		Header: map[string][]string{"Content-Type": {problemMedia}},
		Body:   body,
	}
}

// Write answers a request with the problem. It is for answers that are not
// stored; a stored one goes through [WriteOutcome].
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if len(p.Allow) > 0 {
		h.Set("Allow", strings.Join(p.Allow, ", "))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	WriteOutcome(w, p.Outcome(), false)
}

// seconds rounds up to the whole seconds that Retry-After can say, at least 1.
func seconds(d time.Duration) int {
	return max(1, int((d+time.Second-1)/time.Second))
}
