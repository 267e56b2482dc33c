package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

// TestSignIn is the contract's section on Authorization (case 14: nobody is
// told apart by anything but an API key).
func TestSignIn(t *testing.T) {
	w := newWorld(t, setup{})
	w.addKey(db.APIKey{Account: "A", Hash: db.HashKey("expired-0123456789"), Role: db.RoleAccount,
		ExpiresAt: time.Now().Add(-time.Hour)})
	w.addKey(db.APIKey{Account: "A", Hash: db.HashKey("operator-0123456789"), Role: "operator"})
	w.addKey(db.APIKey{Account: "C", Hash: db.HashKey("revoked-0123456789"), Role: db.RoleAccount})
	must(w.db.RevokeAPIKeys(t.Context(), "C"))(t)
	for _, authorization := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer wrong"}, {"Basic " + keyA}, {keyA}, {"Bearer " + keyA + " x"},
		{"Bearer " + strings.ToUpper(keyA)}, {"Bearer " + strings.Repeat("x", 600)}, {"Bearer " + keyA, "Bearer " + keyB},
		{"Bearer expired-0123456789"}, {"Bearer operator-0123456789"}, {"Bearer revoked-0123456789"},
	} {
		for _, c := range []call{
			pay("K", body1), pay("", "junk"), refund("pay_x", "K", "{}"), get("/payments"), get("/payments/x"),
			get("/payments/x/events"), get("/payments/x/refunds"), get("/refunds/x"),
		} {
			c.Header = http.Header{"Authorization": authorization}
			r := w.send(c)
			r.want(http.StatusUnauthorized, "unauthorized", "fix")
			if got := r.header.Get("WWW-Authenticate"); got != "Bearer" {
				t.Errorf("WWW-Authenticate is %q", got)
			}
		}
	}
	w.wantMoved()
	// None of them read or wrote the key: it is free.
	if r := w.send(pay("K", body1)); r.want(http.StatusCreated).ID == "" || r.replayed() {
		t.Errorf("the key was not free: %s", r.body)
	}
}

func TestSignInIgnoresTheCaseOfTheScheme(t *testing.T) {
	w := newWorld(t, setup{})
	for _, scheme := range []string{"bearer ", "BEARER  "} {
		c := get("/payments")
		c.Header = http.Header{"Authorization": {scheme + keyA}}
		w.send(c).want(http.StatusOK)
	}
}

func TestProbesNeedNoSignIn(t *testing.T) {
	w := newWorld(t, setup{})
	for _, path := range []string{"/healthz", "/readyz"} {
		c := get(path)
		c.Header = http.Header{"Authorization": nil}
		r := w.send(c)
		if r.status != http.StatusOK || string(r.body) != `{"status":"ok","version":"v0.0.0-test"}` {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
