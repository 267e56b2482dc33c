package stripe_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

// list is a page of the provider's.
func list(more bool, objects ...string) string {
	return fmt.Sprintf(`{"object":"list","has_more":%t,"data":[%s]}`, more, strings.Join(objects, ","))
}

func others(n int) []string {
	var objects []string
	for i := range n {
		objects = append(objects, fmt.Sprintf(`{"id":"pi_o%d","object":"payment_intent","metadata":{}}`, i))
	}
	return objects
}

func TestAListProvesNothingUnlessItWasSeenWhole(t *testing.T) {
	ours := made("succeeded")
	second := strings.Replace(ours, "pi_1", "pi_2", 1)
	for name, row := range map[string]struct {
		pages []string // the last one repeats
		calls int
		want  payments.AnswerKind
	}{
		"empty":        {[]string{list(false)}, 1, payments.AnswerNotFound},
		"others alone": {[]string{list(false, others(3)...)}, 1, payments.AnswerNotFound},
		"ours":         {[]string{list(false, ours)}, 1, payments.AnswerSucceeded},
		"ours on the third page": {
			[]string{list(true, others(2)...), list(true, others(1)...), list(false, ours)}, 3, payments.AnswerSucceeded,
		},
		"ours, failed":               {[]string{list(false, made("canceled"))}, 1, payments.AnswerFailed},
		"ours twice":                 {[]string{list(true, ours), list(false, second)}, 2, payments.AnswerConflict},
		"ours, and a page missing":   {[]string{list(true, ours), "<html>"}, 2, payments.AnswerUnread},
		"a page missing":             {[]string{list(true, others(2)...), ""}, 2, payments.AnswerUnread},
		"more, it says, and no more": {[]string{list(true)}, 1, payments.AnswerUnread},
		"without has_more":           {[]string{`{"object":"list","data":[]}`}, 1, payments.AnswerUnread},
		"an error":                   {[]string{problem("api_error", "")}, 1, payments.AnswerUnread},
		"an object without an id":    {[]string{list(false, `{"object":"payment_intent"}`)}, 1, payments.AnswerUnread},
		"endless":                    {[]string{list(true, others(1)...)}, 100, payments.AnswerUnread},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, func(e exchange) bool { return e.reply(200, row.pages[min(e.n, len(row.pages))-1]) })
			c := open(t, stripe.Options{URL: w.url})
			if a := c.Find(t.Context(), intent(t, c, cardToken, usd(2500))); a.Kind != row.want {
				t.Errorf("got %+v, want %s", a, row.want)
			}
			w.expect(t, row.calls)
		})
	}
}

func TestAListAsksForTheTimeInWhichASendCouldAct(t *testing.T) {
	w := serve(t, func(e exchange) bool {
		if e.n == 1 {
			return e.reply(200, list(true, others(2)...))
		}
		return e.reply(200, list(false))
	})
	facts := payments.Facts{KeyWindow: 3 * time.Hour, AbsenceGrace: time.Hour}
	c := open(t, stripe.Options{URL: w.url, Facts: facts})
	d := intent(t, c, cardToken, usd(2500))
	c.Find(t.Context(), d)
	for i, e := range w.requests() {
		path, query, _ := strings.Cut(e.target, "?")
		q, err := url.ParseQuery(query)
		from, _ := strconv.ParseInt(q.Get("created[gte]"), 10, 64)
		sent := d.FirstSentAt
		switch {
		case err != nil || path != "/v1/payment_intents" || q.Get("limit") != "100":
			t.Errorf("asked for %s", e.target)
		case from >= sent.Add(-facts.AbsenceGrace).Unix() || from < sent.Add(-2*facts.AbsenceGrace).Unix():
			t.Errorf("from %d, sent at %d", from, sent.Unix())
		case q.Has("created[lte]"):
			t.Errorf("ends at %s: a slow clock would hide an object behind it", q.Get("created[lte]"))
		case q.Get("starting_after") != []string{"", "pi_o1"}[i]:
			t.Errorf("page %d is asked for by %s", i+1, e.target)
		}
	}
	w.expect(t, 2)
}

func TestARefundIsListedByItsPayment(t *testing.T) {
	w := serve(t, func(e exchange) bool { return e.reply(200, list(false)) })
	c := open(t, stripe.Options{URL: w.url})
	d := dispatch(t, c, payments.Instruction{
		Kind: payments.KindRefund, Account: "17", Resource: "re_1", Amount: usd(1), Charge: "pi_1",
	})
	if a := c.Find(t.Context(), d); a.Kind != payments.AnswerNotFound {
		t.Errorf("got %+v", a)
	}
	if got := w.requests()[0].target; got != "/v1/refunds?limit=100&payment_intent=pi_1" {
		t.Errorf("asked for %s", got)
	}
	d.Request.Body = nil
	if a := c.Find(t.Context(), d); a.Kind != payments.AnswerUnread {
		t.Errorf("without its payment: %+v", a)
	}
	d.Kind = payments.KindPayment
	d.FirstSentAt = time.Time{}
	if a := c.Find(t.Context(), d); a.Kind != payments.AnswerUnread {
		t.Errorf("without its time: %+v", a)
	}
	w.expect(t, 1)
}

func TestWhatAReadMeans(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		want   payments.AnswerKind
	}{
		"done":           {200, made("succeeded"), payments.AnswerSucceeded},
		"processing":     {200, made("processing"), payments.AnswerProcessing},
		"failed":         {200, made("requires_payment_method"), payments.AnswerFailed},
		"another's":      {200, strings.Replace(made("succeeded"), "pay_1", "pay_2", 1), payments.AnswerConflict},
		"cut off":        {200, made("succeeded")[:50], payments.AnswerUnread},
		"not there":      {404, problem("invalid_request_error", "resource_missing"), payments.AnswerNotFound},
		"404, not known": {404, problem("invalid_request_error", "other"), payments.AnswerUnread},
		"404 from HTML":  {404, "<html>", payments.AnswerUnread},
		"unauthorized":   {401, problem("invalid_request_error", ""), payments.AnswerUnread},
		"declined":       {402, problem("card_error", "card_declined"), payments.AnswerUnread},
		"rate limit":     {429, problem("invalid_request_error", "rate_limit"), payments.AnswerUnread},
		"500":            {500, problem("api_error", ""), payments.AnswerUnread},
		"redirect":       {302, made("succeeded"), payments.AnswerUnread},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, func(e exchange) bool { return e.reply(row.status, row.body) })
			c := open(t, stripe.Options{URL: w.url})
			d := intent(t, c, cardToken, usd(2500))
			d.ProviderID = "pi/1?x"
			if a := c.Read(t.Context(), d); a.Kind != row.want {
				t.Errorf("got %+v, want %s", a, row.want)
			}
			if got := w.requests()[0]; got.target != "/v1/payment_intents/pi%2F1%3Fx" || got.method != "GET" {
				t.Errorf("asked for %s", got.target)
			}
		})
	}
	l := listen()
	_ = l.Close()
	c := open(t, stripe.Options{URL: "http://" + l.Addr().String()})
	d := intent(t, c, cardToken, usd(2500))
	if a := c.Read(t.Context(), d); a.Kind != payments.AnswerUnread {
		t.Errorf("without an id: %+v", a)
	}
	d.ProviderID = "pi_1"
	for _, a := range []payments.Answer{c.Read(t.Context(), d), c.Find(t.Context(), d)} {
		if a.Kind != payments.AnswerUnread {
			t.Errorf("nobody there: %+v", a)
		}
	}
}
