package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider"
)

type providerOf = provider.Provider

// answering is a provider that gives one answer to every send.
type answering struct {
	provider.Provider
	answer payments.Answer
}

// Execute implements provider.Provider.
func (a answering) Execute(context.Context, payments.Dispatch, time.Time) payments.Answer {
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
	r := w.send(pay("K", body1))
	if r.status != http.StatusAccepted {
		r.want(http.StatusConflict, "in-flight", "same-key")
	}
	broken = false
	w.skew.Add(int64(time.Hour)) // past its lease
	w.send(pay("K", body1)).want(http.StatusAccepted)
	w.sweep(time.Minute)
	w.send(pay("K", body1)).want(http.StatusCreated)
	w.wantMoved("charge 1000 usd")
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
