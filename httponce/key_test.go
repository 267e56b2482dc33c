package httponce_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
)

func TestParseKey(t *testing.T) {
	long := strings.Repeat("k", 255)
	for _, c := range []struct{ sent, key string }{
		{"abc-1", "abc-1"},
		{`"abc-1"`, "abc-1"}, // case 10
		{`"a\"b\\c"`, `a"b\c`},
		{`"abc "`, "abc "}, // a space inside quotes counts
		{" \tabc\t ", "abc"},
		{"a b,c;x=1", "a b,c;x=1"},
		{`a"b`, `a"b`},
		{"../etc", "../etc"},
		{"~!", "~!"},
		{long, long}, // case 5
		{`"` + long + `"`, long},
	} {
		got, err := httponce.ParseKey(http.Header{"Idempotency-Key": {c.sent}})
		if err != nil || got != c.key {
			t.Errorf("%q: got %q, %v; want %q", c.sent, got, err, c.key)
		}
	}
}

// Cases 1, 2, 5, 9, 10: all of these are 400, and nothing of them is echoed.
func TestParseKeyRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		sent []string
		kind string
	}{
		"missing":            {nil, "key-missing"},
		"empty":              {[]string{""}, "key-invalid"},
		"blank":              {[]string{"   "}, "key-invalid"},
		"quoted empty":       {[]string{`""`}, "key-invalid"},
		"quoted blank":       {[]string{`"  "`}, "key-invalid"},
		"256":                {[]string{strings.Repeat("k", 256)}, "key-invalid"},
		"parameter":          {[]string{`"abc-1";x=1`}, "key-invalid"},
		"unterminated":       {[]string{`"unterminated`}, "key-invalid"},
		"text after quotes":  {[]string{`"abc"d`}, "key-invalid"},
		"two items":          {[]string{`"abc", "def"`}, "key-invalid"},
		"bad escape":         {[]string{`"a\n"`}, "key-invalid"},
		"twice":              {[]string{"abc-1", "abc-1"}, "key-invalid"},
		"twice, once empty":  {[]string{"abc-1", ""}, "key-invalid"},
		"emoji":              {[]string{"pay-💸"}, "key-invalid"},
		"quoted emoji":       {[]string{`"pay-💸"`}, "key-invalid"},
		"latin-1":            {[]string{"pay-\xe9"}, "key-invalid"},
		"tab inside":         {[]string{"a\tb"}, "key-invalid"},
		"DEL":                {[]string{"a\x7fb"}, "key-invalid"},
		"line break":         {[]string{"abc\r\nSet-Cookie: x=1"}, "key-invalid"},
		"NUL":                {[]string{"a\x00b"}, "key-invalid"},
		"quoted DEL":         {[]string{"\"a\x7fb\""}, "key-invalid"},
		"only a quote":       {[]string{`"`}, "key-invalid"},
		"only a tab":         {[]string{"\t"}, "key-invalid"},
		"quoted and too big": {[]string{`"` + strings.Repeat("k", 256) + `"`}, "key-invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			if c.sent != nil {
				h["Idempotency-Key"] = c.sent
			}
			_, err := httponce.ParseKey(h)
			p := asProblem(t, err)
			if p.Status != 400 || p.Type != c.kind || p.Retry != httponce.RetryFix {
				t.Errorf("got %d %s %s", p.Status, p.Type, p.Retry)
			}
			for _, sent := range c.sent {
				if len(sent) > 3 && strings.Contains(p.Detail, strings.Trim(sent, `"`)) {
					t.Errorf("the detail repeats what was sent: %q", p.Detail)
				}
			}
		})
	}
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"abc", `"abc"`, `"a\"b"`, `"abc";x=1`, `"`, "", " ", "\x7f", "💸", "a\tb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		name, err := httponce.ParseKey(http.Header{"Idempotency-Key": {sent}})
		if err != nil {
			if asProblem(t, err).Status != 400 {
				t.Fatalf("%q: %v", sent, err)
			}
			return
		}
		if err := (onlyonce.Key{Account: "a", Name: name}).Validate(); err != nil {
			t.Fatalf("%q was accepted as %q: %v", sent, name, err)
		}
		// Whatever was accepted can be sent quoted and is the same key.
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		again, err := httponce.ParseKey(http.Header{"Idempotency-Key": {quoted}})
		if err != nil || again != name {
			t.Fatalf("%q is %q, but %q is %q, %v", sent, name, quoted, again, err)
		}
	})
}
