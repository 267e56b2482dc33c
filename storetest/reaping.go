package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// testReaperStorm lets 100 clients retry finished keys while the clock goes
// over the end of their retention, then over the end of their tombstones, and
// a reaper runs all the while. A key may run again only after the tombstone,
// and then once; keys that are young or unfinished are never touched.
func testReaperStorm(t *testing.T, s Subject) {
	const (
		clients = 100
		keys    = 10
	)
	once := engine(t, s, onlyonce.Options{Retention: keep, Tombstones: keep})
	for i := range keys {
		finish(t, s, once, oldKey(i))
	}
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := once.Begin(ctx, tx, intent("unfinished", "body"))
		return err
	})
	reaper := &onlyonce.Reaper{Engine: once, Tx: s.Tx, Batch: 3}
	var replayed, expired, ran atomic.Int32
	round := func(moves ...time.Duration) {
		storm(clients+1, func(i int) {
			if i == clients {
				for _, at := range moves {
					s.Skew(at)
					if _, err := reaper.Sweep(t.Context()); err != nil {
						t.Error(err)
					}
				}
				return
			}
			retry(t, s, once, oldKey(i%keys), &replayed, &expired, &ran)
		})
	}
	round(keep-time.Hour, keep-time.Minute)
	if replayed.Load() != clients || ran.Load() != 0 {
		t.Errorf("before the boundary: %d replayed, %d ran", replayed.Load(), ran.Load())
	}
	round(keep-time.Minute, keep+time.Minute, keep+time.Hour)
	if got := replayed.Load() + expired.Load(); got != 2*clients || ran.Load() != 0 {
		t.Errorf("around the boundary: %d replayed or expired, %d ran", got, ran.Load())
	}
	finish(t, s, once, "young")
	expired.Store(0)
	round(keep + 2*time.Hour)
	if expired.Load() != clients || ran.Load() != 0 {
		t.Errorf("after the boundary: %d expired, %d ran", expired.Load(), ran.Load())
	}
	round(2*keep-time.Minute, 2*keep+time.Minute, 2*keep+time.Hour)
	round(2*keep + 90*time.Minute)
	if ran.Load() != keys {
		t.Errorf("after the tombstones %d keys ran again, want each of %d once", ran.Load(), keys)
	}
	if rec := load(t, s, intent("unfinished", "").Key); rec.Status != onlyonce.InProgress {
		t.Errorf("the unfinished key is %q", rec.Status)
	}
	if rec := load(t, s, intent("young", "").Key); rec.Status == "" {
		t.Error("the young key is gone")
	}
}

func oldKey(i int) string { return fmt.Sprintf("old-%d", i) }

// retry sends one request and counts what it got. What runs is finished.
func retry(t *testing.T, s Subject, once *onlyonce.Engine, key string, replayed, expired, ran *atomic.Int32) {
	var d onlyonce.Decision
	err := s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) (err error) {
		if d, err = once.Begin(ctx, tx, intent(key, "body")); err != nil || d.Claim == nil {
			return err
		}
		return once.Finish(ctx, tx, *d.Claim, onlyonce.Outcome{Status: 201, Body: []byte(key)})
	})
	switch {
	case errors.Is(err, onlyonce.ErrExpired):
		expired.Add(1)
	case err != nil:
		t.Errorf("retry of %s: %v", key, err)
	case d.Claim != nil:
		ran.Add(1)
	case string(d.Outcome.Body) != key:
		t.Errorf("retry of %s: replayed %q", key, d.Outcome.Body)
	default:
		replayed.Add(1)
	}
}
