package sandbox_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
)

// want is what a send gets: "200", "402 card_declined", "cut", "never" or
// "garbage"; with "replayed" when the key answered.
func say(a answer) string {
	if a.err != nil {
		return "cut"
	}
	text := http.StatusText(a.status)
	switch {
	case a.status == http.StatusOK && a.object.ID == "":
		text = "garbage"
	case a.object.Error.Code != "":
		text = a.object.Error.Code
	case a.object.Status != "":
		text = a.object.Status
	}
	if a.replayed {
		text += " replayed"
	}
	return text
}

var tokens = []struct {
	token string
	sends []string // what each send of the charge gets
	moved []int    // charges in the ledger after it
}{
	{"tok_ok", []string{"succeeded", "succeeded replayed"}, []int{1, 1}},
	{"anything else", []string{"succeeded", "succeeded replayed"}, []int{1, 1}},
	{"tok_declined", []string{"card_declined", "card_declined replayed"}, []int{0, 0}},
	{"tok_insufficient_funds", []string{"card_declined", "card_declined replayed"}, []int{0, 0}},
	{"tok_slow", []string{"succeeded", "succeeded replayed"}, []int{1, 1}},
	{"tok_error_charged", []string{"Internal Server Error", "Internal Server Error replayed"}, []int{1, 1}},
	{"tok_error_lost", []string{"Internal Server Error", "Internal Server Error replayed"}, []int{0, 0}},
	{"tok_reset_charged", []string{"cut", "succeeded replayed"}, []int{1, 1}},
	{"tok_garbage_charged", []string{"garbage", "succeeded replayed"}, []int{1, 1}},
	{
		"tok_busy",
		[]string{"idempotency_key_in_use", "idempotency_key_in_use", "succeeded", "succeeded replayed"},
		[]int{0, 0, 1, 1},
	},
}

func TestEachTokenChoosesTheFateOfTheFirstSend(t *testing.T) {
	for _, row := range tokens {
		t.Run(row.token, func(t *testing.T) {
			b := open(t, sandbox.Options{SlowBy: time.Millisecond})
			for i := range row.sends {
				if got := say(b.pay("k", row.token)); got != row.sends[i] {
					t.Errorf("send %d: %s, want %s", i+1, got, row.sends[i])
				}
				if got := b.moved("charge"); got != row.moved[i] {
					t.Errorf("after send %d: %d charges, want %d", i+1, got, row.moved[i])
				}
			}
		})
	}
}

func TestARefundMeetsTheFateOfItsCharge(t *testing.T) {
	rows := []struct {
		token string
		sends []string
		moved []int
	}{
		{"tok_ok", []string{"succeeded", "succeeded replayed"}, []int{1, 1}},
		{"tok_timeout_charged", nil, nil}, // a fate of charges; its refunds are well
		{"tok_refund_declined", []string{"failed", "failed replayed"}, []int{0, 0}},
		{"tok_refund_slow", []string{"succeeded", "succeeded replayed"}, []int{1, 1}},
		{"tok_refund_error_charged", []string{"Internal Server Error", "Internal Server Error replayed"}, []int{1, 1}},
		{"tok_refund_error_lost", []string{"Internal Server Error", "Internal Server Error replayed"}, []int{0, 0}},
		{"tok_refund_reset_charged", []string{"cut", "succeeded replayed"}, []int{1, 1}},
		{"tok_refund_garbage_charged", []string{"garbage", "succeeded replayed"}, []int{1, 1}},
		{
			"tok_refund_busy",
			[]string{"idempotency_key_in_use", "idempotency_key_in_use", "succeeded", "succeeded replayed"},
			[]int{0, 0, 1, 1},
		},
	}
	for _, row := range rows {
		t.Run(row.token, func(t *testing.T) {
			b := open(t, sandbox.Options{SlowBy: time.Millisecond})
			if row.sends == nil {
				b.never(func(ctx context.Context) answer { return b.payAs(ctx, "k", row.token) },
					func() bool { return b.moved("charge") == 1 })
				row.sends, row.moved = []string{"succeeded"}, []int{1}
			}
			charge := b.pay("k", row.token)
			if charge.status != http.StatusOK {
				t.Fatalf("the charge: %+v", charge)
			}
			for i := range row.sends {
				if got := say(b.refund("r", charge.object.ID, "1000")); got != row.sends[i] {
					t.Errorf("send %d: %s, want %s", i+1, got, row.sends[i])
				}
				if got := b.moved("refund"); got != row.moved[i] {
					t.Errorf("after send %d: %d refunds, want %d", i+1, got, row.moved[i])
				}
			}
		})
	}
}

func (b box) payAs(ctx context.Context, key, token string) answer {
	b.Helper()
	return b.do(ctx, http.MethodPost, "/v1/payment_intents", key, payment(token, "2500", "usd"))
}

func TestATimeoutAfterTheChargeReplaysIt(t *testing.T) {
	b := open(t, sandbox.Options{})
	b.never(func(ctx context.Context) answer { return b.payAs(ctx, "k", "tok_timeout_charged") },
		func() bool { return b.moved("charge") == 1 })
	a := b.pay("k", "tok_timeout_charged")
	if a.status != http.StatusOK || !a.replayed || b.moved("charge") != 1 {
		t.Errorf("the second send: %+v, %d charges", a, b.moved("charge"))
	}
}

func TestATimeoutWithoutAChargeIsChargedByTheSecondSend(t *testing.T) {
	b := open(t, sandbox.Options{})
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	first := make(chan answer, 1)
	go func() { first <- b.payAs(ctx, "k", "tok_timeout_lost") }()
	// Other bytes under the key are an error from the moment the first send is in.
	b.await(func() bool {
		return b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k", "").object.Error.Type == "idempotency_error"
	})
	if n := b.moved("charge"); n != 0 {
		t.Fatalf("the first send charged %d times", n)
	}
	for i, want := range []string{"succeeded", "succeeded replayed"} {
		if got := say(b.pay("k", "tok_timeout_lost")); got != want {
			t.Errorf("send %d: %s, want %s", i+2, got, want)
		}
	}
	if n := b.moved("charge"); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
	hangUp()
	if a := <-first; a.err == nil {
		t.Errorf("the first send was answered: %+v", a)
	}
}

func TestCloseLetsHeldConnectionsGo(t *testing.T) {
	b := open(t, sandbox.Options{})
	first := make(chan answer, 1)
	go func() { first <- b.pay("k", "tok_timeout_charged") }()
	b.await(func() bool { return b.moved("charge") == 1 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-first; a.err == nil {
		t.Errorf("it was answered: %+v", a)
	}
}

func TestDeclineCodes(t *testing.T) {
	b := open(t, sandbox.Options{})
	for token, want := range map[string]string{
		"tok_declined": "generic_decline", "tok_insufficient_funds": "insufficient_funds",
	} {
		a := b.pay(token, token)
		e := a.object.Error
		if a.status != http.StatusPaymentRequired || e.Type != "card_error" || e.DeclineCode != want {
			t.Errorf("%s: %+v", token, a)
		}
	}
}
