package sandbox_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
)

// The sandbox is killed between the charge and its answer: what it did is in
// its file, and the key knows it.
func TestAChargeSurvivesKill9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.db")
	child, kill := spawn(t, path, time.Hour)
	seen := make(chan answer, 1)
	go func() { seen <- child.pay("k", "tok_timeout_charged") }()
	child.await(func() bool { return child.moved("charge") == 1 })
	kill()
	if a := <-seen; a.err == nil {
		t.Fatalf("it was answered: %+v", a)
	}
	b := open(t, sandbox.Options{Path: path})
	if got := say(b.pay("k", "tok_timeout_charged")); got != "succeeded replayed" {
		t.Errorf("after the restart: %s", got)
	}
	if n := b.moved("charge"); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// A process dies inside a slow charge: its key stays in use for the lease and
// not for ever.
func TestAKeyLeftInProgressIsFreedByItsLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.db")
	child, kill := spawn(t, path, time.Hour)
	go child.do(context.Background(), http.MethodPost, "/v1/payment_intents", "k", payment("tok_slow", "2500", "usd"))
	child.await(func() bool {
		return child.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k", "").object.Error.Type == "idempotency_error"
	})
	kill()
	var late time.Duration
	b := open(t, sandbox.Options{Path: path, Now: func() time.Time { return time.Now().Add(late) }})
	if got := say(b.pay("k", "tok_slow")); got != "idempotency_key_in_use" {
		t.Errorf("within the lease: %s", got)
	}
	late = 2 * time.Hour
	if got := say(b.pay("k", "tok_slow")); got != "succeeded" {
		t.Errorf("after the lease: %s", got)
	}
	if n := b.moved("charge"); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}
