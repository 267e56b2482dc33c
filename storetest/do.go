package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/onlyonce-go/onlyonce"
)

// doing is what the tests of Do share.
type doing struct {
	s    Subject
	once *onlyonce.Engine
	done effects
}

func newDoing(t *testing.T, s Subject) doing {
	if s.Do == nil {
		t.Skip("this adapter runs no local effects")
	}
	return doing{s, engine(t, s, onlyonce.Options{}), newEffects(t, s)}
}

// do runs the effect of id, which fails as before says before it succeeds.
func (d doing) do(ctx context.Context, id string, before func() error) (onlyonce.Outcome, bool, error) {
	return d.s.Do(ctx, d.once, intent(id, "body"), func(ctx context.Context, tx onlyonce.Tx) (onlyonce.Outcome, error) {
		if err := d.done.record(ctx, tx, id); err != nil {
			return onlyonce.Outcome{}, err
		}
		if before != nil {
			if err := before(); err != nil {
				return onlyonce.Outcome{}, err
			}
		}
		return onlyonce.Outcome{Status: 201, Body: []byte(id)}, nil
	})
}

// testDoStorm sends one intent 32 times at once: one effect, 31 replays.
func testDoStorm(t *testing.T, s Subject) {
	d := newDoing(t, s)
	var replays atomic.Int32
	storm(duplicates, func(int) {
		o, replayed, err := d.do(t.Context(), "k", nil)
		if err != nil || o.Status != 201 || string(o.Body) != "k" {
			t.Errorf("%+v %v", o, err)
		}
		if replayed {
			replays.Add(1)
		}
	})
	if replays.Load() != duplicates-1 {
		t.Errorf("%d replays, want %d", replays.Load(), duplicates-1)
	}
	d.done.expect("k", 1)
}

// testDoRollback makes the first effect fail under 32 duplicates: exactly one
// of the others runs.
func testDoRollback(t *testing.T, s Subject) {
	d := newDoing(t, s)
	var runs, failed, replays atomic.Int32
	storm(duplicates, func(int) {
		_, replayed, err := d.do(t.Context(), "k", func() error {
			if runs.Add(1) == 1 {
				return errCrash
			}
			return nil
		})
		switch {
		case errors.Is(err, errCrash):
			failed.Add(1)
		case err != nil:
			t.Error(err)
		case replayed:
			replays.Add(1)
		}
	})
	if runs.Load() != 2 || failed.Load() != 1 || replays.Load() != duplicates-2 {
		t.Errorf("%d runs, %d failed, %d replays", runs.Load(), failed.Load(), replays.Load())
	}
	d.done.expect("k", 1)
}

// testDoError expects the effect's own error, nothing kept, and a retry to run.
func testDoError(t *testing.T, s Subject) {
	d := newDoing(t, s)
	if _, _, err := d.do(t.Context(), "k", func() error { return errCrash }); !errors.Is(err, errCrash) {
		t.Errorf("error %v, want the effect's", err)
	}
	d.done.expect("k", 0)
	if rec := load(t, s, intent("k", "").Key); rec.Status != "" {
		t.Errorf("the key is %q, want it free", rec.Status)
	}
	if _, replayed, err := d.do(t.Context(), "k", nil); err != nil || replayed {
		t.Errorf("the retry: replayed %v, error %v", replayed, err)
	}
	d.done.expect("k", 1)
}

// testDoPanic expects the effect's panic, nothing kept, and a retry to run.
func testDoPanic(t *testing.T, s Subject) {
	d := newDoing(t, s)
	got := recovered(func() { _, _, _ = d.do(t.Context(), "k", func() error { panic("on purpose") }) })
	if got != "on purpose" {
		t.Errorf("recovered %v", got)
	}
	d.done.expect("k", 0)
	if _, replayed, err := d.do(t.Context(), "k", nil); err != nil || replayed {
		t.Errorf("the retry: replayed %v, error %v", replayed, err)
	}
	d.done.expect("k", 1)
}

// testDoTooLarge expects an outcome that can't be kept to undo its effect:
// otherwise the retry would run it again.
func testDoTooLarge(t *testing.T, s Subject) {
	d := newDoing(t, s)
	_, _, err := s.Do(t.Context(), d.once, intent("k", "body"),
		func(ctx context.Context, tx onlyonce.Tx) (onlyonce.Outcome, error) {
			return onlyonce.Outcome{Body: make([]byte, 1<<20+1)}, d.done.record(ctx, tx, "k")
		})
	if !errors.Is(err, onlyonce.ErrOutcomeTooLarge) {
		t.Errorf("error %v, want ErrOutcomeTooLarge", err)
	}
	d.done.expect("k", 0)
}

// testDoDispatched runs Do on keys that it may not run: another request's, a
// running one, and one whose effect left for the outside.
func testDoDispatched(t *testing.T, s Subject) {
	d := newDoing(t, s)
	begin := func(key string, point onlyonce.Point) {
		in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
			c := claim(key, "owner")
			c.Point = point
			_, err := s.Store.Claim(ctx, tx, []onlyonce.Claim{c})
			return err
		})
	}
	begin("running", onlyonce.Started)
	if _, _, err := d.do(t.Context(), "running", nil); !errors.Is(err, onlyonce.ErrInFlight) {
		t.Errorf("a running key: %v, want ErrInFlight", err)
	}
	begin("dispatched", onlyonce.Dispatched)
	s.Skew(d.once.Lease())
	if _, _, err := d.do(t.Context(), "dispatched", nil); !errors.Is(err, onlyonce.ErrUnknown) {
		t.Errorf("a dispatched key: %v, want ErrUnknown", err)
	}
	if rec := load(t, s, intent("dispatched", "").Key); rec.Attempt != 1 || rec.Owner != "owner" {
		t.Errorf("the dispatched key was changed: %+v", rec)
	}
	finish(t, s, d.once, "done")
	_, _, err := s.Do(t.Context(), d.once, intent("done", "other body"), nil)
	if !errors.Is(err, onlyonce.ErrMismatch) {
		t.Errorf("another body: %v, want ErrMismatch", err)
	}
	if _, _, err := d.do(t.Context(), "running", nil); err != nil {
		t.Errorf("a lapsed key that was not dispatched: %v, want it to run", err)
	}
}
