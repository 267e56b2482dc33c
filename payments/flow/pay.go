package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// ErrUnsupported: the provider can't take this amount or currency. Correct the
// request; nothing was run and the key is not spent.
var ErrUnsupported = errors.New("the provider does not support this")

// ErrElsewhere: the payment was charged at another provider account than the
// one that is configured, and can be refunded only there. Nothing was run and
// the key is not spent; start a server with that account.
var ErrElsewhere = errors.New("the payment lives at another provider account")

// Pay runs a payment's intent: claims its key, charges, stores the outcome; or
// answers from what the key already holds. The client may hang up meanwhile:
// that changes nothing.
//
// Errors: *KeyError when the key forbids the request, ErrInvalid, ErrUnsupported,
// ErrElsewhere for a refund; any other means that the store failed and nothing
// was run. Once the provider may have been contacted there is an Answer and no error.
func (f *Flow) Pay(ctx context.Context, in onlyonce.Intent, r PaymentRequest) (Answer, error) {
	err := errors.Join(checkText("orderId", r.OrderID, maxOrderID),
		checkText("description", r.Description, maxDescription))
	if err != nil {
		return Answer{}, err
	}
	// A request that the provider can't take is invalid whatever its key has been
	// used for, so it is tried before the key is looked at. Its id comes later.
	if _, err := f.prepare(instruction(in, "unnamed", r)); err != nil {
		return Answer{}, err
	}
	want := db.Want{Begin: &in, OrderID: r.OrderID, Generation: true}
	return f.run(ctx, in, want, func(h db.Have) (db.Changes, *Answer, error) { return f.acceptPayment(ctx, in, r, h) })
}

// Refund runs a refund's intent, as Pay does a payment's.
func (f *Flow) Refund(ctx context.Context, in onlyonce.Intent, r RefundRequest) (Answer, error) {
	if err := checkText("reason", r.Reason, maxReason); err != nil {
		return Answer{}, err
	}
	want := db.Want{Begin: &in, PaymentID: r.PaymentID, Generation: true}
	return f.run(ctx, in, want, func(h db.Have) (db.Changes, *Answer, error) { return f.acceptRefund(ctx, in, r, h) })
}

// accept decides a fresh claim: the changes that begin it, or the answer that
// ends it here.
type accept func(db.Have) (db.Changes, *Answer, error)

// run is the visible loop over the recovery points: answered from the row;
// phase 1; the provider; phase 2.
func (f *Flow) run(ctx context.Context, in onlyonce.Intent, want db.Want, accept accept) (Answer, error) {
	ctx = context.WithoutCancel(ctx)
	if a, _, err := f.Look(ctx, in); err != nil || a.set() {
		return a, err // a replay is one read and takes no lock
	}
	begun, a, err := f.begin(ctx, in, want, accept)
	if err != nil || a.set() {
		return a, err
	}
	answer := f.execute(ctx, begun)
	return f.conclude(ctx, begun, answer, byAPI), nil
}

// sendBy is the last moment at which a claim that is made now may write its
// first byte to the provider. Its claim's lease begins later than now, so the
// call ends, and has time for a commit, before anybody may take the claim over.
// A commit that comes later than that is fenced.
func (f *Flow) sendBy() time.Time {
	return f.o.Now().Add(f.o.Engine.Lease() - f.o.ProviderTimeout - f.o.CommitWait)
}

// work is a dispatched effect that this process holds the claim of.
type work struct {
	claim    onlyonce.Claim
	payment  *payments.Payment // for a refund: the payment it belongs to
	refund   *payments.Refund
	sendBy   time.Time         // whoever is paused past it does not send
	dispatch payments.Dispatch // Ambiguous is of the attempts before this one
}

// begin is phase 1. The returned answer is set when the request ends here.
func (f *Flow) begin(ctx context.Context, in onlyonce.Intent, want db.Want, accept accept) (work, Answer, error) {
	var w work
	var end *Answer
	var tookOver bool
	var sendBy time.Time
	begun := func() { sendBy = f.sendBy() }
	err := f.o.DB.Commit(ctx, db.Phase{Want: want, Begun: begun, Decide: func(h db.Have) (c db.Changes, err error) {
		w, end, tookOver = work{}, nil, false
		switch {
		case h.KeyError != nil || h.Decision.Outcome != nil:
			var a Answer
			a, err = answerFromRow(h)
			end = &a
			return c, err
		case h.Claim.Attempt > 1 && h.Claim.Point != onlyonce.Started:
			c = abandoned(h, f.facts)
			a := pending(c.Payment, c.Refund)
			end, tookOver = &a, true
			return c, nil
		}
		c, end, err = accept(h)
		if end == nil && err == nil {
			w = work{sendBy: sendBy, claim: *c.Key.Advance, payment: c.Payment, refund: c.Refund, dispatch: *c.Dispatch}
		}
		return c, err
	}})
	switch {
	case errors.Is(err, onlyonce.ErrCommitUnknown) && w.dispatch.Resource != "":
		// Nothing was sent. If the row is durable the completer goes on from it,
		// else the client's retry begins anew.
		f.o.Log.WarnContext(ctx, "commit of phase 1 is unknown, not sent", "key", in.Key.String(), "err", err)
		return w, pending(w.payment, w.refund), nil
	case errors.Is(err, onlyonce.ErrCommitUnknown) && end != nil && (end.Payment != nil || end.Refund != nil):
		return w, *end, nil // it was dispatched by an earlier attempt, so it is no 503
	case err != nil:
		return w, Answer{}, err
	case end != nil:
		if tookOver {
			f.o.Log.InfoContext(ctx, "taken over, to be resolved", "key", in.Key.String())
		}
		f.ended(in.Key, *end)
		if end.Replayed { // another was quicker, and its outcome is given out like any other
			a, _, err := f.Look(ctx, in)
			return w, a, err
		}
		return w, *end, nil
	}
	f.o.Log.InfoContext(ctx, "claimed", "key", in.Key.String(), "attempt", w.claim.Attempt, "resource", w.claim.Resource)
	return w, Answer{}, nil
}

// ended tells those who wait for a key that something was decided without the
// provider.
func (f *Flow) ended(key onlyonce.Key, a Answer) {
	if a.Payment != nil || a.Refund != nil {
		f.wakeResolver()
	}
	if a.Outcome != nil && !a.Replayed {
		f.o.Settled(key)
	}
}

// execute is the provider call. No transaction is open.
func (f *Flow) execute(ctx context.Context, w work) payments.Answer {
	return f.ask(ctx, payments.AnswerMaybe, func(ctx context.Context) payments.Answer {
		return f.o.Provider.Execute(ctx, w.dispatch, w.sendBy)
	})
}

// ask bounds a provider call, and turns a panic in it into what it proves: the
// effect may have happened all the same, and one broken answer must not end
// the process that resolves all others.
func (f *Flow) ask(ctx context.Context, broken payments.AnswerKind, call func(context.Context) payments.Answer) (
	a payments.Answer) {
	ctx, cancel := context.WithTimeout(ctx, f.o.ProviderTimeout)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			f.o.Log.ErrorContext(ctx, "the provider's adapter panicked", "panic", fault, "stack", string(debug.Stack()))
			a = payments.Answer{Kind: broken, Detail: "the adapter panicked"}
		}
	}()
	return storable(call(ctx))
}

// render makes the outcome, and turns a panic into an error: nothing is stored
// then, and what was dispatched stays unknown instead of taking the process down.
func (f *Flow) render(ctx context.Context, r Result) (o onlyonce.Outcome, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			f.o.Log.ErrorContext(ctx, "the renderer panicked", "panic", fault, "stack", string(debug.Stack()))
			err = errors.New("the renderer panicked")
		}
	}()
	return f.o.Render(r).Storable() // the first answer is the replays' answer
}

// conclude is phase 2. The provider may have acted, so it never returns an
// error: what can't be stored is an unknown, and stays open.
func (f *Flow) conclude(ctx context.Context, w work, a payments.Answer, by source) Answer {
	want := db.Want{Held: &w.claim, PaymentID: w.paymentID(), RefundID: w.refundID(), Dispatch: true}
	var result Answer
	var alarm bool
	err := f.o.DB.Commit(ctx, db.Phase{Want: want, Decide: func(h db.Have) (db.Changes, error) {
		// What is stored fears that this attempt acted; its answer is here now.
		h.Dispatch.Ambiguous = w.dispatch.Ambiguous
		s := f.settle(h, a, by)
		result, alarm = s.answer(), s.alarm
		if s.final() {
			o, err := f.render(ctx, s.result())
			if err != nil {
				return db.Changes{}, err
			}
			s.changes.Key.Finish = &o
			result = Answer{Outcome: &o}
		}
		return s.changes, nil
	}})
	log := f.o.Log.With("key", w.claim.Key.String(), "attempt", w.claim.Attempt, "resource", w.claim.Resource,
		"answer", a.Kind)
	if alarm {
		log.ErrorContext(ctx, "a person must look at the provider's answer", "code", a.Code, "detail", a.Detail)
	}
	switch {
	case err == nil:
		log.InfoContext(ctx, "answered", "code", a.Code, "detail", a.Detail)
		f.o.Settled(w.claim.Key)
		if result.Outcome == nil {
			f.wakeResolver()
		}
		return result
	case errors.Is(err, onlyonce.ErrFenced):
		log.WarnContext(ctx, "taken over meanwhile, nothing written")
	default:
		log.ErrorContext(ctx, "the answer could not be stored and stays unknown", "err", err)
	}
	if a, _, err := f.Look(ctx, w.claim.Intent); err == nil && a.set() {
		return a // another worker has stored what it found
	}
	return pending(w.payment, w.refund)
}

func (w work) paymentID() string {
	if w.payment == nil {
		return ""
	}
	return w.payment.ID
}

func (w work) refundID() string {
	if w.refund == nil {
		return ""
	}
	return w.refund.ID
}

// Look answers an intent from the stored rows, without a write. The answer is
// not set when the key is free or its lease has lapsed; open reports that the
// same request may get another answer later: it is running or unknown.
func (f *Flow) Look(ctx context.Context, in onlyonce.Intent) (a Answer, open bool, err error) {
	h, err := f.o.DB.Look(ctx, in)
	if errors.Is(err, onlyonce.ErrCommitUnknown) && (h.Payment != nil || h.Refund != nil) {
		return pending(h.Payment, h.Refund), true, nil // a failover could still take it back
	}
	if err != nil {
		return Answer{}, false, err
	}
	if h.KeyError == nil && h.Decision.Outcome == nil {
		return Answer{}, h.Decision.Record.Status == onlyonce.InProgress, nil
	}
	a, err = answerFromRow(h)
	open = errors.Is(h.KeyError, onlyonce.ErrInFlight) || errors.Is(h.KeyError, onlyonce.ErrUnknown)
	return a, open, err
}

// answerFromRow is what a key that is not free says.
func answerFromRow(h db.Have) (Answer, error) {
	switch {
	case h.Decision.Outcome != nil && h.KeyError == nil:
		return Answer{Outcome: h.Decision.Outcome, Replayed: true}, nil
	case errors.Is(h.KeyError, onlyonce.ErrUnknown) && (h.Payment != nil || h.Refund != nil):
		return Answer{Payment: paymentUnless(h.Refund, h.Payment), Refund: h.Refund}, nil
	}
	return Answer{}, &KeyError{Record: h.Decision.Record, Err: h.KeyError}
}

// pending is the answer for what was dispatched and not proved, whatever the
// stored state still says.
func pending(p *payments.Payment, r *payments.Refund) Answer {
	if r != nil {
		shown := *r
		shown.State = unproved(shown.State)
		return Answer{Refund: &shown}
	}
	shown := *p
	shown.State = unproved(shown.State)
	return Answer{Payment: &shown}
}

func unproved(s payments.State) payments.State {
	if s == payments.Review {
		return s
	}
	return payments.PendingUnknown
}

func paymentUnless(r *payments.Refund, p *payments.Payment) *payments.Payment {
	if r != nil {
		return nil
	}
	return p
}

func (a Answer) set() bool {
	return a.Outcome != nil || a.Payment != nil || a.Refund != nil || a.Refusal != nil
}

// prepare puts an instruction into the provider's words.
func (f *Flow) prepare(in payments.Instruction) (payments.Request, error) {
	req, err := f.o.Provider.Prepare(context.Background(), in)
	if err != nil {
		return req, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return req, nil
}
