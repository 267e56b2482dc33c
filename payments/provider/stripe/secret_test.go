package stripe_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

// A peer that sends everything back, in every place where it can.
func TestNoSecretIsToldOrLogged(t *testing.T) {
	token := cardToken + "&é"
	echo := func(e exchange) string { return e.header.Get("Authorization") + " " + e.body + " " + token }
	quoted := func(e exchange) string { return strings.ReplaceAll(echo(e), `"`, "") }
	for name, react := range map[string]func(exchange) bool{
		"in a message": func(e exchange) bool {
			return e.reply(400, `{"error":{"type":"invalid_request_error","code":"c","message":"`+quoted(e)+`"}}`)
		},
		"in a code": func(e exchange) bool {
			return e.reply(402, `{"error":{"type":"card_error","code":"`+quoted(e)+`","decline_code":"`+quoted(e)+`"}}`)
		},
		"in an object": func(e exchange) bool {
			return e.reply(200, strings.Replace(made(quoted(e)), "pi_1", quoted(e), 1))
		},
		"in a page": func(e exchange) bool { return e.reply(502, "<html>"+echo(e)) },
		"in a header": func(e exchange) bool {
			return e.reply(500, "{}", "Request-Id: "+strings.ReplaceAll(echo(e), "\n", ""))
		},
		"as a status line": func(e exchange) bool {
			_, _ = fmt.Fprintf(e.conn, "%s\r\n\r\n", echo(e))
			return false
		},
		"as a status": func(e exchange) bool {
			_, _ = fmt.Fprintf(e.conn, "HTTP/1.1 %s\r\n\r\n", echo(e))
			return false
		},
		"as a broken header": func(e exchange) bool {
			_, _ = fmt.Fprintf(e.conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", echo(e))
			return false
		},
		"cut off": func(e exchange) bool {
			_, _ = fmt.Fprintf(e.conn, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n%s", echo(e))
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, react)
			var log bytes.Buffer
			handler := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
			c := open(t, stripe.Options{URL: w.url, Log: slog.New(handler)})
			d := intent(t, c, token, usd(2500))
			answers := []payments.Answer{c.Execute(t.Context(), d, soon())}
			answers = append(answers, c.Find(t.Context(), d))
			d.ProviderID = "pi_1"
			answers = append(answers, c.Read(t.Context(), d))
			w.expect(t, 3)
			told := fmt.Sprintf("%+v %s", answers, log.String())
			for _, secret := range []string{apiKey, cardToken, url.QueryEscape(token), "metadata"} {
				if strings.Contains(told, secret) {
					t.Errorf("%q is told: %s", secret, told)
				}
			}
			if strings.Count(log.String(), "\n") != 3 {
				t.Errorf("not one line per call:\n%s", log.String())
			}
		})
	}
	c := open(t, stripe.Options{})
	in := payments.Instruction{Kind: payments.KindPayment, Account: "17", Amount: usd(0), Resource: "pay_1", Method: token}
	if _, err := c.Prepare(t.Context(), in); err == nil || strings.Contains(err.Error(), cardToken) {
		t.Errorf("prepare: %v", err)
	}
}
