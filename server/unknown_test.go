package server_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

// impatient is a world whose provider calls end soon.
func impatient(t *testing.T) *world {
	return newWorld(t, setup{providerTimeout: time.Second})
}

// TestUnknownPayment: whatever the provider does, what is not proved is 202,
// never a failure and never a 5xx (case 91), and its key's last word comes once
// there is proof.
func TestUnknownPayment(t *testing.T) {
	for _, token := range []string{
		"tok_timeout_charged", "tok_timeout_lost", "tok_error_charged", "tok_reset_charged", "tok_garbage_charged",
		"tok_busy",
	} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			w := impatient(t)
			first := w.send(pay("K", bodyWith(token, `"orderId":"42"`)))
			p := first.want(http.StatusAccepted)
			if p.State != "pending_unknown" || p.UnknownSince == "" || p.NextCheckAt == "" {
				t.Errorf("the payment is %s", first.body)
			}
			if first.header.Get("Location") != "/payments/"+p.ID || first.replayed() {
				t.Errorf("the headers are %v", first.header)
			}
			if n, err := strconv.Atoi(first.header.Get("Retry-After")); err != nil || n < 1 || n > 2 {
				t.Errorf("Retry-After is %q, the next check %s", first.header.Get("Retry-After"), p.NextCheckAt)
			}
			if again := w.send(pay("K", bodyWith(token, `"orderId":"42"`))).want(http.StatusAccepted); again.ID != p.ID {
				t.Errorf("the retry made %s, the first %s", again.ID, p.ID)
			}
			if read := w.send(get("/payments/" + p.ID)).want(http.StatusOK); read.State != "pending_unknown" {
				t.Errorf("it reads as %s", read.State)
			}
			w.send(pay("K", body2)).want(http.StatusUnprocessableEntity, "key-reuse", "new-key")
			busy := w.send(pay("K2", bodyWith("tok_ok", `"orderId":"42"`))).want(http.StatusConflict, "order-busy", "new-key")
			if busy.PaymentID != p.ID {
				t.Errorf("the order is held by %s", busy.PaymentID)
			}
			w.send(refund(p.ID, "R", `{}`)).want(http.StatusConflict, "unresolved", "same-key")
			for range 4 {
				w.sweep(10 * time.Second)
			}
			last := w.send(pay("K", bodyWith(token, `"orderId":"42"`)))
			if v := last.want(http.StatusCreated); v.ID != p.ID || v.State != "succeeded" || !last.replayed() {
				t.Errorf("the last word is %s", last.body)
			}
			if got, want := last.header.Get("Original-Request"), first.header.Get("Request-Id"); got != want {
				t.Errorf("Original-Request is %q, the first request was %q", got, want)
			}
			w.send(refund(p.ID, "R", `{}`)).want(http.StatusCreated) // its key was not spent
			w.wantMoved("charge 1000 usd", "refund 1000 usd")
		})
	}
}

// TestUnknownRefund: its room stays taken until there is proof.
func TestUnknownRefund(t *testing.T) {
	w := impatient(t)
	p := w.send(pay("P", bodyWith("tok_refund_timeout_charged"))).want(http.StatusCreated)
	first := w.send(refund(p.ID, "R", `{"amount":600}`))
	v := first.want(http.StatusAccepted)
	if v.State != "pending_unknown" || first.header.Get("Location") != "/refunds/"+v.ID || v.PaymentID != p.ID {
		t.Errorf("the refund is %s", first.body)
	}
	if got := w.send(get("/payments/" + p.ID)).want(http.StatusOK); got.Refunded != 0 || *got.Refundable != 400 {
		t.Errorf("refunded %d, refundable %d", got.Refunded, *got.Refundable)
	}
	w.send(refund(p.ID, "R2", `{"amount":600}`)).want(http.StatusConflict, "unresolved", "same-key")
	w.send(refund(p.ID, "R3", `{"amount":1001}`)).want(http.StatusUnprocessableEntity, "over-refund", "new-key")
	for range 3 {
		w.sweep(10 * time.Second)
	}
	w.send(refund(p.ID, "R", `{"amount":600}`)).want(http.StatusCreated)
	w.send(refund(p.ID, "R2", `{"amount":600}`)).want(http.StatusUnprocessableEntity, "over-refund", "new-key")
	w.wantMoved("charge 1000 usd", "refund 600 usd")
	if got := w.send(get("/refunds/" + v.ID)).want(http.StatusOK); got.State != "succeeded" {
		t.Errorf("it reads as %s", got.State)
	}
}

// TestReview: what only a person can decide is 202 as well, and says when to
// ask again although no check is planned.
func TestReview(t *testing.T) {
	w := newWorld(t, setup{provider: func(inner providerOf) providerOf {
		return answering{inner, payments.Answer{Kind: payments.AnswerConflict, ProviderID: "pi_1"}, nil}
	}})
	for range 2 {
		r := w.send(pay("K", body1))
		if v := r.want(http.StatusAccepted); v.State != "review" || r.header.Get("Retry-After") != "60" {
			t.Errorf("%s, Retry-After %s", v.State, r.header.Get("Retry-After"))
		}
	}
}
