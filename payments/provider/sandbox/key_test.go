package sandbox_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
)

func TestAKeyIsBoundToItsRequest(t *testing.T) {
	b := open(t, sandbox.Options{})
	charge := b.pay("k", "tok_ok")
	for name, a := range map[string]answer{
		"another amount":   b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k", payment("tok_ok", "2501", "usd")),
		"another token":    b.pay("k", "tok_declined"),
		"another endpoint": b.refund("k", charge.object.ID, "1"),
		"nothing":          b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k", ""),
	} {
		if a.status != http.StatusBadRequest || a.object.Error.Type != "idempotency_error" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := b.pay("k", "tok_ok"); !a.replayed || a.body != charge.body {
		t.Errorf("the original no longer replays: %+v", a)
	}
	if n := len(b.ledger()); n != 1 {
		t.Errorf("%d movements, want 1", n)
	}
}

func TestAnInvalidRequestDoesNotSpendItsKey(t *testing.T) {
	b := open(t, sandbox.Options{})
	for name, form := range map[string]string{
		"no amount":       payment("tok_ok", "", "usd"),
		"zero":            payment("tok_ok", "0", "usd"),
		"negative":        payment("tok_ok", "-1", "usd"),
		"decimal":         payment("tok_ok", "8.03", "usd"),
		"exponent":        payment("tok_ok", "1e3", "usd"),
		"beyond int64":    payment("tok_ok", "9223372036854775808", "usd"),
		"currency":        payment("tok_ok", "1", "zzz"),
		"no token":        payment("", "1", "usd"),
		"unknown":         payment("tok_ok", "1", "usd") + "&captured=1",
		"twice":           payment("tok_ok", "1", "usd") + "&amount=2",
		"long metadata":   payment("tok_ok", "1", "usd") + "&metadata[" + string(make([]byte, 41)) + "]=1",
		"not a form":      "%zz",
		"not confirmed":   "amount=1&currency=usd&payment_method=tok_ok",
		"nothing at all":  "",
		"unknown refund":  "payment_intent=pi_1",
		"empty meta name": payment("tok_ok", "1", "usd") + "&metadata[]=1",
	} {
		a := b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k", form)
		if a.status != http.StatusBadRequest || a.replayed {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := b.pay("k", "tok_ok"); a.status != http.StatusOK || a.replayed {
		t.Errorf("the key was spent: %+v", a)
	}
}

func TestAForgottenKeyIsANewCharge(t *testing.T) {
	start := time.Now()
	var later atomic.Int64
	b := open(t, sandbox.Options{
		KeyWindow: time.Minute, Now: func() time.Time { return start.Add(time.Duration(later.Load())) },
	})
	first := b.pay("k", "tok_ok")
	later.Store(int64(time.Minute - time.Microsecond))
	if a := b.pay("k", "tok_ok"); !a.replayed || a.object.ID != first.object.ID {
		t.Errorf("inside the window: %+v", a)
	}
	later.Store(int64(time.Minute + time.Microsecond))
	if a := b.pay("k", "tok_ok"); a.replayed || a.object.ID == first.object.ID {
		t.Errorf("past the window: %+v", a)
	}
	if n := b.moved("charge"); n != 2 {
		t.Errorf("%d charges, want 2", n)
	}
	if f := b.Facts(); f.KeyWindow != time.Minute || f.AbsenceGrace != time.Minute {
		t.Errorf("facts %+v", f)
	}
}

func TestWithoutAKeyEverySendIsACharge(t *testing.T) {
	b := open(t, sandbox.Options{SlowBy: time.Millisecond})
	for _, token := range []string{"tok_ok", "tok_ok", "tok_slow"} {
		if a := b.pay("", token); a.status != http.StatusOK || a.replayed {
			t.Errorf("%s: %+v", token, a)
		}
	}
	if n := b.moved("charge"); n != 3 {
		t.Errorf("%d charges, want 3", n)
	}
}

func TestFiftySendsUnderOneKeyAreOneCharge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.db")
	boxes := []box{open(t, sandbox.Options{Path: path}), open(t, sandbox.Options{Path: path})}
	for _, token := range []string{"tok_ok", "tok_slow"} {
		t.Run(token, func(t *testing.T) {
			var fresh, replayed, inUse atomic.Int32
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					switch a := boxes[i%2].pay(token, token); {
					case a.status == http.StatusOK && !a.replayed:
						fresh.Add(1)
					case a.status == http.StatusOK:
						replayed.Add(1)
					case a.status == http.StatusConflict:
						inUse.Add(1)
					default:
						t.Errorf("unexpected: %+v", a)
					}
				})
			}
			all.Wait()
			if fresh.Load() != 1 || fresh.Load()+replayed.Load()+inUse.Load() != 50 {
				t.Errorf("%d fresh, %d replayed, %d in use", fresh.Load(), replayed.Load(), inUse.Load())
			}
		})
	}
	if n := boxes[0].moved("charge"); n != 2 {
		t.Errorf("%d charges, want one per token", n)
	}
}

// The provider does not stop when its client hangs up.
func TestASlowChargeOutlivesItsClient(t *testing.T) {
	b := open(t, sandbox.Options{SlowBy: 300 * time.Millisecond})
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	first := make(chan answer, 1)
	go func() { first <- b.payAs(ctx, "k", "tok_slow") }()
	b.await(func() bool {
		return b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k", "").object.Error.Type == "idempotency_error"
	})
	hangUp()
	if a := <-first; a.err == nil {
		t.Fatalf("it was answered: %+v", a)
	}
	b.await(func() bool { return b.moved("charge") == 1 })
	if got := say(b.pay("k", "tok_slow")); got != "succeeded replayed" {
		t.Errorf("the next send: %s", got)
	}
}

// A slow charge that was paused past its lease finds that another send has
// done the work, and gives that one's answer.
func TestASlowChargeThatWasOvertakenReplays(t *testing.T) {
	var late atomic.Int64
	b := open(t, sandbox.Options{
		SlowBy: time.Second, Now: func() time.Time { return time.Now().Add(time.Duration(late.Load())) },
	})
	first := make(chan answer, 1)
	go func() { first <- b.pay("k", "tok_slow") }()
	b.await(func() bool {
		return b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "k", "").object.Error.Type == "idempotency_error"
	})
	late.Store(int64(time.Hour))
	second := b.pay("k", "tok_slow")
	if got := say(second); got != "succeeded" {
		t.Errorf("the second send: %s", got)
	}
	if a := <-first; !a.replayed || a.body != second.body || b.moved("charge") != 1 {
		t.Errorf("the first send: %+v, %d charges", a, b.moved("charge"))
	}
}

func TestTwoSandboxesOnOneFileAreOneProvider(t *testing.T) {
	path := filepath.Join(t.TempDir(), "with space?&%41.db")
	a := open(t, sandbox.Options{Path: path, SlowBy: time.Hour})
	b := open(t, sandbox.Options{Path: path})
	if a.ID() == "" || a.ID() != b.ID() {
		t.Errorf("ids %q and %q", a.ID(), b.ID())
	}
	first := a.pay("k", "tok_ok")
	if second := b.pay("k", "tok_ok"); !second.replayed || second.body != first.body {
		t.Errorf("the other does not replay: %+v", second)
	}
	slow := make(chan answer, 1)
	go func() { slow <- a.pay("slow", "tok_slow") }()
	a.await(func() bool {
		return b.do(t.Context(), http.MethodPost, "/v1/payment_intents", "slow", "").object.Error.Type == "idempotency_error"
	})
	if got := say(b.pay("slow", "tok_slow")); got != "idempotency_key_in_use" {
		t.Errorf("while the first runs: %s", got)
	}
	if err := a.Close(); err != nil { // the slow one is cut off and charges nothing
		t.Fatal(err)
	}
	if got := <-slow; got.err == nil || b.moved("charge") != 1 {
		t.Errorf("%+v, %d charges", got, b.moved("charge"))
	}
}
