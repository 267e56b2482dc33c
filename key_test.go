package onlyonce_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce"
)

func TestKeyValidate(t *testing.T) {
	for name, c := range map[string]struct {
		key onlyonce.Key
		ok  bool
	}{
		"plain":             {onlyonce.Key{Account: "17", Name: "abc"}, true},
		"255 characters":    {onlyonce.Key{Account: "17", Name: strings.Repeat("k", 255)}, true},
		"256 characters":    {onlyonce.Key{Account: "17", Name: strings.Repeat("k", 256)}, false},
		"both ends":         {onlyonce.Key{Account: "17", Name: " ~"}, true},
		"empty":             {onlyonce.Key{Account: "17"}, false},
		"blank":             {onlyonce.Key{Account: "17", Name: "   "}, false},
		"tab":               {onlyonce.Key{Account: "17", Name: "a\tb"}, false},
		"DEL":               {onlyonce.Key{Account: "17", Name: "a\x7f"}, false},
		"NUL":               {onlyonce.Key{Account: "17", Name: "\x00"}, false},
		"not ASCII":         {onlyonce.Key{Account: "17", Name: "é"}, false},
		"no account":        {onlyonce.Key{Name: "abc"}, false},
		"account of 64":     {onlyonce.Key{Account: strings.Repeat("a", 64), Name: "abc"}, true},
		"account of 65":     {onlyonce.Key{Account: strings.Repeat("a", 65), Name: "abc"}, false},
		"quotes and slash":  {onlyonce.Key{Account: "17", Name: `"../"`}, true},
		"trailing blank":    {onlyonce.Key{Account: "17", Name: "abc "}, true},
		"account not UTF-8": {onlyonce.Key{Account: "\xff", Name: "abc"}, false},
		"account with NUL":  {onlyonce.Key{Account: "a\x00", Name: "abc"}, false},
		"account not ASCII": {onlyonce.Key{Account: "é", Name: "abc"}, true},
	} {
		err := c.key.Validate()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !errors.Is(err, onlyonce.ErrInvalidKey) {
			t.Errorf("%s: %v does not wrap ErrInvalidKey", name, err)
		}
	}
}

func TestKeyStringCannotBreakALog(t *testing.T) {
	got := onlyonce.Key{Account: "a\nb", Name: "k\"\n"}.String()
	if strings.Contains(got, "\n") {
		t.Errorf("%q holds a line break", got)
	}
}

func TestFingerprintKnowsWhereAPartEnds(t *testing.T) {
	a := onlyonce.NewFingerprint([]byte("ab"), []byte("c"))
	b := onlyonce.NewFingerprint([]byte("a"), []byte("bc"))
	if a == b || a != onlyonce.NewFingerprint([]byte("ab"), []byte("c")) {
		t.Error("equal parts must give equal fingerprints, and nothing else")
	}
	if !a.Known() {
		t.Error("a fresh fingerprint must be known")
	}
	for _, other := range []onlyonce.Fingerprint{"", "\x02" + a[1:], a[:32], a + "x"} {
		if other.Known() {
			t.Errorf("%x must not be known", string(other))
		}
	}
}

// The derivation is a promise to every provider that has seen a key: a change
// of it would make a second charge possible.
func TestDeriveNeverChanges(t *testing.T) {
	sum := onlyonce.Derive("installation", "17", "k-1", "payments.create", "0")
	const want = "cc67f45c80bb85e3856496af53671a6eb194c3c089406201dde35ddbd0cf7408"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("derived %s, want %s", got, want)
	}
}
