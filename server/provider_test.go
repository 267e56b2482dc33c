package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/payments/provider"
	"github.com/onlyonce-go/onlyonce/server"
)

type providerOf = provider.Provider

// answering is a provider that gives one answer to every send.
type answering struct {
	provider.Provider
	answer payments.Answer
	then   func() // called once the answer is decided; may be nil
}

// Execute implements provider.Provider.
func (a answering) Execute(context.Context, payments.Dispatch, time.Time) payments.Answer {
	if a.then != nil {
		a.then()
	}
	return a.answer
}

// panicking is a provider whose adapter has a bug.
type panicking struct {
	provider.Provider
	prepare, execute *bool
}

// Prepare implements provider.Provider.
func (p panicking) Prepare(ctx context.Context, in payments.Instruction) (payments.Request, error) {
	if *p.prepare {
		panic("prepare: tok_secret")
	}
	return p.Provider.Prepare(ctx, in)
}

// Execute implements provider.Provider.
func (p panicking) Execute(ctx context.Context, d payments.Dispatch, sendBy time.Time) payments.Answer {
	if *p.execute {
		panic("execute")
	}
	return p.Provider.Execute(ctx, d, sendBy)
}

// TestPanicBeforeDispatch: nothing was run, the key is free, and it is a 503.
func TestPanicBeforeDispatch(t *testing.T) {
	broken, no := true, false
	w := newWorld(t, setup{provider: func(inner providerOf) providerOf { return panicking{inner, &broken, &no} }})
	r := w.send(pay("K", body1))
	r.want(http.StatusServiceUnavailable, "unavailable", "same-key")
	if log := w.log.String(); !strings.Contains(log, "a handler panicked") ||
		!strings.Contains(log, r.header.Get("Request-Id")) {
		t.Error("the log does not tell of the panic")
	}
	w.send(get("/payments")).want(http.StatusOK)
	broken = false
	w.send(pay("K", body1)).want(http.StatusCreated)
	w.wantMoved("charge 1000 usd")
}

// TestPanicAfterDispatch: something may have been run, so it is never a 5xx,
// and the same key finds what it was.
func TestPanicAfterDispatch(t *testing.T) {
	broken, no := true, false
	w := newWorld(t, setup{provider: func(inner providerOf) providerOf { return panicking{inner, &no, &broken} }})
	w.send(pay("K", body1)).want(http.StatusAccepted)
	broken = false
	w.sweep(time.Minute)
	w.send(pay("K", body1)).want(http.StatusCreated)
	w.wantMoved("charge 1000 usd")
}

// TestPanicWhileAnswering: neither is it a 5xx when the bug is our own and the
// flow has done its work: the answer is looked up.
func TestPanicWhileAnswering(t *testing.T) {
	var armed atomic.Bool
	w := newWorld(t, setup{
		provider: func(inner providerOf) providerOf {
			return answering{inner, payments.Answer{Kind: payments.AnswerMaybe}, func() { armed.Store(true) }}
		},
		server: server.Options{Now: func() time.Time {
			if armed.Swap(false) {
				panic("a clock that breaks once")
			}
			return time.Now()
		}},
	})
	p := w.send(pay("K", body1)).want(http.StatusAccepted)
	if p.State != "pending_unknown" || !strings.Contains(w.log.String(), "a clock that breaks once") {
		t.Errorf("the state is %s", p.State)
	}
}

// TestPanicElsewhere is 503, or a broken connection if half an answer is out.
func TestPanicElsewhere(t *testing.T) {
	w := newWorld(t, setup{server: server.Options{Ledger: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "[")
		_ = http.NewResponseController(w).Flush()
		panic("a ledger that breaks")
	})}})
	request := must(get("/sandbox/ledger").request(t.Context(), w.url))(t)
	resp := must(client.Do(request))(t)
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("half an answer looks like a whole one")
	}
	if !strings.Contains(w.log.String(), "a ledger that breaks") {
		t.Error("the log does not tell of the panic")
	}
	silent := newWorld(t, setup{server: server.Options{Ledger: http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { panic("a ledger that breaks") })}})
	resp = must(client.Do(must(get("/sandbox/ledger").request(t.Context(), silent.url))(t)))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
}

// refusing is a provider that can't take an amount.
type refusing struct{ provider.Provider }

// Prepare implements provider.Provider.
func (refusing) Prepare(context.Context, payments.Instruction) (payments.Request, error) {
	return payments.Request{}, errors.New("an amount in KWD must be a multiple of 10")
}

// TestUnsupported: what the provider can't take is the request's fault, and
// the key is not spent.
func TestUnsupported(t *testing.T) {
	w := newWorld(t, setup{provider: func(inner providerOf) providerOf { return refusing{inner} }})
	for range 2 {
		v := w.send(pay("K", body1)).want(http.StatusBadRequest, "invalid-request", "fix")
		v.wantFault(t, "/amount")
		if !strings.Contains(v.Errors[0].Detail, "multiple of 10") {
			t.Errorf("the detail is %s", v.Errors[0].Detail)
		}
	}
}

// TestUnsupportedWhateverTheKey: it is judged before the key is looked at.
func TestUnsupportedWhateverTheKey(t *testing.T) {
	w := newWorld(t, setup{})
	w.send(pay("K", body1)).wantStatus(http.StatusCreated)
	odd := `{"amount":2501,"currency":"KWD","paymentMethodToken":"tok_ok"}`
	w.send(pay("K", odd)).want(http.StatusBadRequest, "invalid-request", "fix").wantFault(t, "/amount")
}

// TestAProvedAbsenceIsNoDecline: a customer whose card was never tried must not
// hear that it was refused.
func TestAProvedAbsenceIsNoDecline(t *testing.T) {
	words := func(code string) string {
		return string(server.Render(flow.Result{Refusal: &flow.Refusal{Kind: flow.RefusedDeclined, DeclineCode: code}}).Body)
	}
	if got := words(payments.CodeNotExecuted); !strings.Contains(got, "nobody declined it") {
		t.Errorf("an absence is told as %s", got)
	}
	if got := words("card_declined"); strings.Contains(got, "nobody declined it") {
		t.Errorf("a decline is told as %s", got)
	}
}
