package server_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestKeyHeader is the contract's section on Idempotency-Key (cases 1, 2, 5,
// 9 and 10): what can't be a key is 400, before anything is stored.
func TestKeyHeader(t *testing.T) {
	w := newWorld(t, setup{})
	tests := []struct {
		name   string
		values []string // nil: no such header
		want   string   // the problem, "" if it is a key
	}{
		{"missing", nil, "key-missing"},
		{"empty", []string{""}, "key-invalid"},
		{"blank", []string{"   "}, "key-invalid"},
		{"quoted empty", []string{`""`}, "key-invalid"},
		{"quoted blank", []string{`"  "`}, "key-invalid"},
		{"unterminated", []string{`"unterminated`}, "key-invalid"},
		{"parameters", []string{`"abc-1";x=1`}, "key-invalid"},
		{"two lines", []string{"abc-1", "abc-1"}, "key-invalid"},
		{"256 characters", []string{strings.Repeat("k", 256)}, "key-invalid"},
		{"256 quoted", []string{`"` + strings.Repeat("k", 256) + `"`}, "key-invalid"},
		{"high bytes", []string{"k\x80\xff"}, "key-invalid"},
		{"Latin-1", []string{"k\xe9"}, "key-invalid"},
		{"emoji", []string{"k🙂"}, "key-invalid"},
		{"tab inside", []string{"a\tb"}, "key-invalid"},
		{"255 characters", []string{strings.Repeat("k", 255)}, ""},
		{"255 quoted", []string{`"` + strings.Repeat("q", 255) + `"`}, ""},
		{"path", []string{"../../etc/passwd"}, ""},
		{"quotes inside", []string{`a"b'c`}, ""},
		{"one character", []string{"~"}, ""},
	}
	charges := 0
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := pay("", body1)
			c.Header = http.Header{"Idempotency-Key": test.values}
			r := w.send(c)
			if test.want == "" {
				r.want(http.StatusCreated)
				charges++
				return
			}
			r.want(http.StatusBadRequest, test.want, "fix")
			for _, value := range test.values {
				if len(strings.TrimSpace(value)) > 2 && strings.Contains(string(r.body), value) {
					t.Errorf("the answer repeats what was sent: %s", r.body)
				}
			}
			// The same for a refund, and whatever the second body is.
			c = refund("pay_x", "", "{}")
			c.Header = http.Header{"Idempotency-Key": test.values}
			w.send(c).want(http.StatusBadRequest, test.want, "fix")
		})
	}
	if got := len(w.ledger()); got != charges {
		t.Errorf("%d charges, want %d", got, charges)
	}
	if strings.Contains(w.log.String(), "etc/passwd\"\n") || strings.Contains(w.log.String(), "\tb") {
		t.Error("a key stands in the log as it came")
	}
}

// TestKeyMissingTwice: callers without a key share nothing (case 1).
func TestKeyMissingTwice(t *testing.T) {
	w := newWorld(t, setup{})
	w.send(pay("", body1)).want(http.StatusBadRequest, "key-missing", "fix")
	w.send(pay("", body2)).want(http.StatusBadRequest, "key-missing", "fix")
	w.wantMoved()
}

// TestBareAndQuotedKeyAreOne (case 10).
func TestBareAndQuotedKeyAreOne(t *testing.T) {
	w := newWorld(t, setup{})
	first := w.send(pay("abc-1", body1))
	first.want(http.StatusCreated)
	w.send(pay(`"abc-1"`, body1)).wantReplayOf(first)
	w.send(pay("  abc-1 ", body1)).wantReplayOf(first)
	// A space inside the quotes is part of the key, and so is the case.
	for _, key := range []string{`"abc-1 "`, "ABC-1", "Abc-1"} {
		if r := w.send(pay(key, body1)); r.want(http.StatusCreated).ID == first.json().ID || r.replayed() {
			t.Errorf("%q was taken for abc-1", key)
		}
	}
	w.wantMoved("charge 1000 usd", "charge 1000 usd", "charge 1000 usd", "charge 1000 usd")
}
