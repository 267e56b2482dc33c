package payments_test

import (
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
)

func TestRoomForRefunds(t *testing.T) {
	for _, row := range []struct{ captured, reserved, want int64 }{
		{0, 0, 0}, {100, 0, 100}, {100, 60, 40}, {100, 100, 0},
	} {
		p := payments.Payment{Captured: row.captured, Reserved: row.reserved, Refunded: 7, Doubtful: 9}
		if got := p.Refundable(); got != row.want {
			t.Errorf("captured %d, reserved %d: %d, want %d", row.captured, row.reserved, got, row.want)
		}
	}
}

func TestWhatHoldsAnOrder(t *testing.T) {
	for _, row := range []struct {
		order    string
		state    payments.State
		captured int64
		refunded int64
		want     bool
	}{
		{"42", payments.Processing, 0, 0, true},
		{"42", payments.PendingUnknown, 0, 0, true},
		{"42", payments.Review, 0, 0, true},
		{"42", payments.Failed, 0, 0, false},
		{"42", payments.Succeeded, 100, 0, true},
		{"42", payments.Succeeded, 100, 99, true},
		{"42", payments.Succeeded, 100, 100, false},
		{"", payments.Processing, 0, 0, false},
		{"", payments.Succeeded, 100, 0, false},
	} {
		p := payments.Payment{
			OrderID: row.order, State: row.state, Captured: row.captured, Refunded: row.refunded, Reserved: row.captured,
		}
		if got := p.HoldsOrder(); got != row.want {
			t.Errorf("%+v: %t", row, got)
		}
	}
}

func TestNamesAreDerivedAndNeverShared(t *testing.T) {
	base := onlyonce.Intent{Key: onlyonce.Key{Account: "17", Name: "k"}, Operation: "POST /payments"}
	seen := map[string]string{}
	add := func(what string, n payments.Names) {
		for _, name := range []string{n.Resource, n.ProviderKey} {
			if other, ok := seen[name]; ok {
				t.Errorf("%s and %s share %s", what, other, name)
			}
			seen[name] = what
		}
	}
	first := payments.NamesOf("i", base, payments.KindPayment, 0)
	if again := payments.NamesOf("i", base, payments.KindPayment, 0); again != first {
		t.Errorf("the same intent has the names %v and %v", first, again)
	}
	add("the intent", first)
	add("another installation", payments.NamesOf("j", base, payments.KindPayment, 0))
	add("another generation", payments.NamesOf("i", base, payments.KindPayment, 1))
	for what, change := range map[string]func(*onlyonce.Intent){
		"another account":   func(in *onlyonce.Intent) { in.Key.Account = "18" },
		"another key":       func(in *onlyonce.Intent) { in.Key.Name = "K" },
		"another operation": func(in *onlyonce.Intent) { in.Operation = "POST /payments/x/refunds" },
		"a border moved":    func(in *onlyonce.Intent) { in.Key.Account, in.Key.Name = "1", "7k" },
	} {
		in := base
		change(&in)
		add(what, payments.NamesOf("i", in, payments.KindPayment, 0))
	}
	unfit := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(first.ProviderKey) > 255 || strings.ContainsFunc(first.ProviderKey, unfit) {
		t.Errorf("Stripe does not take the key %q", first.ProviderKey)
	}
	refund := payments.NamesOf("i", base, payments.KindRefund, 0)
	for id, want := range map[string]payments.Kind{
		first.Resource: payments.KindPayment, refund.Resource: payments.KindRefund, "pi_1": "",
	} {
		if got := payments.KindOf(id); got != want {
			t.Errorf("%s is a %q, want %q", id, got, want)
		}
	}
}
