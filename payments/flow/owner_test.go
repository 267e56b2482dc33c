package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

func isKeyError(err, target error) bool {
	var key *flow.KeyError
	return errors.As(err, &key) && errors.Is(err, target) && key.Record.Status != ""
}

// TestStaleOwnerWritesNothing pauses an owner in its provider call until
// another has taken its claim over, and lets it conclude then.
func TestStaleOwnerWritesNothing(t *testing.T) { onSome(t, testStaleOwnerWritesNothing) }

func testStaleOwnerWritesNothing(t *testing.T, b *bed) {
	for _, resolved := range []bool{false, true} {
		t.Run(fmt.Sprintf("resolved=%v", resolved), func(t *testing.T) {
			w := b.world(t, setup{})
			other := w.again(setup{})
			w.fake.before = func(string, payments.Dispatch) {
				w.fake.before = nil
				w.clock.advance(w.engine.Lease() + time.Second)
				if n, err := other.completer().Sweep(t.Context()); n != 1 || err != nil {
					t.Errorf("the completer took over %d, %v", n, err)
				}
				if resolved {
					other.sweep()
				}
			}
			// The paused owner sees a decline, of which the other must hear nothing.
			w.fake.script(reply{kind: payments.AnswerSucceeded, acts: true})
			if !resolved {
				w.fake.script(declines)
			}
			a, err := w.pay("k")
			id := w.record("k").Resource
			want, wantState := "payment pending_unknown", payments.PendingUnknown
			if resolved {
				want, wantState = "201 "+string(w.record("k").Outcome.Body)+" (replayed true)", payments.Succeeded
			}
			state, _ := w.state(id)
			if show(a, err) != want || state != wantState {
				t.Errorf("the stale owner answers %s and leaves %s; want %q", show(a, err), state, want)
			}
			if got := types(w.timeline(id)); strings.Contains(got, "answered") != resolved ||
				!strings.HasPrefix(got, "claimed sent taken_over") {
				t.Errorf("timeline %q", got)
			}
			w.finish("k", nil)
			w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
		})
	}
}

// TestPausedOwnerDoesNotSend: the deadline is set before phase 1, on the
// caller's clock, and leaves room for the call and its commit inside the lease.
func TestPausedOwnerDoesNotSend(t *testing.T) { onSome(t, testPausedOwnerDoesNotSend) }

func testPausedOwnerDoesNotSend(t *testing.T, b *bed) {
	const lease, timeout, wait = 40 * time.Second, 7 * time.Second, 9 * time.Second
	w := b.world(t, setup{
		engine: onlyonce.Options{Lease: lease}, flow: flow.Options{ProviderTimeout: timeout, CommitWait: wait},
	})
	began := w.clock.now()
	w.paid("quick", "")
	c := w.fake.seen("execute")[0]
	leaseEnd := w.leaseEnd("quick")
	if c.sendBy.Add(timeout+wait).After(leaseEnd) || c.sendBy.Before(began.Add(lease-timeout-wait)) {
		t.Errorf("begun at %v, send by %v, the lease ends at %v", began, c.sendBy, leaseEnd)
	}
	// The machine sleeps during the commit of phase 1.
	w.faults.watch = func(query string) {
		if query == "COMMIT" {
			w.faults.watch = nil
			w.clock.advance(lease - timeout - wait)
		}
	}
	a, err := w.pay("slept")
	id := w.record("slept").Resource
	if show(a, err) != "payment pending_unknown" || len(w.fake.made(id)) != 0 {
		t.Errorf("the owner that slept got %s and made %d charges", show(a, err), len(w.fake.made(id)))
	}
	if got := types(w.timeline(id)); got != "claimed sent not_sent" || w.dispatch(id).ambiguous {
		t.Errorf("timeline %q, %+v", got, w.dispatch(id))
	}
	w.finish("slept", nil)
	w.checkSettled("slept", func() (flow.Answer, error) { return w.pay("slept") })
}

// leaseEnd is when the claim under a key would have lapsed at the earliest.
func (w *world) leaseEnd(key string) time.Time {
	w.t.Helper()
	events := w.timeline(w.record(key).Resource)
	return events[0].At.Add(w.engine.Lease() + time.Millisecond) // that clock counts milliseconds
}

// TestPausedCheckDoesNotSend: the same for a re-send of the resolver.
func TestPausedCheckDoesNotSend(t *testing.T) { onSome(t, testPausedCheckDoesNotSend) }

func testPausedCheckDoesNotSend(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.fake.script(maybe)
	id := w.unknown("k")
	w.clock.reach(w.dispatch(id).next)
	w.faults.watch = func(query string) {
		if query == "COMMIT" {
			w.faults.watch = nil
			w.clock.advance(time.Minute)
		}
	}
	w.sweep()
	if state, _ := w.state(id); state == payments.Succeeded || len(w.fake.made(id)) != 0 {
		t.Errorf("the resolver slept past its deadline; the payment is %s", state)
	}
	w.finish("k", nil)
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}

// TestManyAtOnce: 50 requests with one key run the effect once.
func TestManyAtOnce(t *testing.T) { onEach(t, testManyAtOnce) }

func testManyAtOnce(t *testing.T, b *bed) {
	const requests = 50
	w := b.world(t, setup{})
	var wg sync.WaitGroup
	got := make([]string, requests)
	errs := make([]error, requests)
	begun, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.fake.before = func(string, payments.Dispatch) { once.Do(func() { close(begun) }); <-held }
	for i := range requests {
		wg.Go(func() {
			if i >= requests/2 {
				<-begun // half of them find it running, the others race for the claim
			}
			if i == requests-1 {
				close(held)
			}
			var a flow.Answer
			a, errs[i] = w.pay("k")
			got[i] = show(a, errs[i])
		})
	}
	wg.Wait()
	ran := 0
	for i := range requests {
		switch {
		case errs[i] == nil && strings.HasSuffix(got[i], "(replayed false)"):
			ran++
		case errs[i] == nil && strings.HasSuffix(got[i], "(replayed true)"), isKeyError(errs[i], onlyonce.ErrInFlight):
		default:
			t.Errorf("request %d got %s", i, got[i])
		}
	}
	if calls := len(w.fake.seen("")); ran != 1 || calls != 1 {
		t.Errorf("%d ran, %d calls", ran, calls)
	}
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}

// TestClientHangsUp is case 58 of the reports.
func TestClientHangsUp(t *testing.T) { onSome(t, testClientHangsUp) }

func testClientHangsUp(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	pay := func(key string) (flow.Answer, error) {
		return w.flow.Pay(ctx, intentOf(key, flow.OpPayment, ""), flow.PaymentRequest{
			Amount: usd(10000), Method: "pm_secret",
		})
	}
	w.fake.before = func(string, payments.Dispatch) { cancel() }
	for _, key := range []string{"during the call", "before it began"} {
		if a, err := pay(key); err != nil || a.Outcome == nil || a.Outcome.Status != 201 {
			t.Errorf("the client hung up %s: %s", key, show(a, err))
		}
		w.checkSettled(key, func() (flow.Answer, error) { return pay(key) })
	}
}

// TestPanickingProvider: the effect may have happened, so it is unknown, and
// the process goes on.
func TestPanickingProvider(t *testing.T) { onSome(t, testPanickingProvider) }

func testPanickingProvider(t *testing.T, b *bed) {
	for _, acts := range []bool{false, true} {
		w := b.world(t, setup{})
		w.always(reply{acts: acts, panicked: true}, reply{panicked: true})
		id := w.unknown("k")
		w.step(id) // the resolver outlives it, too
		if d := w.dispatch(id); !d.ambiguous {
			t.Errorf("a call that panicked does not count as ambiguous: %+v", d)
		}
		if !strings.Contains(w.log.String(), "the adapter broke") {
			t.Error("the panic was not logged")
		}
		w.fake.decide = nil
		w.finish("k", nil)
		w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
	}
}

// TestPanickingRenderer: what can't be rendered is not stored and not lost.
func TestPanickingRenderer(t *testing.T) { onSome(t, testPanickingRenderer) }

func testPanickingRenderer(t *testing.T, b *bed) {
	broken := true
	w := b.world(t, setup{flow: flow.Options{Render: func(r flow.Result) onlyonce.Outcome {
		if broken {
			panic("the renderer broke")
		}
		return render(r)
	}}})
	a, err := w.payOrder("k", "order")
	if show(a, err) != "payment pending_unknown" {
		t.Errorf("the client got %s", show(a, err))
	}
	w.clock.advance(w.engine.Lease() + time.Second)
	if n, err := w.completer().Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("the completer took over %d, %v", n, err)
	}
	w.sweep()
	if a, err = w.payOrder("k2", "order"); err == nil {
		t.Errorf("a refusal that can't be rendered: %s", show(a, err))
	}
	broken = false
	w.finish("k", nil)
	w.checkSettled("k", func() (flow.Answer, error) { return w.payOrder("k", "order") })
	if a, err = w.payOrder("k2", "order"); err != nil || a.Outcome == nil || a.Replayed {
		t.Errorf("the refused key was lost: %s", show(a, err))
	}
}
