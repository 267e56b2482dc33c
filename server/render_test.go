package server_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/server"
)

// TestRenderGolden: a stored answer is replayed for years, so its bytes are
// held fast. They change only by members that are added on purpose.
func TestRenderGolden(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.FixedZone("", 3600))
	p := payments.Payment{
		Account: "A", ID: "pay_1", Key: "K", OrderID: "42", Amount: money.Amount{Minor: 2500, Currency: "USD"},
		Captured: 2500, State: payments.Succeeded, Version: 9, Instance: "stripe:live", ProviderID: "pi_1",
		Metadata: map[string]string{"b": "2", "a": "1"}, CreatedAt: at, UpdatedAt: at.Add(time.Second), Reserved: 500,
		Refunded: 400,
	}
	r := payments.Refund{
		Account: "A", ID: "re_1", PaymentID: "pay_1", Key: "K", Amount: money.Amount{Minor: 400, Currency: "USD"},
		State: payments.Succeeded, Instance: "stripe:test", CreatedAt: at, UpdatedAt: at,
	}
	for want, result := range map[string]flow.Result{
		`{"id":"pay_1","orderId":"42","amount":2500,"currency":"USD","state":"succeeded","refunded":400,` +
			`"refundable":2000,"livemode":true,"metadata":{"a":"1","b":"2"},"providerId":"pi_1",` +
			`"createdAt":"2026-02-03T03:05:06.000007Z","updatedAt":"2026-02-03T03:05:07.000007Z"}`: {
			Payment: &p, RequestID: "req"},
		`{"id":"re_1","paymentId":"pay_1","amount":400,"currency":"USD","state":"succeeded","livemode":false,` +
			`"createdAt":"2026-02-03T03:05:06.000007Z","updatedAt":"2026-02-03T03:05:06.000007Z"}`: {
			Refund: &r, RequestID: "req"},
	} {
		o := server.Render(result)
		if string(o.Body) != want || o.Status != http.StatusCreated {
			t.Errorf("%d\ngot  %s\nwant %s", o.Status, o.Body, want)
		}
		if !reflect.DeepEqual(o, server.Render(result)) {
			t.Error("it is not pure")
		}
		if got := o.Header["Original-Request"]; len(got) != 1 || got[0] != "req" {
			t.Errorf("Original-Request is %v", got)
		}
	}
}

// TestRenderRefusals: each refusal has its problem, which says what to do next.
func TestRenderRefusals(t *testing.T) {
	spec := must(description())(t)
	for kind, want := range map[flow.RefusalKind]struct {
		status int
		retry  string
	}{
		flow.RefusedDeclined:      {402, "new-key"},
		flow.RefusedOrderBusy:     {409, "new-key"},
		flow.RefusedOver:          {422, "new-key"},
		flow.RefusedNotRefundable: {422, "new-key"},
	} {
		o := server.Render(flow.Result{Refusal: &flow.Refusal{
			Kind: kind, PaymentID: "pay_1", RefundID: "re_1", DeclineCode: "fraud", Refundable: 7,
		}})
		var v any
		if err := json.Unmarshal(o.Body, &v); err != nil {
			t.Fatal(err)
		}
		if err := spec.Components.Schemas["Problem"].Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		got := reply{t, o.Status, o.Header, o.Body}.want(want.status, string(kind), want.retry)
		if got.PaymentID != "pay_1" || got.RefundID != "re_1" {
			t.Errorf("%s: it names %s and %s", kind, got.PaymentID, got.RefundID)
		}
		if len(o.Header["Location"])+len(o.Header["Retry-After"]) != 0 {
			t.Errorf("%s: the headers are %v", kind, o.Header)
		}
	}
}

// TestRenderNothing: a result that is none is a bug, not an empty answer.
func TestRenderNothing(t *testing.T) {
	for name, result := range map[string]flow.Result{
		"empty": {}, "unknown refusal": {Refusal: &flow.Refusal{Kind: "whim"}},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(p.(string), "server: ") {
					t.Errorf("%s: %v", name, p)
				}
			}()
			server.Render(result)
		}()
	}
}
