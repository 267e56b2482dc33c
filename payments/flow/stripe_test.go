package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

// newStripeWorld is a world whose provider is the real adapter, over HTTP,
// against the sandbox, which shares the world's clock.
func newStripeWorld(t *testing.T, b *bed) (w *world, url string) {
	t.Helper()
	g := b.take(t)
	path := filepath.Join(t.TempDir(), "sandbox.db")
	box, err := sandbox.Open(t.Context(), sandbox.Options{Path: path, Now: g.clock.now})
	must(t, err)
	server := httptest.NewUnstartedServer(box.Handler())
	_ = server.Listener.Close()
	server.Listener = listen(t)
	server.Start()
	t.Cleanup(func() {
		must(t, box.Close())
		server.Close()
	})
	client, err := stripe.New(stripe.Options{URL: server.URL, Key: "sk_test_1", Now: g.clock.now})
	must(t, err)
	// Longer than a call takes on this machine; if not, it is one more unknown.
	const timeout = 500 * time.Millisecond
	return b.world(t, setup{ground: g, provider: client, flow: flow.Options{ProviderTimeout: timeout}}), server.URL
}

// listen takes a loopback port below the ephemeral ones.
func listen(t *testing.T) net.Listener {
	t.Helper()
	var errs error
	for range 50 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			return l
		}
		errs = errors.Join(errs, err)
	}
	t.Fatal(errs)
	return nil
}

// moved adds up what the sandbox's ledger says of a resource.
func moved(t *testing.T, url, resource string) (times int, amount int64) {
	t.Helper()
	resp, err := http.Get(url + "/sandbox/ledger")
	must(t, err)
	defer resp.Body.Close()
	var ledger struct {
		Data []struct {
			Amount   int64             `json:"amount"`
			Status   string            `json:"status"`
			Metadata map[string]string `json:"metadata"`
		} `json:"data"`
	}
	must(t, json.NewDecoder(resp.Body).Decode(&ledger))
	for _, e := range ledger.Data {
		ours := e.Metadata["onlyonce_payment"] == resource || e.Metadata["onlyonce_refund"] == resource
		if ours && e.Status == "succeeded" {
			times, amount = times+1, amount+e.Amount
		}
	}
	return times, amount
}

// settle lets the ladder run until the key is finished.
func (w *world) settle(key string) {
	w.t.Helper()
	const looks = 60 // the ladder up to the proof of absence has fewer
	for range looks {
		rec := w.record(key)
		if rec.Status == onlyonce.Completed {
			return
		}
		w.clock.reach(w.dispatch(rec.Resource).next)
		w.sweep()
	}
	w.t.Fatalf("%s is not settled: %s", key, w.log)
}

// TestSandboxFates pays and refunds against the real adapter and the sandbox,
// whose tokens make every kind of trouble: the sandbox's ledger is the judge.
func TestSandboxFates(t *testing.T) { onSome(t, testSandboxFates) }

func testSandboxFates(t *testing.T, b *bed) {
	states := map[string]payments.State{
		"ok": "succeeded", "declined": "failed", "insufficient_funds": "failed", "timeout_charged": "succeeded",
		"timeout_lost": "succeeded", "error_charged": "succeeded", "error_lost": "failed", "reset_charged": "succeeded",
		"garbage_charged": "succeeded", "busy": "succeeded",
	}
	for fate, want := range states {
		for _, kind := range []payments.Kind{payments.KindPayment, payments.KindRefund} {
			t.Run(string(kind)+"/"+fate, func(t *testing.T) {
				t.Parallel()
				w, url := newStripeWorld(t, b)
				pay := func(key, token string) (flow.Answer, error) {
					return w.flow.Pay(t.Context(), intentOf(key, flow.OpPayment, token), flow.PaymentRequest{
						Amount: usd(10000), Method: token, OrderID: key, RequestID: "req_" + key,
					})
				}
				send, amount := func() (flow.Answer, error) { return pay("k", "tok_"+fate) }, int64(10000)
				if kind == payments.KindRefund {
					_, err := pay("paid", "tok_refund_"+fate)
					must(t, err)
					w.settle("paid")
					id := w.record("paid").Resource
					send, amount = func() (flow.Answer, error) { return w.refund("k", id, 6000) }, 6000
				}
				_, err := send()
				must(t, err)
				w.settle("k")
				id := w.record("k").Resource
				state, _ := w.state(id)
				times, total := moved(t, url, id)
				if state != want || want == payments.Succeeded && (times != 1 || total != amount) ||
					want == payments.Failed && times != 0 {
					t.Errorf("the end is %s, want %s; it moved %d times, %d; %q", state, want, times, total, types(w.timeline(id)))
				}
				rec := w.record("k")
				if a, err := send(); err != nil || a.Outcome == nil || !sameOutcome(*a.Outcome, *rec.Outcome) {
					t.Errorf("the replay is %s", show(a, err))
				}
			})
		}
	}
}
