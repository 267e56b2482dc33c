package httponce

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

const (
	// concludeWait bounds how long the end of an attempt is tried to be written.
	// It does not depend on the lease, which the handler may have used up.
	concludeWait = 10 * time.Second
	// concludeTries and concludePause say how often a store that fails is tried
	// again with what can't be had a second time.
	concludeTries = 4
	concludePause = 200 * time.Millisecond
)

type nothingKey struct{}

// NothingDone tells the [Handler] around that the handler has done nothing
// outside of this process and will not. Call it right before the error that
// the handler answers with; the context is the request's. Without a Handler
// around it does nothing.
func NothingDone(ctx context.Context) {
	if said, ok := ctx.Value(nothingKey{}).(*atomic.Bool); ok {
		said.Store(true)
	}
}

// fate is what becomes of a key when the handler has answered.
type fate int

const (
	store   fate = iota // the answer is the key's last word
	free                // nothing was done; the same key may be sent again
	unknown             // nothing is proved
)

// judge decides a key's fate by the handler's status, 0 for a panic; the rules
// stand at [Handler].
func judge(status int, nothingDone, rerunnable bool) fate {
	refusal, unproved := false, status == 0 || status >= http.StatusInternalServerError
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		refusal = true
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		unproved = true
	}
	switch {
	case nothingDone && (status == 0 || status >= http.StatusBadRequest), rerunnable && (refusal || unproved):
		return free
	case unproved:
		return unknown
	}
	return store
}

// run runs the handler under a committed claim.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, c onlyonce.Claim) answer {
	var nothingDone atomic.Bool
	ctx := r.Context()
	if ctx.Err() != nil { // the claim took so long that its lease is over or nearly so
		h.free(ctx, c)
		return answer{problem: Unavailable(downAfter)}
	}
	rec, returned := newRecorder(w, h.o.MaxResponse), false
	defer func() {
		if !returned { // it panicked, and the panic goes on
			h.conclude(ctx, c, onlyonce.Outcome{}, 0, nothingDone.Load())
		}
	}()
	h.next.ServeHTTP(rec, r.WithContext(context.WithValue(ctx, nothingKey{}, &nothingDone)))
	returned = true
	return h.conclude(ctx, c, rec.outcome(), rec.status, nothingDone.Load())
}

// conclude writes what has become of the key, before the first byte goes out.
func (h *Handler) conclude(
	ctx context.Context, c onlyonce.Claim, o onlyonce.Outcome, status int, nothingDone bool,
) answer {
	switch judge(status, nothingDone, h.o.Rerunnable) {
	case store:
		return h.finish(ctx, c, WithOrigin(o, RequestID(ctx)), false)
	case free:
		h.free(ctx, c)
		h.log(ctx, c.Key, "freed: nothing was done", "attempt", c.Attempt, "status", status)
	case unknown:
		h.giveUp(ctx, c)
		h.o.Log.WarnContext(ctx, "idempotency key left open: its handler proved nothing", "account", c.Key.Account,
			"key", c.Key.Name, "request", RequestID(ctx), "attempt", c.Attempt, "status", status)
	}
	return answer{outcome: o}
}

// finish stores the outcome and returns it, or what is stored in its place. An
// outcome that can't be stored is not reported: it is not durable.
func (h *Handler) finish(ctx context.Context, c onlyonce.Claim, o onlyonce.Outcome, replayed bool) answer {
	a := answer{outcome: o, replayed: replayed}
	err := h.persist(ctx, c, func(ctx context.Context) error {
		err := h.write(ctx, c, a.outcome)
		if errors.Is(err, onlyonce.ErrOutcomeTooLarge) { // its headers are
			a.outcome = reduced(o.Status, o.Header, int64(len(o.Body)))
			err = h.write(ctx, c, a.outcome)
		}
		if !errors.Is(err, onlyonce.ErrFenced) {
			return err
		}
		stored, err := h.reconcile(ctx, c, a.outcome)
		if err == nil && stored.replayed {
			a = stored
		}
		return err
	})
	if err != nil {
		return answer{problem: Unresolved(unresolvedAfter)}
	}
	h.log(ctx, c.Key, "finished", "attempt", c.Attempt, "status", a.outcome.Status)
	return a
}

func (h *Handler) write(ctx context.Context, c onlyonce.Claim, o onlyonce.Outcome) error {
	return h.o.Tx.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		return h.o.Engine.Finish(ctx, tx, c, o)
	})
}

// reconcile ends an attempt whose claim is no longer its own. If it was
// finished the stored outcome counts: this attempt's, if a COMMIT without an
// answer was durable after all, else another's. If it was only given up as
// unknown, this attempt holds the proof that was missing.
func (h *Handler) reconcile(ctx context.Context, c onlyonce.Claim, o onlyonce.Outcome) (a answer, err error) {
	err = h.o.Tx.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		rec, err := h.o.Engine.Load(ctx, tx, c.Key)
		switch {
		case err != nil:
			return err
		case rec.Fingerprint != c.Fingerprint || rec.Status == onlyonce.Tombstone:
			return onlyonce.ErrFenced
		case rec.Status == onlyonce.Completed:
			a = answer{outcome: *rec.Outcome, replayed: rec.Owner != c.Owner}
			return nil
		case rec.Point != onlyonce.Unknown || !rec.Lapsed():
			return onlyonce.ErrFenced
		}
		a = answer{outcome: o}
		mine, err := h.o.Engine.TakeOver(ctx, tx, rec)
		if err != nil {
			return err
		}
		return h.o.Engine.Finish(ctx, tx, mine, o)
	})
	return a, err
}

// free releases the key. The attempt has proved that nothing was done, so it
// may go back to the point at which releasing is allowed.
func (h *Handler) free(ctx context.Context, c onlyonce.Claim) {
	c.Point = onlyonce.Started
	_ = h.persist(ctx, c, func(ctx context.Context) error {
		return h.o.Tx.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
			if err := h.o.Engine.Advance(ctx, tx, c); err != nil {
				return err
			}
			return h.o.Engine.Release(ctx, tx, c)
		})
	})
}

// giveUp leaves the key unknown, to be asked about at once.
func (h *Handler) giveUp(ctx context.Context, c onlyonce.Claim) {
	c.Point, c.Lease = onlyonce.Unknown, 0
	_ = h.persist(ctx, c, func(ctx context.Context) error { return h.advance(ctx, c) })
}

func (h *Handler) advance(ctx context.Context, c onlyonce.Claim) error {
	return h.o.Tx.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		return h.o.Engine.Advance(ctx, tx, c)
	})
}

// persist tries to write an attempt's end a few times, whatever has become of
// the client and the lease, and wakes who waits for the key. If it fails the
// lease lapses, and the next request finds the key as it would after a crash.
func (h *Handler) persist(ctx context.Context, c onlyonce.Claim, write func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeWait)
	defer cancel()
	defer h.o.Waiters.Wake(c.Key)
	pause := time.NewTimer(0)
	defer pause.Stop()
	var err error
	for range concludeTries {
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		if err = write(ctx); err == nil || errors.Is(err, onlyonce.ErrFenced) || ctx.Err() != nil {
			break
		}
		pause.Reset(concludePause)
	}
	if err != nil {
		h.o.Log.ErrorContext(ctx, "the end of an attempt could not be written",
			"account", c.Key.Account, "key", c.Key.Name, "attempt", c.Attempt, "err", err)
	}
	return err
}
