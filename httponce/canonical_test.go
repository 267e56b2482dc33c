package httponce_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onlyonce-go/onlyonce/httponce"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{` { "b" : 1 , "a" : [ true , null ] } `, `{"a":[true,null],"b":1}`}, // case 15
		{`{"\u0061":"\u00e9\/"}`, `{"a":"é/"}`},
		{`{"n":9007199254740993,"m":9007199254740992}`, `{"m":9007199254740992,"n":9007199254740993}`}, // case 17
		{`[1.0,1e0,1,-0,0.10,123456789012345678901234567890.50]`,
			`[1.0,1e0,1,-0,0.10,123456789012345678901234567890.50]`},
		{`"e\u0301"`, "\"e\u0301\""}, // code points, not normalised
		{`"\ud83d\udcb8"`, `"💸"`},    // a surrogate pair is one character
		{`"\\u0000"`, `"\\u0000"`},   // a backslash and digits, no NUL
		{`{"":{"b":{},"a":[]}}`, `{"":{"a":[],"b":{}}}`},
		{strings.Repeat("[", 32) + strings.Repeat("]", 32), strings.Repeat("[", 32) + strings.Repeat("]", 32)},
	} {
		got, err := httponce.Canonical([]byte(c.in))
		if err != nil || string(got) != c.out {
			t.Errorf("%s: got %s, %v; want %s", c.in, got, err, c.out)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, pointer string }{
		"empty":              {``, ""},
		"blank":              {" \n", ""},
		"cut off":            {`{"a":1`, ""},
		"trailing value":     {`{"a":1} {"a":2}`, ""},
		"trailing junk":      {`{"a":1}]`, ""},
		"duplicate":          {`{"a":1,"a":1}`, "/a"},
		"duplicate, escaped": {`{"a":1,"\u0061":2}`, "/a"},
		"duplicate, nested":  {`{"m":[{"a/b":1,"a\/b":1}]}`, "/m/0/a~1b"},
		"NUL in a string":    {`{"a":1,"description":"a\u0000b"}`, "/description"}, // case 8
		"NUL in a name":      {`{"a\u0000":1}`, "/a\x00"},
		"raw NUL":            {"{\"a\":\"\x00\"}", "/a"},
		"invalid UTF-8":      {"{\"a\":\"\xff\"}", "/a"},
		"lone surrogate":     {`{"a":["\ud800"]}`, "/a/0"},
		"lone low surrogate": {`{"a":"\udc00x"}`, "/a"},
		"too deep":           {strings.Repeat("[", 33) + strings.Repeat("]", 33), strings.Repeat("/0", 32)},
		"far too deep":       {strings.Repeat(`{"a":`, 60000), strings.Repeat("/a", 32)},
		"byte order mark":    {"\xef\xbb\xbf{}", ""},
		"comment":            {`{/**/}`, ""},
		"leading zero":       {`{"a":01}`, ""},
		"not a number":       {`{"a":NaN}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := httponce.Canonical([]byte(c.in))
			p := asProblem(t, err)
			if p.Status != 400 || p.Type != "invalid-request" || len(p.Errors) != 1 {
				t.Fatalf("got %v", p)
			}
			if c.pointer != "" && p.Errors[0].Pointer != c.pointer {
				t.Errorf("pointer %q, want %q (%s)", p.Errors[0].Pointer, c.pointer, p.Errors[0].Detail)
			}
		})
	}
}

// A request's fingerprint follows the meaning of its body and nothing else.
func TestFingerprint(t *testing.T) {
	of := func(method, path, query, body string) any {
		canonical, err := httponce.Canonical([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return httponce.Fingerprint(method, path, query, canonical)
	}
	base := of("POST", "/payments", "", body1)
	if base != of("POST", "/payments", "", "{\n\"currency\" : \"USD\", \"amount\":1000 }") {
		t.Error("member order or white space counts") // case 15
	}
	for name, other := range map[string]any{
		"method": of("PUT", "/payments", "", body1), // case 13
		"path":   of("POST", "/payments/1/refunds", "", body1),
		"query":  of("POST", "/payments", "x=1", body1),
		"body":   of("POST", "/payments", "", body2),
		"shift":  of("POST", "/payment", "s", body1),
		"digit":  of("POST", "/payments", "", `{"amount":1000.0,"currency":"USD"}`),
		"escape": of("POST", "/payments", "", `{"amount":1000,"currency":"usd"}`),
	} {
		if other == base {
			t.Errorf("%s does not count", name)
		}
	}
	// Case 17: the last digit above 2^53 counts.
	if of("POST", "/", "", `{"amount":9007199254740992}`) == of("POST", "/", "", `{"amount":9007199254740993}`) {
		t.Error("2^53 and 2^53+1 are one")
	}
}

// tree generates JSON values; write spells one in a random way that means the same.
func tree(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?`),
			func(s string) any { return json.Number(s) }),
		rapid.Map(rapid.StringMatching(`[ -~é💸\n]{0,8}`), func(s string) any { return s }),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(tree(depth-1), 0, 4), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-cé💸\x{FFFD}"/~]{0,3}`), tree(depth-1), 0, 4),
			func(m map[string]any) any { return m }))
}

func write(t *rapid.T, b *bytes.Buffer, v any) {
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")) }
	space()
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names) // a seed must repeat; the next line shuffles
		b.WriteByte('{')
		for i, name := range rapid.Permutation(names).Draw(t, "order") {
			if i > 0 {
				b.WriteByte(',')
			}
			write(t, b, name)
			b.WriteByte(':')
			write(t, b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(t, b, e)
		}
		b.WriteByte(']')
	case string:
		b.WriteByte('"')
		for _, r := range v {
			if r < ' ' || r == '"' || r == '\\' || r < 0x10000 && rapid.Bool().Draw(t, "escape") {
				fmt.Fprintf(b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
		b.WriteByte('"')
	case json.Number:
		b.WriteString(string(v))
	default:
		fmt.Fprint(b, map[any]string{nil: "null", true: "true", false: "false"}[v])
	}
	space()
}

func TestCanonicalIsOneForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := tree(3).Draw(t, "value")
		var one, two bytes.Buffer
		write(t, &one, v)
		write(t, &two, v)
		a, err := httponce.Canonical(one.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", &one, err)
		}
		b, err := httponce.Canonical(two.Bytes())
		if err != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s is %s, but %s is %s, %v", &one, a, &two, b, err)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		body1, `{"a":1,"\u0061":2}`, `{"a":"\u0000"}`, `[1e5,-0,0.10]`, `"\ud800"`, "\xff", `{}{}`, `{"b":{},"a":[]}`,
		strings.Repeat("[", 40), `{"é":1,"e\u0301":2,"\uffff":3,"💸":4}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		once, err := httponce.Canonical(body)
		if err != nil {
			asProblem(t, err)
			return
		}
		twice, err := httponce.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q is %q, and that is %q, %v", body, once, twice, err)
		}
		if !json.Valid(once) || bytes.Contains(once, []byte(`\u0000`)) && !bytes.Contains(once, []byte(`\\u0000`)) {
			t.Fatalf("%q is %q", body, once)
		}
	})
}
