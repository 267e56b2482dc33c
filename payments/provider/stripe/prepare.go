package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
)

// The names under which our words stand in the provider's metadata.
const (
	metaPayment = "onlyonce_payment"
	metaRefund  = "onlyonce_refund"
	metaAccount = "onlyonce_account"
	metaOrder   = "order_id"
)

// Prepare puts an instruction into form bytes. The order of the members is
// fixed, because a re-send must show the same bytes after any crash and
// release. The error says what the provider can't take; nothing was sent.
func (c *Client) Prepare(_ context.Context, in payments.Instruction) (payments.Request, error) {
	amount, err := toWire(in.Amount)
	if err != nil {
		return payments.Request{}, err
	}
	if in.Resource == "" || in.Account == "" {
		return payments.Request{}, errors.New("stripe: an instruction needs its resource and account")
	}
	var f form
	switch in.Kind {
	case payments.KindPayment:
		if in.Method == "" {
			return payments.Request{}, errors.New("stripe: a payment needs a payment method")
		}
		f.add("amount", strconv.FormatInt(amount, 10))
		f.add("currency", strings.ToLower(string(in.Amount.Currency)))
		f.add("payment_method", in.Method)
		// Without these two an account with payment methods set up in its
		// dashboard answers 400, or waits for a customer who is not there.
		f.add("payment_method_types[]", "card")
		f.add("confirm", "true")
		f.add("error_on_requires_action", "true")
		f.add("metadata["+metaPayment+"]", in.Resource)
		f.add("metadata["+metaAccount+"]", in.Account)
		if in.OrderID != "" {
			f.add("metadata["+metaOrder+"]", in.OrderID)
		}
	case payments.KindRefund:
		if in.Charge == "" {
			return payments.Request{}, errors.New("stripe: a refund needs the provider's id of its payment")
		}
		f.add("payment_intent", in.Charge)
		f.add("amount", strconv.FormatInt(amount, 10))
		f.add("metadata["+metaRefund+"]", in.Resource)
		f.add("metadata["+metaAccount+"]", in.Account)
	default:
		return payments.Request{}, fmt.Errorf("stripe: nothing is known about a %q", in.Kind)
	}
	return payments.Request{Body: []byte(f.String()), Version: c.o.Version}, nil
}

// form is url.Values with an order.
type form struct{ strings.Builder }

func (f *form) add(name, value string) {
	if f.Len() > 0 {
		f.WriteByte('&')
	}
	f.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(value))
}

// scale is how the provider counts a currency that it counts otherwise than
// ISO 4217: one of our units is times/per of its units, and its own amounts
// must be multiples of step.
type scale struct{ times, per, step int64 }

// scales are the exceptions that the vendor documents under "Supported
// currencies" (zero-decimal, three-decimal and special cases), and that our
// table, which is ISO 4217's, does not share.
var scales = map[money.Currency]scale{
	"ISK": {times: 100, per: 1, step: 100}, // zero decimals, written as two since before it was so
	"UGX": {times: 100, per: 1, step: 100}, // the same
	"MGA": {times: 1, per: 100, step: 1},   // ISO gives it two decimals, the vendor none

	// Three decimals, the last of which must be 0.
	"BHD": {1, 1, 10}, "IQD": {1, 1, 10}, "JOD": {1, 1, 10}, "KWD": {1, 1, 10},
	"LYD": {1, 1, 10}, "OMR": {1, 1, 10}, "TND": {1, 1, 10},
}

func scaleOf(c money.Currency) scale {
	if s, ok := scales[c]; ok {
		return s
	}
	return scale{1, 1, 1}
}

// toWire is our amount in the provider's units. An amount that it would have
// to round is an error: rounding is never ours to decide.
func toWire(a money.Amount) (int64, error) {
	if _, err := money.ParseCurrency(string(a.Currency)); err != nil {
		return 0, err
	}
	if a.Minor < 1 || a.Minor > money.Max {
		return 0, fmt.Errorf("stripe: the amount must be 1 to %d minor units, not %d", int64(money.Max), a.Minor)
	}
	s := scaleOf(a.Currency)
	units := a.Minor * s.times // money.Max times 100 fits an int64 amply
	if units%s.per != 0 || units/s.per%s.step != 0 {
		return 0, fmt.Errorf("stripe: %s can't be charged: an amount in %s must be a multiple of %d minor units",
			a, a.Currency, max(s.per, s.step/s.times))
	}
	return units / s.per, nil
}

// fromWire is the provider's amount in our units. It is not ok when the
// currency is unknown or the amount is no whole number of our units.
func fromWire(units int64, code string) (money.Amount, bool) {
	currency, err := money.ParseCurrency(strings.ToUpper(code))
	if err != nil {
		return money.Amount{}, false
	}
	s := scaleOf(currency)
	if units < 0 || units > money.Max*s.times || units%s.times != 0 {
		return money.Amount{}, false
	}
	return money.Amount{Minor: units / s.times * s.per, Currency: currency}, true
}
