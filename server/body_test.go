package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func pairs(n, name, value int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"%0*d":"%s"`, name, i, strings.Repeat("v", value)))
	}
	return `"metadata":{` + strings.Join(all, ",") + `}`
}

// invalidBody is one fault, and where the answer must point.
type invalidBody struct{ name, body, pointer string }

func invalidBodies() []invalidBody {
	tests := []invalidBody{
		{"empty", ``, ""},
		{"not JSON", `{"amount":`, "/amount"},
		{"an array", `[]`, ""},
		{"null", `null`, ""},
		{"trailing data", body1 + `{}`, ""},
		{"leading zero", strings.Replace(body1, "1000", "01", 1), ""},
		{"hexadecimal", strings.Replace(body1, "1000", "0x10", 1), ""},
		{"plus sign", strings.Replace(body1, "1000", "+1", 1), "/amount"},
		{"unknown member", bodyWith("tok_ok", `"capture":true`), "/capture"},
		{"case of a member", bodyWith("tok_ok", `"OrderId":"1"`), "/OrderId"},
		{"duplicate member", bodyWith("tok_ok", `"amount":1000`), "/amount"},
		{"duplicate after unescaping", bodyWith("tok_ok", `"\u0061mount":1000`), "/amount"},
		{"duplicate in metadata", bodyWith("tok_ok", `"metadata":{"a":"1","a":"1"}`), "/metadata/a"},
		{"NUL", bodyWith("tok_ok", `"description":"a\u0000b"`), "/description"},
		{"NUL in metadata", bodyWith("tok_ok", `"metadata":{"a":"\u0000"}`), "/metadata/a"},
		{"NUL in a name", bodyWith("tok_ok", `"metadata":{"\u0000":"a"}`), "/metadata/\x00"},
		{"lone surrogate", bodyWith("tok_ok", `"description":"\ud800"`), ""},
		{"invalid UTF-8", bodyWith("tok_ok", "\"description\":\"\xff\""), ""},
		{"null member", bodyWith("tok_ok", `"orderId":null`), "/orderId"},
		{"null amount", `{"amount":null,"currency":"USD","paymentMethodToken":"t"}`, "/amount"},
		{"no amount", `{"currency":"USD","paymentMethodToken":"t"}`, "/amount"},
		{"no currency", `{"amount":1,"paymentMethodToken":"t"}`, "/currency"},
		{"no token", `{"amount":1,"currency":"USD"}`, "/paymentMethodToken"},
		{"empty token", bodyWith(""), "/paymentMethodToken"},
		{"long token", bodyWith(strings.Repeat("t", 256)), "/paymentMethodToken"},
		{"token is a number", `{"amount":1,"currency":"USD","paymentMethodToken":1}`, "/paymentMethodToken"},
		{"empty orderId", bodyWith("tok_ok", `"orderId":""`), "/orderId"},
		{"long orderId", bodyWith("tok_ok", `"orderId":"`+strings.Repeat("ü", 256)+`"`), "/orderId"},
		{"orderId is a number", bodyWith("tok_ok", `"orderId":42`), "/orderId"},
		{"long description", bodyWith("tok_ok", `"description":"`+strings.Repeat("d", 1001)+`"`), "/description"},
		{"21 pairs", bodyWith("tok_ok", pairs(21, 2, 1)), "/metadata"},
		{"long pair name", bodyWith("tok_ok", pairs(1, 41, 1)), "/metadata/" + strings.Repeat("0", 41)},
		{"empty pair name", bodyWith("tok_ok", `"metadata":{"":"a"}`), "/metadata/"},
		{"long pair value", bodyWith("tok_ok", pairs(1, 1, 501)), "/metadata/0"},
		{"pair is a number", bodyWith("tok_ok", `"metadata":{"a":1}`), "/metadata/a"},
		{"pair is null", bodyWith("tok_ok", `"metadata":{"a":null}`), "/metadata/a"},
		{"metadata is text", bodyWith("tok_ok", `"metadata":"a"`), "/metadata"},
	}
	for _, currency := range []string{"usd", "US", "USDX", "XXX", "XAU", "", " USD"} {
		body := strings.Replace(body1, "USD", currency, 1)
		tests = append(tests, invalidBody{"currency " + currency, body, "/currency"})
	}
	for _, amount := range []string{
		"8.03", "1e3", "1000.0", "100.0", `"1000"`, "-0", "0", "-1", "1000000000000", "9007199254740992",
		"9007199254740993", "9223372036854775808", "1" + strings.Repeat("0", 400),
		"true", "{}", "1.0e0",
	} {
		body := strings.Replace(body1, "1000", amount, 1)
		tests = append(tests, invalidBody{"amount " + amount, body, "/amount"})
	}
	return tests
}

// TestInvalidBodies: each is 400 with a pointer to the fault, whatever the key
// has been used for, and nothing is charged (cases 8, 17, 18).
func TestInvalidBodies(t *testing.T) {
	w := newWorld(t, setup{})
	used := w.send(pay("used", body1))
	used.want(http.StatusCreated)
	for _, test := range invalidBodies() {
		t.Run(test.name, func(t *testing.T) {
			for _, key := range []string{"fresh", "used"} {
				v := w.send(pay(key, test.body)).want(http.StatusBadRequest, "invalid-request", "fix")
				if len(v.Errors) == 0 {
					t.Fatalf("there are no errors: %s", v.Detail)
				}
				if test.pointer != "" {
					v.wantFault(t, test.pointer)
				}
			}
		})
	}
	w.wantMoved("charge 1000 usd")
	// The corrected request runs under the same key (case 68a).
	if r := w.send(pay("fresh", body1)); r.want(http.StatusCreated).ID == "" || r.replayed() {
		t.Error("the key was spent by an invalid request")
	}
}

// TestAllFaultsAtOnce: a client learns of every fault from one answer.
func TestAllFaultsAtOnce(t *testing.T) {
	w := newWorld(t, setup{})
	v := w.send(pay("K", `{"amount":0,"currency":"usd","orderId":"","capture":1,"metadata":{"a":1}}`)).
		want(http.StatusBadRequest, "invalid-request", "fix")
	for _, pointer := range []string{
		"/amount", "/currency", "/orderId", "/capture", "/metadata/a", "/paymentMethodToken",
	} {
		v.wantFault(t, pointer)
	}
}

// TestLargestBody takes every limit exactly.
func TestLargestBody(t *testing.T) {
	w := newWorld(t, setup{})
	body := `{"amount":999999999999,"currency":"USD","paymentMethodToken":"` + strings.Repeat("t", 255) + `",
		"orderId":"` + strings.Repeat("ü", 255) + `","description":"` + strings.Repeat("🙂", 1000) + `",` +
		pairs(20, 40, 500) + `}`
	v := w.send(pay("K", body)).want(http.StatusCreated)
	if v.Amount != 999999999999 || len(v.Metadata) != 20 || v.OrderID != strings.Repeat("ü", 255) ||
		v.Description != strings.Repeat("🙂", 1000) {
		t.Errorf("it came back as %+v", v)
	}
	small := w.send(pay("S", `{"amount":1,"currency":"USD","paymentMethodToken":"t","description":"","metadata":{}}`))
	if v := small.want(http.StatusCreated); v.Amount != 1 || strings.Contains(string(small.body), "metadata") {
		t.Errorf("it came back as %s", small.body)
	}
}

func TestInvalidRefundBodies(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("P", body1)).want(http.StatusCreated)
	for body, pointer := range map[string]string{
		`{"amount":null}`: "/amount", `{"amount":0}`: "/amount", `{"amount":-1}`: "/amount", `{"amount":1.0}`: "/amount",
		`{"amount":9223372036854775807}`: "/amount", `{"reason":null}`: "/reason", `{"currency":"USD"}`: "/currency",
		`{"reason":"` + strings.Repeat("r", 501) + `"}`: "/reason", ``: "", `[]`: "",
	} {
		v := w.send(refund(p.ID, "R", body)).want(http.StatusBadRequest, "invalid-request", "fix")
		v.wantFault(t, pointer)
	}
	w.wantMoved("charge 1000 usd")
	w.send(refund(p.ID, "R", `{"reason":"`+strings.Repeat("r", 500)+`"}`)).want(http.StatusCreated)
}

func TestMediaTypes(t *testing.T) {
	w := newWorld(t, setup{})
	for _, types := range [][]string{
		nil, {""}, {"text/plain"}, {"application/x-www-form-urlencoded"}, {"application/jsonp"},
		{"application/json; charset=latin1"}, {"application/json", "application/json"},
	} {
		c := pay("K", body1)
		c.Header = http.Header{"Content-Type": types}
		w.send(c).want(http.StatusUnsupportedMediaType, "unsupported-media-type", "fix")
	}
	w.send(pay("K", body1).with("Content-Encoding", "gzip")).
		want(http.StatusUnsupportedMediaType, "unsupported-media-type", "fix")
	w.wantMoved()
	c := pay("K", body1)
	c.Header = http.Header{"Content-Type": {"Application/JSON; charset=UTF-8"}}
	w.send(c).want(http.StatusCreated)
}

// endless is a body that never ends and counts what was taken of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// TestTooLarge: with a length or chunked, a large body is 413 and is not read
// to its end (case 78).
func TestTooLarge(t *testing.T) {
	w := newWorld(t, setup{})
	body := bodyWith("tok_ok", `"description":"`+strings.Repeat("x", 64<<10)+`"`)
	w.send(pay("K", body)).want(http.StatusRequestEntityTooLarge, "too-large", "fix")
	const gigabyte = 1 << 30
	source := &endless{}
	request := must(pay("K", "").request(t.Context(), w.url))(t)
	request.Body, request.ContentLength = io.NopCloser(io.LimitReader(source, gigabyte)), -1
	resp := must(client.Do(request))(t)
	defer resp.Body.Close()
	text := must(io.ReadAll(resp.Body))(t)
	reply{t, resp.StatusCode, resp.Header, text}.want(http.StatusRequestEntityTooLarge, "too-large", "fix")
	if n := source.read.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
	if r := w.send(pay("K", body1)); r.want(http.StatusCreated).ID == "" || r.replayed() {
		t.Error("the key was spent by a large request")
	}
}
