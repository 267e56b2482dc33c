package sandbox_test

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
)

// Case 98h, seen from the provider.
func TestTheLedgerShowsWhatWasSent(t *testing.T) {
	b := open(t, sandbox.Options{})
	want := map[string]string{"jpy": "100", "krw": "9007199254741", "usd": "99999999999900", "kwd": "5120", "clp": "1"}
	for currency, amount := range want {
		a := b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k-"+currency, payment("tok_ok", amount, currency))
		if a.status != http.StatusOK || strconv.FormatInt(a.object.Amount, 10) != amount {
			t.Errorf("%s: %+v", currency, a)
		}
		if a := b.refund("r-"+currency, a.object.ID, ""); a.status != http.StatusOK {
			t.Errorf("refund of %s: %+v", currency, a)
		}
	}
	got := map[string]map[string]string{"charge": {}, "refund": {}}
	for _, e := range b.ledger() {
		got[e.Type][e.Currency] = e.Amount.String()
		at, err := time.Parse(time.RFC3339, e.CreatedAt)
		if err != nil || time.Since(at) > time.Hour || e.Status != "succeeded" || len(e.Metadata) != 1 {
			t.Errorf("entry %+v: %v", e, err)
		}
		if prefix := map[string]string{"charge": "k-", "refund": "r-"}[e.Type]; e.IdempotencyKey != prefix+e.Currency {
			t.Errorf("key %q of %+v", e.IdempotencyKey, e)
		}
	}
	if !maps.Equal(got["charge"], want) || !maps.Equal(got["refund"], want) {
		t.Errorf("the ledger shows %v, want %v twice", got, want)
	}
}

// Case 98c, seen from the provider.
func TestARefundNeverTakesMoreThanIsLeft(t *testing.T) {
	b := open(t, sandbox.Options{})
	charge := b.pay("k", "tok_ok").object.ID // 2500
	for _, row := range []struct {
		amount string
		status int
		code   string
	}{
		{"-1", 400, "parameter_invalid_integer"}, {"0", 400, "parameter_invalid_integer"},
		{"9223372036854775807", 400, "parameter_invalid_integer"}, {"9223372036854775808", 400, "parameter_invalid_integer"},
		{"2501", 400, "amount_too_large"},
		{"1500", 200, ""}, {"1001", 400, "amount_too_large"}, {"1000", 200, ""}, {"1", 400, "charge_already_refunded"},
		{"", 400, "charge_already_refunded"},
	} {
		a := b.refund("r"+row.amount, charge, row.amount)
		if a.status != row.status || a.object.Error.Code != row.code {
			t.Errorf("refund %q: %+v", row.amount, a)
		}
	}
	if a := b.refund("r2501", charge, "2501"); a.object.Error.Code != "amount_too_large" || !a.replayed {
		t.Errorf("an executed refusal stays with its key: %+v", a)
	}
	if a := b.refund("r?", "pi_unknown", "1"); a.object.Error.Code != "resource_missing" {
		t.Errorf("an unknown payment: %+v", a)
	}
	b.pay("d", "tok_declined")
	list := b.do(t.Context(), http.MethodGet, "/v1/payment_intents?limit=1", "", "").object.Data
	if a := b.refund("r!", list[0].ID, "1"); a.object.Error.Code != "payment_intent_unexpected_state" {
		t.Errorf("a declined payment: %+v", a)
	}
	if got := b.moved("refund"); got != 2 {
		t.Errorf("%d refunds, want 2", got)
	}
}

func TestTheLedgerIsAppendOnlyAndNeedNotFitInMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.db")
	b := open(t, sandbox.Options{Path: path})
	if got := b.ledger(); len(got) != 0 {
		t.Fatalf("a new ledger holds %v", got)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const many = 1234 // more than two pages
	_, err = db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO ledger (id, type, amount, currency, status, metadata, idempotency_key, created_at)
SELECT 'pi_' || i, 'charge', i, 'usd', 'succeeded', '{}', 'k', i FROM n`, many)
	if err != nil {
		t.Fatal(err)
	}
	got := b.ledger()
	if len(got) != many {
		t.Fatalf("%d entries, want %d", len(got), many)
	}
	for i, e := range got {
		if e.ID != fmt.Sprintf("pi_%d", i+1) {
			t.Fatalf("entry %d is %s", i, e.ID)
		}
	}
	for _, q := range []string{`UPDATE ledger SET amount = 0`, `DELETE FROM ledger`} {
		if _, err := db.Exec(q); err == nil {
			t.Errorf("%s was possible", q)
		}
	}
}

func TestListsAreWholeNewestFirstAndInTheirWindow(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b := open(t, sandbox.Options{Now: func() time.Time { return now }})
	var want []string
	for i := range 7 {
		now = now.Add(time.Second) // made at …01 to …07
		want = append([]string{b.pay(fmt.Sprint(i), "tok_ok").object.ID}, want...)
	}
	query := url.Values{"limit": {"2"}, "created[gte]": {"1800000002"}, "created[lte]": {"1800000006"}}
	var got []string
	for range 10 {
		page := b.do(t.Context(), http.MethodGet, "/v1/payment_intents?"+query.Encode(), "", "")
		for _, o := range page.object.Data {
			got = append(got, o.ID)
		}
		if !page.object.HasMore {
			break
		}
		query.Set("starting_after", got[len(got)-1])
	}
	if fmt.Sprint(got) != fmt.Sprint(want[1:6]) {
		t.Errorf("listed %v, want %v", got, want[1:6])
	}
	refund := b.refund("r", want[0], "1").object.ID
	b.refund("r2", want[1], "1")
	list := b.do(t.Context(), http.MethodGet, "/v1/refunds?payment_intent="+want[0], "", "")
	if len(list.object.Data) != 1 || list.object.Data[0].ID != refund || list.object.Data[0].PaymentIntent != want[0] {
		t.Errorf("refunds of one payment: %+v", list)
	}
	for path, status := range map[string]int{
		"/v1/payment_intents/" + want[0]: 200, "/v1/refunds/" + refund: 200, "/v1/payment_intents/" + refund: 404,
		"/v1/refunds/re_1": 404, "/v1/payment_intents?limit=101": 400, "/v1/payment_intents?created[gte]=x": 400,
		"/v1/payment_intents?starting_after=pi_1": 404, "/v1/payment_intents?status=x": 400, "/v1/nothing": 404,
	} {
		if a := b.do(t.Context(), http.MethodGet, path, "", ""); a.status != status {
			t.Errorf("%s: %d, want %d", path, a.status, status)
		}
	}
}

func TestWithoutAnAPIKeyOnlyTheLedgerIsShown(t *testing.T) {
	b := open(t, sandbox.Options{})
	resp, err := http.PostForm(b.url+"/v1/payment_intents", url.Values{"amount": {"1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("Request-Id") == "" {
		t.Errorf("status %d, request id %q", resp.StatusCode, resp.Header.Get("Request-Id"))
	}
}
