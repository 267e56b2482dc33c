package httponce_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/httponce"
)

var payment = httponce.Object{
	{Name: "orderId", Kind: httponce.Text, Min: 1, Max: 255},
	{Name: "amount", Kind: httponce.Int, Required: true, Min: 1, Max: 999_999_999_999},
	{Name: "currency", Kind: httponce.Text, Required: true, Min: 3, Max: 3, Check: func(s string) string {
		if s != strings.ToUpper(s) {
			return "must be upper case"
		}
		return ""
	}},
	{Name: "metadata", Kind: httponce.Pairs, Max: 20, MaxName: 40, MaxValue: 500},
	{Name: "any", Kind: httponce.Int, Min: math.MinInt64, Max: math.MaxInt64},
}

func TestObject(t *testing.T) {
	v, err := payment.Decode([]byte(`{"amount":999999999999,"currency":"U\u0053D","orderId":"💸",
		"metadata":{"a":"","é":"x"},"any":-5}`))
	if err != nil {
		t.Fatal(err)
	}
	if v.Int("amount") != 999999999999 || v.Text("currency") != "USD" || v.Text("orderId") != "💸" || v.Int("any") != -5 {
		t.Errorf("got %+v", v)
	}
	if want := map[string]string{"a": "", "é": "x"}; !reflect.DeepEqual(v.Pairs("metadata"), want) {
		t.Errorf("got %v", v.Pairs("metadata"))
	}
	v, err = payment.Decode([]byte(body1))
	if err != nil || v.Text("orderId") != "" || v.Pairs("metadata") != nil || v.Int("amount") == 0 {
		t.Errorf("got %+v, %v", v, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a member that was not declared was read")
		}
	}()
	v.Text("amuont")
}

// Case 18, and 17 over HTTP: only plain integers inside the range.
func TestObjectNumbers(t *testing.T) {
	for _, n := range []string{
		"8.03", "1e3", "1E3", "1000.0", `"1000"`, "-0", "0", "-1", "1000000000000", "9007199254740993",
		"9223372036854775807", "9223372036854775808", "99999999999999999999999", "null", "true", "[1000]", "{}",
	} {
		plain := strings.Trim(n, "-0123456789") == "" && n != "-0"
		_, err := payment.Decode(fmt.Appendf(nil, `{"amount":%s,"currency":"USD"}`, n))
		p := asProblem(t, err)
		if p.Status != 400 || len(p.Errors) != 1 || p.Errors[0].Pointer != "/amount" {
			t.Errorf("%s: got %v", n, p)
		}
		if ranged := strings.HasPrefix(p.Errors[0].Detail, "must be from"); ranged != plain {
			t.Errorf("%s: %s", n, p.Errors[0].Detail)
		}
	}
}

// good begins a body whose required members are right.
const good = `{"amount":1,"currency":"USD",`

func TestObjectRefuses(t *testing.T) {
	long := strings.Repeat("é", 256)
	for name, c := range map[string]struct{ body, errors string }{
		"not an object": {`[]`, "=must be an object"},
		"empty":         {``, "=is empty"},
		"cut off":       {`{"amount":1`, "=breaks off"},
		"trailing":      {`{"amount":1,"currency":"USD"}{}`, "=is followed by"},
		"duplicate":     {`{"amount":1,"amount":1}`, "/amount=stands twice"},
		"nothing":       {`{}`, "/amount=is required|/currency=is required"},
		"unknown":       {good + `"a/b~c":[null]}`, "/a~1b~0c=is not a member"},
		"all at once": {`{"amount":"1","currency":"usd","x":1,"orderId":null}`,
			"/amount=must be a plain|/currency=must be upper|/x=is not a|/orderId=must not be null"},
		"too long":       {good + `"orderId":"` + long + `"}`, "/orderId=must have 1 to 255 characters, not 256"},
		"too short":      {good + `"orderId":""}`, "/orderId=must have 1 to 255"},
		"not text":       {`{"amount":1,"currency":["USD"]}`, "/currency=must be a string"},
		"NUL":            {good + `"orderId":"a\u0000"}`, "/orderId=must not contain the character NUL"},
		"NUL in a value": {good + `"metadata":{"a":"\u0000"}}`, "/metadata/a=must not contain the character NUL"},
		"pairs": {good + `"metadata":{"":"x","a":1,"b":null}}`,
			"/metadata/=must have a name|/metadata/a=must be a string|/metadata/b=must be a string"},
		"pair too long": {good + `"metadata":{"a":"` + strings.Repeat("x", 501) + `"}}`, "/metadata/a=must have 0 to 500"},
		"pairs twice":   {good + `"metadata":{"a":"x","a":"x"}}`, "/metadata/a=stands twice"},
		"pairs a list":  {good + `"metadata":[]}`, "/metadata=must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := payment.Decode([]byte(c.body))
			p := asProblem(t, err)
			if p.Status != 400 || p.Type != "invalid-request" {
				t.Fatalf("got %v", p)
			}
			wanted := strings.Split(c.errors, "|")
			if len(wanted) != len(p.Errors) {
				t.Fatalf("got %q, want %q", p.Errors, wanted)
			}
			for i, w := range wanted {
				pointer, detail, _ := strings.Cut(w, "=")
				if p.Errors[i].Pointer != pointer || !strings.HasPrefix(p.Errors[i].Detail, detail) {
					t.Errorf("got %q, want %q", p.Errors[i], w)
				}
			}
		})
	}
}

func TestObjectBounds(t *testing.T) {
	pairs := func(n int) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return good + `"metadata":{` + strings.Join(members, ",") + `}}`
	}
	if _, err := payment.Decode([]byte(pairs(20))); err != nil {
		t.Error(err)
	}
	_, err := payment.Decode([]byte(pairs(21)))
	if p := asProblem(t, err); p.Errors[0].Pointer != "/metadata" {
		t.Errorf("got %v", p)
	}
	var unknown []string
	for i := range 500 {
		unknown = append(unknown, fmt.Sprintf(`"u%d":0`, i))
	}
	_, err = payment.Decode([]byte("{" + strings.Join(unknown, ",") + "}"))
	if p := asProblem(t, err); len(p.Errors) != 20 {
		t.Errorf("%d faults are listed", len(p.Errors))
	}
}
