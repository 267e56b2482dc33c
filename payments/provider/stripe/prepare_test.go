package stripe_test

import (
	"errors"
	"testing"

	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

// The bytes are a promise: a re-send after a restart, an upgrade or a restore
// must show the same. Never change these; a new Stripe-Version needs new ones.
const (
	goldenPayment = "amount=2500&currency=usd&payment_method=tok%261&payment_method_types%5B%5D=card&confirm=true" +
		"&error_on_requires_action=true&metadata%5Bonlyonce_payment%5D=pay_1&metadata%5Bonlyonce_account%5D=17" +
		"&metadata%5Border_id%5D=4+2"
	goldenRefund = "payment_intent=pi_1&amount=2500&metadata%5Bonlyonce_refund%5D=re_1&metadata%5Bonlyonce_account%5D=17"
)

func TestTheSameInstructionGivesTheSameBytes(t *testing.T) {
	c := open(t, stripe.Options{Version: "2024-01-01"})
	payment := payments.Instruction{
		Kind: payments.KindPayment, Account: "17", Resource: "pay_1", Amount: usd(2500), Method: "tok&1", OrderID: "4 2",
	}
	refund := payments.Instruction{
		Kind: payments.KindRefund, Account: "17", Resource: "re_1", Amount: usd(2500), Charge: "pi_1",
	}
	noOrder := payment
	noOrder.OrderID = ""
	for want, in := range map[string]payments.Instruction{
		goldenPayment: payment, goldenRefund: refund,
		goldenPayment[:len(goldenPayment)-len("&metadata%5Border_id%5D=4+2")]: noOrder,
	} {
		r, err := c.Prepare(t.Context(), in)
		if err != nil || string(r.Body) != want || r.Version != "2024-01-01" {
			t.Errorf("got %s %s, %v\nwant %s", r.Version, r.Body, err, want)
		}
	}
	for name, in := range map[string]payments.Instruction{
		"no method":      {Kind: payments.KindPayment, Account: "17", Resource: "pay_1", Amount: usd(1)},
		"no charge":      {Kind: payments.KindRefund, Account: "17", Resource: "re_1", Amount: usd(1)},
		"no resource":    {Kind: payments.KindPayment, Account: "17", Amount: usd(1), Method: "x"},
		"no account":     {Kind: payments.KindPayment, Resource: "pay_1", Amount: usd(1), Method: "x"},
		"no kind":        {Account: "17", Resource: "pay_1", Amount: usd(1), Method: "x"},
		"nothing to pay": {Kind: payments.KindPayment, Account: "17", Resource: "pay_1", Amount: usd(0), Method: "x"},
		"negative":       {Kind: payments.KindPayment, Account: "17", Resource: "pay_1", Amount: usd(-1), Method: "x"},
		"too much": {
			Kind: payments.KindPayment, Account: "17", Resource: "pay_1", Amount: usd(money.Max + 1), Method: "x",
		},
	} {
		if r, err := c.Prepare(t.Context(), in); err == nil {
			t.Errorf("%s: prepared %s", name, r.Body)
		}
	}
	strange := payment
	strange.Amount.Currency = "XXX"
	if _, err := c.Prepare(t.Context(), strange); !errors.Is(err, money.ErrCurrency) {
		t.Errorf("an unknown currency: %v", err)
	}
}
