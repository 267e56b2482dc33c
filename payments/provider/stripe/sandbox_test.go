package stripe_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

// simulate serves a sandbox and returns a client of it and its URL.
func simulate(t *testing.T, timeout time.Duration) (*stripe.Client, string) {
	t.Helper()
	box, err := sandbox.Open(t.Context(), sandbox.Options{
		Path: filepath.Join(t.TempDir(), "sandbox.db"), SlowBy: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(box.Handler())
	_ = server.Listener.Close()
	server.Listener = listen()
	server.Start()
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return open(t, stripe.Options{
		URL: server.URL, Timeout: timeout, Instance: "sandbox:" + box.ID(), Facts: box.Facts(),
	}), server.URL
}

type moved struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

func ledger(t *testing.T, url string) []moved {
	t.Helper()
	resp, err := http.Get(url + "/sandbox/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct{ Data []moved }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out.Data
}

const (
	done  = payments.AnswerSucceeded
	maybe = payments.AnswerMaybe
	inUse = payments.AnswerKeyInUse
)

// fates is what the adapter makes of each token: the sends in order, and what
// a list then shows.
var fates = []struct {
	token   string
	sends   []payments.AnswerKind
	list    payments.AnswerKind
	code    string
	charges int
}{
	{"tok_ok", []payments.AnswerKind{done, done}, done, "", 1},
	{"tok_declined", []payments.AnswerKind{payments.AnswerFailed}, payments.AnswerFailed, "card_declined", 0},
	{
		"tok_insufficient_funds", []payments.AnswerKind{payments.AnswerFailed},
		payments.AnswerFailed, "insufficient_funds", 0,
	},
	{"tok_slow", []payments.AnswerKind{done}, done, "", 1},
	{"tok_error_charged", []payments.AnswerKind{maybe, payments.AnswerPinned}, done, "", 1},
	{"tok_error_lost", []payments.AnswerKind{maybe, payments.AnswerPinned}, payments.AnswerNotFound, "", 0},
	{"tok_reset_charged", []payments.AnswerKind{maybe, done}, done, "", 1},
	{"tok_garbage_charged", []payments.AnswerKind{maybe, done}, done, "", 1},
	{"tok_busy", []payments.AnswerKind{inUse, inUse, done, done}, done, "", 1},
}

func TestEachFateOfTheSandbox(t *testing.T) {
	for _, row := range fates {
		t.Run(row.token, func(t *testing.T) {
			c, url := simulate(t, patience)
			d := intent(t, c, row.token, usd(2500))
			for i, want := range row.sends {
				if a := c.Execute(t.Context(), d, soon()); a.Kind != want {
					t.Errorf("send %d: %+v, want %s", i+1, a, want)
				}
			}
			a := c.Find(t.Context(), d)
			if a.Kind != row.list || a.Code != row.code {
				t.Errorf("the list: %+v, want %s %s", a, row.list, row.code)
			}
			if d.ProviderID = a.ProviderID; d.ProviderID != "" {
				if b := c.Read(t.Context(), d); b.Kind != a.Kind || b.ProviderID != a.ProviderID || b.Code != a.Code {
					t.Errorf("read %+v, listed %+v", b, a)
				}
			}
			if got := len(ledger(t, url)); got != row.charges {
				t.Errorf("%d charges, want %d", got, row.charges)
			}
		})
	}
}

// The sandbox never answers these; that it has the request is seen from its
// refusal of other bytes under the same key.
func TestATimeoutAtTheSandbox(t *testing.T) {
	for token, charges := range map[string]int{"tok_timeout_charged": 1, "tok_timeout_lost": 0} {
		t.Run(token, func(t *testing.T) {
			c, url := simulate(t, patience)
			d := intent(t, c, token, usd(2500))
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			first := make(chan payments.Answer, 1)
			go func() { first <- c.Execute(ctx, d, soon()) }()
			wrong := d
			wrong.Request.Body = []byte("amount=invalid") // spends no key, whoever is first
			for end := time.Now().Add(patience); c.Execute(t.Context(), wrong, soon()).Kind != payments.AnswerKeyMisused; {
				if time.Now().After(end) {
					t.Fatal("the first send never arrived")
				}
			}
			giveUp()
			if a := <-first; a.Kind != maybe {
				t.Errorf("the first send: %+v", a)
			}
			if got := len(ledger(t, url)); got != charges {
				t.Errorf("%d charges after the first send, want %d", got, charges)
			}
			if a := c.Execute(t.Context(), d, soon()); a.Kind != done || len(ledger(t, url)) != 1 {
				t.Errorf("the second send: %+v, %d charges", a, len(ledger(t, url)))
			}
		})
	}
}

func TestRefundsAtTheSandbox(t *testing.T) {
	for token, want := range map[string]struct {
		sends []payments.AnswerKind
		list  payments.AnswerKind
	}{
		"tok_ok":                   {[]payments.AnswerKind{done, done}, done},
		"tok_refund_declined":      {[]payments.AnswerKind{payments.AnswerFailed}, payments.AnswerFailed},
		"tok_refund_error_lost":    {[]payments.AnswerKind{maybe, payments.AnswerPinned}, payments.AnswerNotFound},
		"tok_refund_reset_charged": {[]payments.AnswerKind{maybe, done}, done},
		"tok_refund_busy":          {[]payments.AnswerKind{inUse, inUse, done}, done},
	} {
		t.Run(token, func(t *testing.T) {
			c, _ := simulate(t, patience)
			charge := c.Execute(t.Context(), intent(t, c, token, usd(2500)), soon())
			d := dispatch(t, c, payments.Instruction{
				Kind: payments.KindRefund, Account: "17", Resource: "re_1", Amount: usd(1000), Charge: charge.ProviderID,
			})
			for i, kind := range want.sends {
				if a := c.Execute(t.Context(), d, soon()); a.Kind != kind {
					t.Errorf("send %d: %+v, want %s", i+1, a, kind)
				}
			}
			if a := c.Find(t.Context(), d); a.Kind != want.list {
				t.Errorf("the list: %+v, want %s", a, want.list)
			}
			tooMuch := dispatch(t, c, payments.Instruction{
				Kind: payments.KindRefund, Account: "17", Resource: "re_2", Amount: usd(2501), Charge: charge.ProviderID,
			})
			a := c.Execute(t.Context(), tooMuch, soon())
			if token == "tok_ok" && (a.Kind != payments.AnswerRejected || a.Code != "amount_too_large") {
				t.Errorf("more than was charged: %+v", a)
			}
		})
	}
}

// Cases 98g and 98h: amounts out and back, judged by the provider's ledger,
// in currencies that the provider counts as ISO 4217 does and otherwise.
func TestAmountsOutAndBack(t *testing.T) {
	c, url := simulate(t, patience)
	for _, row := range []struct {
		ours  money.Amount
		wire  int64
		fails bool
	}{
		{money.Amount{Minor: 100, Currency: "JPY"}, 100, false},
		{money.Amount{Minor: 999_999_999_999, Currency: "KRW"}, 999_999_999_999, false},
		{money.Amount{Minor: 803, Currency: "USD"}, 803, false},
		{money.Amount{Minor: 1, Currency: "CLP"}, 1, false},
		{money.Amount{Minor: 5120, Currency: "KWD"}, 5120, false},
		{money.Amount{Minor: 5124, Currency: "KWD"}, 0, true}, // the vendor would have it rounded
		{money.Amount{Minor: 5, Currency: "ISK"}, 500, false},
		{money.Amount{Minor: 999_999_999_999, Currency: "UGX"}, 99_999_999_999_900, false},
		{money.Amount{Minor: 300, Currency: "MGA"}, 3, false},
		{money.Amount{Minor: 350, Currency: "MGA"}, 0, true},
		{money.Amount{Minor: 1005, Currency: "HUF"}, 1005, false},
	} {
		in := payments.Instruction{
			Kind: payments.KindPayment, Account: "17", Resource: row.ours.String(), Amount: row.ours, Method: "tok_ok",
		}
		if row.fails {
			if r, err := c.Prepare(t.Context(), in); err == nil {
				t.Errorf("%s was prepared as %s", row.ours, r.Body)
			}
			continue
		}
		before := len(ledger(t, url))
		d := dispatch(t, c, in)
		a := c.Execute(t.Context(), d, soon())
		if a.Kind != done {
			t.Errorf("%s: %+v", row.ours, a)
			continue
		}
		in.Kind, in.Charge = payments.KindRefund, a.ProviderID
		back := dispatch(t, c, in)
		back.ProviderKey += "r"
		if a := c.Execute(t.Context(), back, soon()); a.Kind != done {
			t.Errorf("%s back: %+v", row.ours, a)
		}
		for _, e := range ledger(t, url)[before:] {
			if e.Amount != row.wire || money.Currency(strings.ToUpper(e.Currency)) != row.ours.Currency {
				t.Errorf("%s stands in the ledger as %+v", row.ours, e)
			}
		}
	}
}
