package sqlstore

import (
	"context"
	"fmt"
	"time"
)

// queue lets one writer in at a time, in the order of arrival. The pool of
// database/sql hands a free connection to a waiter picked at random, so under
// load some would starve. A nil queue lets everybody in.
type queue chan struct{}

func newQueue(oneWriter bool) queue {
	if !oneWriter {
		return nil
	}
	return make(queue, 1)
}

// enter waits for the caller's turn until ctx is done. The runtime serves
// senders that are blocked on a channel first come, first served.
func (q queue) enter(ctx context.Context) error {
	if q == nil {
		return nil
	}
	select {
	case q <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: wait for the writer's turn: %w", ErrBusy, context.Cause(ctx))
	}
}

func (q queue) leave() {
	if q != nil {
		<-q
	}
}

// again runs a whole transaction until it succeeds, fails for a reason of its
// own, or has lost against others maxTries times or for all of BusyWait.
func (s *Store) again(ctx context.Context, try func() error) error {
	// With these pauses the tries last for as long as BusyWait, unless that is
	// very long: on a connection that does not wait for locks itself, and for a
	// row that many want at the isolation of a snapshot, they are the waiting.
	const (
		maxTries  = 50
		firstWait = 2 * time.Millisecond   // doubled each time, and up to as much again at random
		longest   = 250 * time.Millisecond // a lock is rarely held for longer
	)
	over, cancel := context.WithTimeout(ctx, s.o.BusyWait)
	defer cancel()
	wait := firstWait
	for n := 1; ; n++ {
		err := try()
		if err == nil || n == maxTries || !s.d.retryable(err) {
			return s.d.classed(err)
		}
		s.o.Log.DebugContext(ctx, "a transaction lost against another and is run again", "try", n, "err", err)
		select {
		case <-over.Done():
			return s.d.classed(err)
		case <-time.After(wait + s.o.jitter(wait)):
		}
		wait = min(2*wait, longest)
	}
}
