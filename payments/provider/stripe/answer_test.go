package stripe_test

import (
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

func problem(kind, code string) string {
	return `{"error":{"type":"` + kind + `","code":"` + code + `","message":"about ` + cardToken + `"}}`
}

const replayed = "Idempotent-Replayed: true"

var answers = []struct {
	name   string
	status int
	body   string
	header []string
	kind   payments.AnswerKind
	code   string
	id     string
}{
	{"done", 200, made("succeeded"), nil, payments.AnswerSucceeded, "", "pi_1"},
	{"done, replayed", 200, made("succeeded"), []string{replayed}, payments.AnswerSucceeded, "", "pi_1"},
	{"processing", 200, made("processing"), nil, payments.AnswerProcessing, "", "pi_1"},
	{"no method left", 200, made("requires_payment_method"), nil,
		payments.AnswerFailed, "requires_payment_method", "pi_1"},
	{"canceled", 200, made("canceled"), nil, payments.AnswerFailed, "canceled", "pi_1"},
	{"requires action", 200, made("requires_action"), nil, payments.AnswerConflict, "", "pi_1"},
	{"requires capture", 200, made("requires_capture"), nil, payments.AnswerConflict, "", "pi_1"},
	{"no status", 200, made(""), nil, payments.AnswerConflict, "", "pi_1"},
	{"another amount", 200, strings.Replace(made("succeeded"), `"amount":2500`, `"amount":2501`, 1), nil,
		payments.AnswerConflict, "", "pi_1"},
	{"less received", 200, strings.Replace(made("succeeded"), `"amount_received":2500`, `"amount_received":1`, 1), nil,
		payments.AnswerConflict, "", "pi_1"},
	{"another currency", 200, strings.Replace(made("succeeded"), "usd", "jpy", 1), nil,
		payments.AnswerConflict, "", "pi_1"},
	{"unknown currency", 200, strings.Replace(made("succeeded"), "usd", "zzz", 1), nil,
		payments.AnswerConflict, "", "pi_1"},
	{"another reference", 200, strings.Replace(made("succeeded"), "pay_1", "pay_2", 1), nil,
		payments.AnswerConflict, "", ""},
	{"no reference", 200, strings.Replace(made("succeeded"), "onlyonce_payment", "x", 1), nil,
		payments.AnswerConflict, "", ""},
	{"another kind", 200, strings.Replace(made("succeeded"), "payment_intent", "refund", 1), nil,
		payments.AnswerConflict, "", ""},

	{"cut off in the middle", 200, made("succeeded")[:80], nil, payments.AnswerMaybe, "", ""},
	{"empty", 200, "", nil, payments.AnswerMaybe, "", ""},
	{"no id", 200, strings.Replace(made("succeeded"), "pi_1", "", 1), nil, payments.AnswerMaybe, "", ""},
	{"an id that is none", 200, strings.Replace(made("succeeded"), "pi_1", "pi 1", 1), nil, payments.AnswerMaybe, "", ""},
	{"more than one value", 200, made("succeeded") + "{}", nil, payments.AnswerMaybe, "", ""},
	{"amount as text", 200, strings.Replace(made("succeeded"), `"amount":2500`, `"amount":"2500"`, 1), nil,
		payments.AnswerMaybe, "", ""},
	{"HTML with 200", 200, "<html>ok</html>", nil, payments.AnswerMaybe, "", ""},

	{"declined", 402, problem("card_error", "card_declined"), nil, payments.AnswerFailed, "card_declined", ""},
	{"declined, replayed", 402, problem("card_error", "card_declined"), []string{replayed},
		payments.AnswerFailed, "card_declined", ""},
	{"why it was declined", 402, `{"error":{"type":"card_error","code":"card_declined",` +
		`"decline_code":"insufficient_funds","payment_intent":` + made("requires_payment_method") + `}}`, nil,
		payments.AnswerFailed, "insufficient_funds", "pi_1"},
	{"generic decline", 402,
		`{"error":{"type":"card_error","code":"card_declined","decline_code":"generic_decline"}}`, nil,
		payments.AnswerFailed, "card_declined", ""},
	{"declined beside a success", 402, `{"error":{"type":"card_error","code":"card_declined","payment_intent":` +
		made("succeeded") + `}}`, nil, payments.AnswerConflict, "card_declined", ""},
	{"402 from something else", 402, "<html>pay for your proxy</html>", nil, payments.AnswerMaybe, "", ""},

	{"unauthorized", 401, problem("invalid_request_error", ""), nil,
		payments.AnswerUnauthorized, "invalid_request_error", ""},
	{"forbidden", 403, problem("invalid_request_error", "secret_key_required"), nil,
		payments.AnswerUnauthorized, "secret_key_required", ""},
	{"403 from something else", 403, "<html>forbidden</html>", nil, payments.AnswerMaybe, "", ""},
	{"invalid", 400, problem("invalid_request_error", "amount_too_small"), nil,
		payments.AnswerRejected, "amount_too_small", ""},
	{"a card error with 400", 400, problem("card_error", "amount_too_small"), nil,
		payments.AnswerRejected, "amount_too_small", ""},
	{"no such token", 404, problem("invalid_request_error", "resource_missing"), nil,
		payments.AnswerRejected, "resource_missing", ""},
	{"404 from something else", 404, "not found", nil, payments.AnswerMaybe, "", ""},
	{"key misused", 400, problem("idempotency_error", ""), nil, payments.AnswerKeyMisused, "idempotency_error", ""},
	{"key in use", 409, problem("idempotency_error", "idempotency_key_in_use"), nil,
		payments.AnswerKeyInUse, "idempotency_key_in_use", ""},
	{"key in use, by another type", 409, problem("invalid_request_error", "idempotency_key_in_use"), nil,
		payments.AnswerKeyInUse, "idempotency_key_in_use", ""},
	{"lock timeout as 409", 409, problem("invalid_request_error", "lock_timeout"), nil,
		payments.AnswerRateLimited, "lock_timeout", ""},
	{"lock timeout", 429, problem("invalid_request_error", "lock_timeout"), nil,
		payments.AnswerRateLimited, "lock_timeout", ""},
	{"rate limit", 429, problem("invalid_request_error", "rate_limit"), nil, payments.AnswerRateLimited, "rate_limit", ""},
	{"a conflict that is not known", 409, problem("idempotency_error", "other"), nil, payments.AnswerMaybe, "other", ""},
	{"a status that is not known", 418, problem("api_error", ""), nil, payments.AnswerMaybe, "api_error", ""},

	{"500", 500, problem("api_error", ""), nil, payments.AnswerMaybe, "api_error", ""},
	{"500, pinned to the key", 500, problem("api_error", ""), []string{replayed}, payments.AnswerPinned, "api_error", ""},
	{"500 with a decline in it", 500, problem("card_error", "card_declined"), nil,
		payments.AnswerMaybe, "card_declined", ""},
	{"HTML 502", 502, "<html>bad gateway</html>", nil, payments.AnswerMaybe, "", ""},
	{"503", 503, "", nil, payments.AnswerMaybe, "", ""},
	{"301", 301, "", []string{"Location: /elsewhere"}, payments.AnswerMaybe, "", ""},
	{"307", 307, made("succeeded"), []string{"Location: /elsewhere"}, payments.AnswerMaybe, "", ""},
	{"304", 304, "", nil, payments.AnswerMaybe, "", ""},
}

func TestWhatEachAnswerMeans(t *testing.T) {
	for _, row := range answers {
		t.Run(row.name, func(t *testing.T) {
			w := serve(t, func(e exchange) bool {
				return e.reply(row.status, row.body, append(row.header, "Request-Id: req_9")...)
			})
			c := open(t, stripe.Options{URL: w.url})
			a := c.Execute(t.Context(), intent(t, c, cardToken, usd(2500)), soon())
			if a.Kind != row.kind || a.Code != row.code || a.ProviderID != row.id {
				t.Errorf("got %+v, want %s, code %q, id %q", a, row.kind, row.code, row.id)
			}
			if !strings.Contains(a.Detail, "req_9") {
				t.Errorf("the detail lacks the provider's request id: %q", a.Detail)
			}
			w.expect(t, 1) // no retry, no redirect followed
		})
	}
}

func TestWhatEachRefundStatusMeans(t *testing.T) {
	for status, want := range map[string]payments.AnswerKind{
		"succeeded": payments.AnswerSucceeded, "pending": payments.AnswerProcessing,
		"requires_action": payments.AnswerProcessing, "failed": payments.AnswerFailed,
		"canceled": payments.AnswerFailed, "else": payments.AnswerConflict,
	} {
		w := serve(t, func(e exchange) bool {
			return e.reply(200, `{"id":"re_9","object":"refund","amount":1000,"currency":"usd","payment_intent":"pi_1",`+
				`"failure_reason":"lost_or_stolen_card","status":"`+status+`","metadata":{"onlyonce_refund":"re_1"}}`)
		})
		c := open(t, stripe.Options{URL: w.url})
		d := dispatch(t, c, payments.Instruction{
			Kind: payments.KindRefund, Account: "17", Resource: "re_1", Amount: usd(1000), Charge: "pi_1",
		})
		a := c.Execute(t.Context(), d, soon())
		if a.Kind != want || a.ProviderID != "re_9" {
			t.Errorf("%s: %+v, want %s", status, a, want)
		}
		if status == "failed" && a.Code != "lost_or_stolen_card" {
			t.Errorf("why it failed: %q", a.Code)
		}
		d.Request.Body = []byte(strings.Replace(string(d.Request.Body), "pi_1", "pi_2", 1))
		if a := c.Execute(t.Context(), d, soon()); a.Kind != payments.AnswerConflict || a.ProviderID != "" {
			t.Errorf("%s, of another payment: %+v", status, a)
		}
	}
}
