package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestSameRequest: what does not change the meaning of a request does not make
// another of it (case 15).
func TestSameRequest(t *testing.T) {
	w := newWorld(t, setup{})
	first := w.send(pay("K", bodyWith("tok_ok", `"metadata":{"a":"1","b":"é"}`)))
	first.want(http.StatusCreated)
	for _, body := range []string{
		`{"metadata":{"b":"é","a":"1"},"paymentMethodToken":"tok_ok","currency":"USD","amount":1000}`,
		" {\n\t\"amount\" : 1000 , \"currency\":\"USD\",\r\n\"paymentMethodToken\":\"tok_ok\", " +
			"\"metadata\":{\"a\":\"1\",\"b\":\"é\"} } ",
		`{"\u0061mount":1000,"currency":"\u0055SD","paymentMethodToken":"tok_ok","metadata":{"a":"1","b":"\u00e9"}}`,
	} {
		w.send(pay("K", body)).wantReplayOf(first)
	}
	w.wantMoved("charge 1000 usd")
}

// TestOtherRequest: what does make another of it gets 422 at once, on the path
// of a finished key, and the stored answer stays (cases 13, 21, 23, 25, 27).
func TestOtherRequest(t *testing.T) {
	w := newWorld(t, setup{})
	first := w.send(pay("K", bodyWith("tok_ok", `"description":"é"`)))
	p := first.want(http.StatusCreated)
	other := w.send(pay("other", body1)).want(http.StatusCreated)
	query := pay("K", bodyWith("tok_ok", `"description":"é"`))
	query.Path += "?x=1"
	for name, c := range map[string]call{
		"amount":        pay("K", strings.Replace(bodyWith("tok_ok", `"description":"é"`), "1000", "1001", 1)),
		"no member":     pay("K", body1),
		"normalisation": pay("K", bodyWith("tok_ok", `"description":"e\u0301"`)),
		"query":         query,
		"refund":        refund(p.ID, "K", `{}`),
	} {
		v := w.send(c).want(http.StatusUnprocessableEntity, "key-reuse", "new-key")
		if v.PaymentID != p.ID {
			t.Errorf("%s: the problem names %q", name, v.PaymentID)
		}
	}
	w.send(first.again()).wantReplayOf(first) // nothing was poisoned
	w.wantMoved("charge 1000 usd", "charge 1000 usd")
	back := w.send(refund(p.ID, "R", `{"amount":1}`))
	back.want(http.StatusCreated)
	// A key of a refund belongs to its payment too.
	w.send(refund(other.ID, "R", `{"amount":1}`)).want(http.StatusUnprocessableEntity, "key-reuse", "new-key")
	w.send(pay("R", body1)).want(http.StatusUnprocessableEntity, "key-reuse", "new-key")
	w.send(refund(p.ID, "R", `{"amount":1}`)).wantReplayOf(back)
}

// again is the call that TestOtherRequest made first.
func (r reply) again() call { return pay("K", bodyWith("tok_ok", `"description":"é"`)) }

// TestTwoKeysAreTwoIntents: the same body under another key is another payment
// (case 27), and another account's key is another key (case 11).
func TestTwoKeysAreTwoIntents(t *testing.T) {
	w := newWorld(t, setup{})
	b := pay("K", body1)
	b.APIKey = keyB
	ids := map[string]bool{}
	for _, c := range []call{pay("K", body1), pay("K2", body1), b} {
		r := w.send(c)
		ids[r.want(http.StatusCreated).ID] = true
		if r.replayed() {
			t.Error("a first answer says that it is a replay")
		}
	}
	if len(ids) != 3 {
		t.Errorf("three intents made %v", ids)
	}
	w.wantMoved("charge 1000 usd", "charge 1000 usd", "charge 1000 usd")
	// Each sees only its own.
	mine := w.send(pay("K", body1)).want(http.StatusCreated)
	theirs := get("/payments/" + mine.ID)
	theirs.APIKey = keyB
	w.send(theirs).want(http.StatusNotFound, "not-found", "fix")
	foreign := refund(mine.ID, "R", `{}`)
	foreign.APIKey = keyB
	w.send(foreign).want(http.StatusNotFound, "not-found", "fix")
	w.send(foreign).want(http.StatusNotFound, "not-found", "fix") // it is not stored
	w.wantMoved("charge 1000 usd", "charge 1000 usd", "charge 1000 usd")
}

// TestInFlight: while a request runs its twin gets 409 with the advice to keep
// its key (case 88), and another request under the key 422 at once (case 24).
func TestInFlight(t *testing.T) {
	w := newWorld(t, setup{})
	g := w.hold()
	first := w.later(pay("K", body1))
	within(t, g.arrived)
	v := w.send(pay("K", body1)).want(http.StatusConflict, "in-flight", "same-key")
	if !strings.Contains(v.Detail, "same key") || !strings.Contains(v.Detail, "second") {
		t.Errorf("the detail does not say what to do and when: %s", v.Detail)
	}
	if v.PaymentID == "" {
		t.Error("the problem does not name the payment")
	}
	w.send(pay("K", body2)).want(http.StatusUnprocessableEntity, "key-reuse", "new-key")
	w.send(pay("K", `{}`)).want(http.StatusBadRequest, "invalid-request", "fix")
	if got := w.send(get("/payments/" + v.PaymentID)).want(http.StatusOK); got.State != "processing" {
		t.Errorf("the state is %s", got.State)
	}
	w.open(g)
	done := within(t, first)
	done.want(http.StatusCreated)
	w.send(pay("K", body1)).wantReplayOf(done)
	w.wantMoved("charge 1000 usd")
}

// TestDeclineIsFinal: a decline is stored, replayed, and explained to whoever
// changes the payment method under the same key (cases 26, 68b).
func TestDeclineIsFinal(t *testing.T) {
	w := newWorld(t, setup{})
	for token, code := range map[string]string{
		"tok_declined": "card_declined", "tok_insufficient_funds": "insufficient_funds",
	} {
		t.Run(token, func(t *testing.T) {
			first := w.send(pay(token, bodyWith(token)))
			v := first.want(http.StatusPaymentRequired, "declined", "new-key")
			if v.DeclineCode != code || v.PaymentID == "" {
				t.Errorf("the problem is %s", first.body)
			}
			w.send(pay(token, bodyWith(token))).wantReplayOf(first)
			reuse := w.send(pay(token, bodyWith("tok_ok"))).want(http.StatusUnprocessableEntity, "key-reuse", "new-key")
			for _, words := range []string{"finished", "definite decline", "new key"} {
				if !strings.Contains(reuse.Detail, words) {
					t.Errorf("the detail does not say %q: %s", words, reuse.Detail)
				}
			}
			p := w.send(get("/payments/" + v.PaymentID)).want(http.StatusOK)
			if p.State != "failed" || p.DeclineCode != code || *p.Refundable != 0 {
				t.Errorf("the payment is %+v", p)
			}
			w.send(refund(v.PaymentID, "R"+token, `{}`)).
				want(http.StatusUnprocessableEntity, "not-refundable", "new-key")
		})
	}
	w.wantMoved()
}

// TestPaymentBody holds a payment to its documented members and their order.
func TestPaymentBody(t *testing.T) {
	w := newWorld(t, setup{})
	r := w.send(pay("K", `{"orderId":"42","amount":2500,"currency":"USD","paymentMethodToken":"token-9",`+
		`"description":"<b> & \"q\"","metadata":{"cart":"7"}}`))
	v := r.want(http.StatusCreated)
	want := fmt.Sprintf(`{"id":%q,"orderId":"42","amount":2500,"currency":"USD","state":"succeeded","refunded":0,`+
		`"refundable":2500,"livemode":false,"description":"\u003cb\u003e \u0026 \"q\"","metadata":{"cart":"7"},`+
		`"providerId":%q,"createdAt":%q,"updatedAt":%q}`, v.ID, v.ProviderID, v.CreatedAt, v.UpdatedAt)
	if string(r.body) != want {
		t.Errorf("got  %s\nwant %s", r.body, want)
	}
	if r.header.Get("Location") != "/payments/"+v.ID || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("the headers are %v", r.header)
	}
	if read := w.send(get(r.header.Get("Location"))); string(read.body) != want {
		t.Errorf("it reads as %s", read.body)
	}
	if m := w.ledger()[0]; m.Metadata["onlyonce_payment"] != v.ID || m.Metadata["order_id"] != "42" {
		t.Errorf("the provider was told %v", m.Metadata)
	}
	for _, secret := range []string{"token-9", keyA, "Bearer", "cart"} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("%q stands in the log", secret)
		}
	}
}
