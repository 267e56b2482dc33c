package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const problemBase = "https://github.com/onlyonce-go/onlyonce/blob/main/docs/reference/problems.md#"

// reply is an answer of the server.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// resource is a payment, a refund or a problem, whichever the body is.
type resource struct {
	ID, OrderID, PaymentID, RefundID, State, Currency string
	Description, DeclineCode, ProviderID, Reason      string
	UnknownSince, NextCheckAt, CreatedAt, UpdatedAt   string
	Amount, Refunded                                  int64
	Refundable                                        *int64
	Livemode                                          *bool
	Metadata                                          map[string]string
	Type, Title, Detail, Retry                        string
	Status                                            int
	Errors                                            []struct{ Pointer, Detail string }
}

func (r reply) json() resource {
	r.t.Helper()
	var v resource
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("the body is not JSON: %v: %q", err, r.body)
	}
	return v
}

// wantStatus is want for a body that is none of these.
func (r reply) wantStatus(status int) {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
}

// want fails the test unless the status, and for a problem its type and retry,
// are these. It returns the body.
func (r reply) want(status int, problem ...string) resource {
	r.t.Helper()
	r.wantStatus(status)
	v := r.json()
	if len(problem) == 0 {
		return v
	}
	if v.Type != problemBase+problem[0] || v.Retry != problem[1] {
		r.t.Fatalf("problem %q with retry %q, want %q with %q: %s", v.Type, v.Retry, problem[0], problem[1], r.body)
	}
	switch {
	case r.header.Get("Content-Type") != "application/problem+json":
		r.t.Errorf("Content-Type %q of a problem", r.header.Get("Content-Type"))
	case v.Status != status || v.Title == "" || v.Detail == "":
		r.t.Errorf("the problem has status %d, title %q, detail %q", v.Status, v.Title, v.Detail)
	}
	if n, err := strconv.Atoi(r.header.Get("Retry-After")); v.Retry == "same-key" && (err != nil || n < 1) {
		r.t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
	}
	return v
}

// replayed reports whether the answer says that it is a replay.
func (r reply) replayed() bool { return r.header.Get("Idempotent-Replayed") == "true" }

// wantReplayOf fails the test unless this is the first answer given again.
func (r reply) wantReplayOf(first reply) {
	r.t.Helper()
	if r.status != first.status || !bytes.Equal(r.body, first.body) {
		r.t.Fatalf("got %d %s\nwant %d %s", r.status, r.body, first.status, first.body)
	}
	for _, name := range []string{"Content-Type", "Location", "Content-Length"} {
		if got, want := r.header.Get(name), first.header.Get(name); got != want {
			r.t.Errorf("%s is %q, at first it was %q", name, got, want)
		}
	}
	if !r.replayed() {
		r.t.Error("the replay does not say that it is one")
	}
	if first.replayed() || first.header.Get("Original-Request") != "" {
		r.t.Error("the first answer says that it is a replay")
	}
	if got, want := r.header.Get("Original-Request"), first.header.Get("Request-Id"); got != want {
		r.t.Errorf("Original-Request is %q, the first request was %q", got, want)
	}
	if r.header.Get("Request-Id") == first.header.Get("Request-Id") {
		r.t.Error("two requests have one Request-Id")
	}
}

// wantFault fails the test unless the problem has an error at the pointer.
func (v resource) wantFault(t *testing.T, pointer string) {
	t.Helper()
	for _, e := range v.Errors {
		if e.Pointer == pointer && e.Detail != "" {
			return
		}
	}
	t.Errorf("there is no error at %q in %v", pointer, v.Errors)
}

// count tells how often each status was answered.
func count(replies []reply) map[int]int {
	n := map[int]int{}
	for _, r := range replies {
		n[r.status]++
	}
	return n
}

// body1 is a payment of 10 USD without an orderId, body2 one of 20.
const (
	body1 = `{"amount":1000,"currency":"USD","paymentMethodToken":"tok_ok"}`
	body2 = `{"amount":2000,"currency":"USD","paymentMethodToken":"tok_ok"}`
)

// bodyWith is body1 with another token, and more members if they are given.
func bodyWith(token string, more ...string) string {
	return `{"amount":1000,"currency":"USD","paymentMethodToken":"` + token + `"` +
		strings.Join(append([]string{""}, more...), ",") + `}`
}
