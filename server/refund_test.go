package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func amountOf(n int64, currency string) string {
	return fmt.Sprintf(`{"amount":%d,"currency":%q,"paymentMethodToken":"tok_ok"}`, n, currency)
}

// TestRefundsAddUp: 60, then 40, then 1 on 100 (case 98d).
func TestRefundsAddUp(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("P", amountOf(100, "USD"))).want(http.StatusCreated)
	first := w.send(refund(p.ID, "R1", `{"amount":60,"reason":"broken"}`))
	v := first.want(http.StatusCreated)
	want := fmt.Sprintf(`{"id":%q,"paymentId":%q,"amount":60,"currency":"USD","state":"succeeded","livemode":false,`+
		`"reason":"broken","providerId":%q,"createdAt":%q,"updatedAt":%q}`,
		v.ID, p.ID, v.ProviderID, v.CreatedAt, v.UpdatedAt)
	if string(first.body) != want || first.header.Get("Location") != "/refunds/"+v.ID {
		t.Errorf("got  %s\nwant %s", first.body, want)
	}
	if read := w.send(get("/refunds/" + v.ID)); string(read.body) != want {
		t.Errorf("it reads as %s", read.body)
	}
	over := w.send(refund(p.ID, "R2", `{"amount":41}`))
	v = over.want(http.StatusUnprocessableEntity, "over-refund", "new-key")
	if *v.Refundable != 40 || v.PaymentID != p.ID {
		t.Errorf("the problem is %s", over.body)
	}
	w.send(refund(p.ID, "R3", `{"amount":40}`)).want(http.StatusCreated)
	last := w.send(refund(p.ID, "R4", `{"amount":1}`)).want(http.StatusUnprocessableEntity, "over-refund", "new-key")
	if *last.Refundable != 0 {
		t.Errorf("refundable is %d", *last.Refundable)
	}
	w.send(refund(p.ID, "R2", `{"amount":41}`)).wantReplayOf(over) // its key's last word, though the room is another now
	if r := w.send(refund(p.ID, "R5", `{}`)); r.status != http.StatusUnprocessableEntity {
		t.Errorf("all of nothing was refunded: %d %s", r.status, r.body)
	}
	w.wantMoved("charge 100 usd", "refund 60 usd", "refund 40 usd")
	got := w.send(get("/payments/" + p.ID)).want(http.StatusOK)
	if got.Refunded != 100 || *got.Refundable != 0 || got.State != "succeeded" {
		t.Errorf("the payment is %+v", got)
	}
}

// TestRefundsThatCannotBe: nothing moves (case 98c).
func TestRefundsThatCannotBe(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("P", amountOf(100, "USD"))).want(http.StatusCreated)
	for i, amount := range []string{"-1", "0", "9223372036854775807", "9223372036854775808", "999999999999", "101"} {
		r := w.send(refund(p.ID, fmt.Sprint("R", i), `{"amount":`+amount+`}`))
		if r.status != http.StatusBadRequest && r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", amount, r.status, r.body)
		}
	}
	w.send(refund(p.ID, "S1", `{"amount":99}`)).want(http.StatusCreated)
	w.send(refund(p.ID, "S2", `{"amount":999999999999}`)).want(http.StatusUnprocessableEntity, "over-refund", "new-key")
	for _, id := range []string{
		"pay_" + strings.Repeat("a", 26), "x", "re_x", "..", "%00", "pay_%00", strings.Repeat("p", 300),
	} {
		w.send(refund(id, "N", `{}`)).want(http.StatusNotFound, "not-found", "fix")
	}
	w.wantMoved("charge 100 usd", "refund 99 usd")
}

// TestCurrencies: out and back in every number of decimals, judged by the
// provider's own ledger (cases 98g, 98h).
func TestCurrencies(t *testing.T) {
	w := newWorld(t, setup{})
	var want []string
	for _, currency := range []string{"JPY", "KRW", "USD", "KWD", "CLP"} {
		p := w.send(pay("P"+currency, amountOf(100, currency))).want(http.StatusCreated)
		if p.Amount != 100 || p.Currency != currency {
			t.Errorf("100 %s came back as %d %s", currency, p.Amount, p.Currency)
		}
		w.send(refund(p.ID, "R"+currency, `{"amount":30}`)).want(http.StatusCreated)
		w.send(refund(p.ID, "S"+currency, `{}`)).want(http.StatusCreated)
		low := strings.ToLower(currency)
		want = append(want, "charge 100 "+low, "refund 30 "+low, "refund 70 "+low)
	}
	w.wantMoved(want...)
}

// TestOrderIsFreed by a failed payment and by a full refund, not by a part.
func TestOrderIsFreed(t *testing.T) {
	w := newWorld(t, setup{})
	order := `"orderId":"42"`
	w.send(pay("K1", bodyWith("tok_declined", order))).want(http.StatusPaymentRequired, "declined", "new-key")
	p := w.send(pay("K2", bodyWith("tok_ok", order))).want(http.StatusCreated)
	busy := w.send(pay("K3", bodyWith("tok_ok", order)))
	if v := busy.want(http.StatusConflict, "order-busy", "new-key"); v.PaymentID != p.ID {
		t.Errorf("the problem names %q", v.PaymentID)
	}
	w.send(refund(p.ID, "R1", `{"amount":999}`)).want(http.StatusCreated)
	w.send(pay("K4", bodyWith("tok_ok", order))).want(http.StatusConflict, "order-busy", "new-key")
	w.send(refund(p.ID, "R2", `{}`)).want(http.StatusCreated)
	w.send(pay("K5", bodyWith("tok_ok", order))).want(http.StatusCreated)
	w.send(pay("K3", bodyWith("tok_ok", order))).wantReplayOf(busy) // the world has changed, its last word has not
	w.wantMoved("charge 1000 usd", "refund 999 usd", "refund 1 usd", "charge 1000 usd")
}

// TestDeclinedRefund is 402, gives its room back, and is its key's last word.
func TestDeclinedRefund(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("P", bodyWith("tok_refund_declined"))).want(http.StatusCreated)
	first := w.send(refund(p.ID, "R", `{"amount":600}`))
	v := first.want(http.StatusPaymentRequired, "declined", "new-key")
	if v.RefundID == "" || v.PaymentID != p.ID || v.DeclineCode == "" {
		t.Errorf("the problem is %s", first.body)
	}
	w.send(refund(p.ID, "R", `{"amount":600}`)).wantReplayOf(first)
	if v := w.timeline(p.ID); v.Replays != 0 {
		t.Errorf("the refund's replay was counted on the payment: %d", v.Replays)
	}
	if got := w.send(get("/payments/" + p.ID)).want(http.StatusOK); got.Refunded != 0 || *got.Refundable != 1000 {
		t.Errorf("refunded %d, refundable %d", got.Refunded, *got.Refundable)
	}
	if got := w.send(get("/refunds/" + v.RefundID)).want(http.StatusOK); got.State != "failed" {
		t.Errorf("the refund is %s", got.State)
	}
	w.wantMoved("charge 1000 usd")
}
