package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestFiftyAtOnce: of simultaneous identical requests one runs; the others get
// 409 or the replay, never a 5xx (cases 30, 32).
func TestFiftyAtOnce(t *testing.T) {
	w := newWorld(t, setup{})
	calls := make([]call, 50)
	for i := range calls {
		calls[i] = pay("K", body1)
	}
	replies := w.together(calls...)
	var first reply
	for _, r := range replies {
		if r.status == http.StatusCreated && !r.replayed() {
			first = r
		}
	}
	if first.t == nil {
		t.Fatalf("nobody's request ran: %v", count(replies))
	}
	for _, r := range replies {
		switch {
		case r.status == http.StatusConflict:
			r.want(http.StatusConflict, "in-flight", "same-key")
		case r.header.Get("Request-Id") != first.header.Get("Request-Id"):
			r.wantReplayOf(first)
		}
	}
	w.wantMoved("charge 1000 usd")
}

// TestTwentyKeysForOneOrder: an order is paid once, whoever tries.
func TestTwentyKeysForOneOrder(t *testing.T) {
	w := newWorld(t, setup{})
	calls := make([]call, 20)
	for i := range calls {
		calls[i] = pay(fmt.Sprint("K", i), bodyWith("tok_ok", `"orderId":"42"`))
	}
	replies := w.together(calls...)
	if n := count(replies); n[http.StatusCreated] != 1 || n[http.StatusConflict] != 19 {
		t.Fatalf("the answers are %v", n)
	}
	w.wantMoved("charge 1000 usd")
	paid := w.ledger()[0].Metadata["onlyonce_payment"]
	for i, r := range replies {
		if r.status != http.StatusConflict {
			continue
		}
		if v := r.want(http.StatusConflict, "order-busy", "new-key"); v.PaymentID != paid {
			t.Errorf("the problem names %q, paid is %q", v.PaymentID, paid)
		}
		w.send(calls[i]).wantReplayOf(r) // its key's last word
	}
	// Another order and another account are others.
	b := pay("K", bodyWith("tok_ok", `"orderId":"42"`))
	b.APIKey = keyB
	w.send(b).want(http.StatusCreated)
	w.send(pay("X", bodyWith("tok_ok", `"orderId":"43"`))).want(http.StatusCreated)
}

// TestSlowProviderAndImpatientUser: three tries with one key are one debit
// (case 83), also when the client is told to wait for it.
func TestSlowProviderAndImpatientUser(t *testing.T) {
	w := newWorld(t, setup{slowBy: 300 * time.Millisecond})
	c := pay("K", bodyWith("tok_slow")).with("Prefer", "wait=20")
	replies := w.together(c, c, c)
	if n := count(replies); n[http.StatusCreated] != 3 {
		t.Fatalf("the answers are %v", n)
	}
	replays := 0
	for _, r := range replies {
		if r.replayed() {
			replays++
		}
		if string(r.body) != string(replies[0].body) {
			t.Errorf("the answers differ: %s, %s", r.body, replies[0].body)
		}
	}
	if replays != 2 {
		t.Errorf("%d of 3 are replays", replays)
	}
	w.wantMoved("charge 1000 usd")
}

// TestRefundsAtOnce: two refunds of 60 on 100 never give back more than 100
// (case 98a).
func TestRefundsAtOnce(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("P", `{"amount":100,"currency":"USD","paymentMethodToken":"tok_ok"}`)).want(http.StatusCreated)
	replies := w.together(refund(p.ID, "R1", `{"amount":60}`), refund(p.ID, "R2", `{"amount":60}`))
	n := count(replies)
	for _, r := range replies {
		// The second may meet the first while its outcome is not known yet.
		if r.status != http.StatusCreated && r.status != http.StatusUnprocessableEntity {
			t.Errorf("an answer is %d %s", r.status, r.body)
		}
	}
	if n[http.StatusCreated] != 1 {
		t.Errorf("the answers are %v", n)
	}
	w.wantMoved("charge 100 usd", "refund 60 usd")
	if got := w.send(get("/payments/" + p.ID)).want(http.StatusOK); got.Refunded != 60 || *got.Refundable != 40 {
		t.Errorf("refunded %d, refundable %d", got.Refunded, *got.Refundable)
	}
}
