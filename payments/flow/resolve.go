package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

const (
	defaultSweep = 5 * time.Second
	// A pass waits for the slowest of its looks, and a young unknown that comes
	// meanwhile waits for the pass: two provider timeouts at most.
	defaultParallel = 16
	defaultBatch    = 2 * defaultParallel
	minWait         = 50 * time.Millisecond
	idleWait        = 500 * time.Millisecond
	clockSlack      = 5 * time.Minute // by which the clocks of servers may differ
	foreignLook     = time.Minute     // what a server with another provider is just doing is over by then
	foreignSaid     = time.Hour       // between two warnings of the same
)

// Resolver finishes unknowns without the client: at each dispatch's next check
// it reads, re-sends inside the key window, or lists, and stores what that
// proves. Several servers share the work.
type Resolver struct {
	Flow     *Flow
	Every    time.Duration // how often another server's work is looked for; default 5 s
	Batch    int           // dispatches of one sweep; default 32
	Parallel int           // look-ups at the provider at one time; default 16
	Log      *slog.Logger  // default slog.Default()
}

// Run sweeps whenever a check is due until ctx is done, then returns nil.
func (r *Resolver) Run(ctx context.Context) error {
	log := r.Log
	if log == nil {
		log = slog.Default()
	}
	var lookAround time.Time
	for {
		if now := r.Flow.o.Now(); !now.Before(lookAround) {
			lookAround = now.Add(r.foreign(ctx, log))
		}
		looked, err := r.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "could not resolve unknowns", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.Flow.wake:
		case <-time.After(r.wait(ctx, looked > 0 && err == nil)):
		}
	}
}

// foreign warns of unfinished work at another provider than this server's, for
// example when two servers play with a sandbox each: only a server that reaches
// it can finish it. It returns when to look again.
func (r *Resolver) foreign(ctx context.Context, log *slog.Logger) time.Duration {
	counts, err := r.Flow.o.DB.Unfinished(ctx)
	if err != nil {
		if ctx.Err() == nil {
			log.ErrorContext(ctx, "could not look for other providers' work", "err", err)
		}
		return foreignLook
	}
	again := foreignLook
	for _, instance := range slices.Sorted(maps.Keys(counts)) {
		if own := r.Flow.o.Provider.Instance(); instance != own {
			log.WarnContext(ctx, "payments or refunds are unfinished at a provider that this server does not reach: "+
				"keep a server running that does", "provider", instance, "unfinished", counts[instance], "reaches", own)
			again = foreignSaid
		}
	}
	return again
}

// wait is the time until the next planned check, at most a sweep. A pass that
// got nowhere is not repeated at once: the work is another server's, or the
// store is in trouble.
func (r *Resolver) wait(ctx context.Context, progress bool) time.Duration {
	every := r.Every
	if every <= 0 {
		every = defaultSweep
	}
	next, planned, err := r.Flow.o.DB.NextCheck(ctx, r.Flow.o.Provider.Instance())
	if err != nil || !planned {
		return every
	}
	least := idleWait
	if progress {
		least = minWait
	}
	return max(least, min(every, next))
}

// Sweep makes one pass over what is due, oldest first, and returns how many
// unknowns it looked at. One failure does not stop the others.
func (r *Resolver) Sweep(ctx context.Context) (int, error) {
	batch, parallel := r.Batch, r.Parallel
	if batch <= 0 {
		batch = defaultBatch
	}
	if parallel <= 0 {
		parallel = defaultParallel
	}
	stopped, err := r.Flow.o.DB.StopFutureSends(ctx, clockSlack)
	if err != nil {
		return 0, fmt.Errorf("look for sends in the future: %w", err)
	}
	if stopped > 0 {
		r.Flow.o.Log.ErrorContext(ctx, "the clock was set back: these unknowns are not sent again, only looked at",
			"dispatches", stopped)
	}
	due, err := r.Flow.o.DB.Due(ctx, r.Flow.o.Provider.Instance(), batch)
	if err != nil {
		return 0, fmt.Errorf("list unknowns: %w", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	looked := 0
	slots := make(chan struct{}, parallel)
	for _, d := range due {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			ok, err := r.Flow.check(context.WithoutCancel(ctx), d)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				looked++
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("look at %s: %w", d.Resource, err))
			}
		})
	}
	wg.Wait()
	return looked, errors.Join(failed...)
}

func (f *Flow) wakeResolver() {
	select {
	case f.wake <- struct{}{}:
	default: // it is awake already
	}
}

// check takes the unknown's claim, plans the next check before it does this
// one, asks the provider with no transaction open, and concludes. It reports
// whether the unknown was its to look at.
func (f *Flow) check(ctx context.Context, due payments.Dispatch) (bool, error) {
	w, step, err := f.beginCheck(ctx, due)
	if errors.Is(err, onlyonce.ErrInFlight) || errors.Is(err, errSettled) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var a payments.Answer
	switch step {
	case payments.StepRead:
		a = f.lookUp(ctx, w.dispatch, f.o.Provider.Read)
	case payments.StepFind:
		a = f.lookUp(ctx, w.dispatch, f.o.Provider.Find)
	default:
		a = f.execute(ctx, w)
	}
	f.conclude(ctx, w, a, byQuery)
	return true, nil
}

func (f *Flow) lookUp(ctx context.Context, d payments.Dispatch,
	look func(context.Context, payments.Dispatch) payments.Answer) payments.Answer {
	return f.ask(ctx, payments.AnswerUnread, func(ctx context.Context) payments.Answer { return look(ctx, d) })
}

// errSettled: between the list and the claim somebody else settled it.
var errSettled = errors.New("settled already")

func (f *Flow) beginCheck(ctx context.Context, due payments.Dispatch) (w work, step payments.Step, err error) {
	key := onlyonce.Key{Account: due.Account, Name: due.Key}
	want := db.Want{TakeOver: &key, Dispatch: true, PaymentID: due.Resource}
	if due.Kind == payments.KindRefund {
		want.PaymentID, want.RefundID = "", due.Resource
	}
	var began, sendBy time.Time
	begun := func() { began, sendBy = f.o.Now(), f.sendBy() }
	err = f.o.DB.Commit(ctx, db.Phase{Want: want, Begun: begun, Decide: func(h db.Have) (db.Changes, error) {
		s := open(h)
		if *s.state() != payments.PendingUnknown || h.Now.Before(h.Dispatch.NextCheckAt) {
			return db.Changes{}, errSettled
		}
		step = h.Dispatch.NextStep(h.Now, f.facts)
		planned := h.Dispatch.Plan(step, h.Now, f.facts)
		w = work{sendBy: sendBy, claim: *h.Claim, payment: h.Payment, refund: h.Refund, dispatch: planned}
		if step == payments.StepResend {
			s.event(payments.EventSent, fmt.Sprintf("send %d, same bytes, same provider key", planned.Sends))
			w.sendBy = earlier(sendBy, began.Add(planned.WindowLeft(h.Now, f.facts)))
			// If we die before the answer is stored, this send may have acted.
			planned.Ambiguous = true
		}
		*s.changes.Dispatch = planned
		s.unchangedPayment()
		if step != payments.StepResend {
			s.changes.Payment, s.changes.Refund = nil, nil // nothing happened to them yet
		}
		return s.changes, nil
	}})
	return w, step, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Resume goes on from a claim that the completer has taken over: what was
// dispatched becomes unknown and is looked at now.
func (f *Flow) Resume(ctx context.Context, c onlyonce.Claim) error {
	if c.Point == onlyonce.Started {
		// Phase 1 commits the point Dispatched with the claim, so this key was
		// never the server's to run; nothing was sent under it.
		return f.o.DB.Release(ctx, c)
	}
	want := db.Want{Held: &c, Dispatch: true, PaymentID: c.Resource}
	if payments.KindOf(c.Resource) == payments.KindRefund {
		want.PaymentID, want.RefundID = "", c.Resource
	}
	err := f.o.DB.Commit(ctx, db.Phase{Want: want, Decide: func(h db.Have) (db.Changes, error) {
		if c.Point == onlyonce.Unknown {
			// Between the list and the takeover its owner did conclude: it is the
			// resolver's, and nothing was abandoned.
			c.Lease = 0
			return db.Changes{Key: db.KeyChange{Advance: &c}}, nil
		}
		return abandoned(h, f.facts), nil
	}})
	if err != nil {
		return err
	}
	f.o.Log.InfoContext(ctx, "taken over by the completer, to be resolved", "key", c.Key.String(), "attempt", c.Attempt)
	f.o.Settled(c.Key)
	f.wakeResolver()
	return nil
}
