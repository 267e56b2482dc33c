package httponce

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/onlyonce-go/onlyonce"
)

// answer is what a request gets: a problem, or else an outcome.
type answer struct {
	problem  *Problem
	outcome  onlyonce.Outcome
	replayed bool
}

// open reports whether the key has no last word yet, so that waiting may help.
func (a answer) open() bool {
	return a.problem != nil && (a.problem.Type == "in-flight" || a.problem.Type == "unresolved")
}

// try decides what the request gets and runs the handler if it must.
func (h *Handler) try(w http.ResponseWriter, r *http.Request, in onlyonce.Intent) answer {
	// The client may go; what is begun is ended. The time runs from before the
	// claim, so that the handler is stopped before another may look at the key.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.o.Engine.Lease())
	defer cancel()
	r = r.WithContext(ctx)

	d, err := h.decide(ctx, in)
	switch {
	case err == nil && d.Outcome != nil:
		h.log(ctx, in.Key, "replayed", "attempt", d.Record.Attempt)
		return answer{outcome: *d.Outcome, replayed: true}
	case err == nil && h.mayRun(d):
		return h.run(w, r, *d.Claim)
	case err == nil:
		return h.resolve(w, r, d.Record, *d.Claim)
	case errors.Is(err, onlyonce.ErrUnknown) && (h.o.Resolve != nil || h.o.Rerunnable):
		return h.takeOver(w, r, d.Record)
	}
	h.log(ctx, in.Key, "refused", "attempt", d.Record.Attempt, "err", err)
	return answer{problem: FromDecision(d.Record, err)}
}

// mayRun reports whether a claim was won at a point at which nothing has been
// done yet, or at which doing it again is harmless.
func (h *Handler) mayRun(d onlyonce.Decision) bool {
	return h.o.Rerunnable || d.Record.Point == onlyonce.Started
}

// decide looks first where that is cheaper than a claim, which alone can grant.
func (h *Handler) decide(ctx context.Context, in onlyonce.Intent) (onlyonce.Decision, error) {
	if h.o.View != nil {
		if d, err := h.look(ctx, in); err != nil || d.Outcome != nil {
			return d, err
		}
	}
	return h.begin(ctx, in)
}

func (h *Handler) look(ctx context.Context, in onlyonce.Intent) (d onlyonce.Decision, err error) {
	view := h.o.View
	if view == nil {
		view = h.o.Tx.InTx
	}
	err = view(ctx, func(ctx context.Context, tx onlyonce.Tx) (err error) {
		d, err = h.o.Engine.Look(ctx, tx, in)
		return err
	})
	return d, err
}

// begin claims the key and commits. A plain handler may act at any moment, so
// the claim is dispatched before it runs, unless running again is harmless.
func (h *Handler) begin(ctx context.Context, in onlyonce.Intent) (d onlyonce.Decision, err error) {
	err = h.o.Tx.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) (err error) {
		d, err = h.o.Engine.Begin(ctx, tx, in)
		if err != nil || d.Claim == nil || h.o.Rerunnable || d.Claim.Point != onlyonce.Started {
			return err
		}
		d.Claim.Point = onlyonce.Dispatched
		return h.o.Engine.Advance(ctx, tx, *d.Claim)
	})
	if errors.Is(err, onlyonce.ErrCommitUnknown) && d.Claim != nil {
		err = h.probe(ctx, *d.Claim)
	}
	return d, err
}

// probe finds out whether a claim whose COMMIT was not answered is durable, by
// making it again: it waits for the lost transaction to be decided, and the
// owner token in the row tells.
func (h *Handler) probe(ctx context.Context, c onlyonce.Claim) error {
	return h.o.Tx.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		recs, err := h.o.Engine.Store().Claim(ctx, tx, []onlyonce.Claim{c})
		if err != nil {
			return fmt.Errorf("probe the claim of key %v: %w", c.Key, err)
		}
		if recs[0].Owner != c.Owner {
			return onlyonce.ErrInFlight
		}
		return nil
	})
}

// takeOver looks after a key that is unknown, unless somebody does already.
func (h *Handler) takeOver(w http.ResponseWriter, r *http.Request, rec onlyonce.Record) answer {
	var claim onlyonce.Claim
	err := h.o.Tx.InTx(r.Context(), func(ctx context.Context, tx onlyonce.Tx) (err error) {
		claim, err = h.o.Engine.TakeOver(ctx, tx, rec)
		return err
	})
	if errors.Is(err, onlyonce.ErrInFlight) {
		err = onlyonce.ErrUnknown // another request asks; it is still not known
	}
	if err != nil {
		h.log(r.Context(), rec.Key, "refused", "attempt", rec.Attempt, "err", err)
		return answer{problem: FromDecision(rec, err)}
	}
	return h.resolve(w, r, rec, claim)
}

// resolve ends a claim whose effect may have happened: by proof, by running
// again what is harmless or proved undone, or by leaving it unknown.
func (h *Handler) resolve(w http.ResponseWriter, r *http.Request, rec onlyonce.Record, c onlyonce.Claim) answer {
	o, err := h.prove(r.Context(), rec)
	if errors.Is(err, ErrNothingDone) {
		c.Point = onlyonce.Dispatched
		if h.o.Rerunnable {
			c.Point = onlyonce.Started
		}
		if err = h.advance(r.Context(), c); err == nil {
			return h.run(w, r, c)
		}
	}
	if err == nil {
		return h.finish(r.Context(), c, o, true)
	}
	h.giveUp(r.Context(), c)
	h.log(r.Context(), c.Key, "unresolved", "attempt", c.Attempt, "err", err)
	return answer{problem: Unresolved(unresolvedAfter)}
}

func (h *Handler) prove(ctx context.Context, rec onlyonce.Record) (onlyonce.Outcome, error) {
	switch {
	case h.o.Rerunnable:
		return onlyonce.Outcome{}, ErrNothingDone // or nothing that matters
	case h.o.Resolve == nil:
		return onlyonce.Outcome{}, onlyonce.ErrUnknown
	}
	return h.o.Resolve(ctx, rec)
}

func (h *Handler) log(ctx context.Context, key onlyonce.Key, decision string, more ...any) {
	h.o.Log.InfoContext(ctx, "idempotency key "+decision, append([]any{
		"account", key.Account, "key", key.Name, "request", RequestID(ctx)}, more...)...)
}
