package db_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

func (b *bench) count(query string, args ...any) (n int64) {
	b.t.Helper()
	must(b.t, b.raw.QueryRowContext(b.t.Context(), b.rebind(query), args...).Scan(&n))
	return n
}

// TestLostRaceIsDecidedAnew: a phase that was decided on an older version
// writes nothing, reads again and decides again.
func TestLostRaceIsDecidedAnew(t *testing.T) { onEach(t, testLostRaceIsDecidedAnew) }

func testLostRaceIsDecidedAnew(t *testing.T, b *bench) {
	stale := map[string]func(*db.Changes){
		"payment": func(c *db.Changes) { c.Payment.Version++; c.Events[0].Version++ }, // the row has another version
		"event":   func(c *db.Changes) { c.Events[0].Version-- },                      // the event exists
	}
	for name, spoil := range stale {
		for _, races := range []int{1, 5} {
			key := fmt.Sprint(name, races)
			t.Run(key, func(t *testing.T) { testLostRace(t, b, key, races, spoil) })
		}
	}
}

// testLostRace loses a phase's first races.
func testLostRace(t *testing.T, b *bench, key string, races int, spoil func(*db.Changes)) {
	b.add(key, nil)
	decisions := 0
	p := b.settle(key, func(p *payments.Payment, d *payments.Dispatch) { p.Captured, d.Checks = 1, 1 })
	decide := p.Decide
	p.Decide = func(h db.Have) (db.Changes, error) {
		if h.Payment.Version != 1 || h.Payment.Captured != 0 || h.Dispatch.Checks != 0 {
			t.Errorf("decision %d reads what was rolled back: %+v", decisions, h.Payment)
		}
		c, err := decide(h)
		if decisions++; decisions <= races {
			spoil(&c)
		}
		return c, err
	}
	err := b.db.Commit(t.Context(), p)
	got, readErr := b.db.Payment(t.Context(), account, "pay_"+key)
	must(t, readErr)
	if err != nil || decisions != races+1 || got.Version != 2 || got.Captured != 1 {
		t.Errorf("%v after %d decisions, version %d", err, decisions, got.Version)
	}
}

func TestCommitFencesAndRollsBack(t *testing.T) { onEach(t, testCommitFencesAndRollsBack) }

func testCommitFencesAndRollsBack(t *testing.T, b *bench) {
	b.add("k", nil)
	stale := b.settle("k", func(p *payments.Payment, _ *payments.Dispatch) { p.Captured = 1 })
	stale.Want.Held.Owner = "another"
	if err := b.db.Commit(t.Context(), stale); !errors.Is(err, onlyonce.ErrFenced) {
		t.Errorf("a claim that is another's: %v", err)
	}
	mine := errors.New("mine")
	in := intentOf("free")
	refused := db.Phase{Want: db.Want{Begin: &in}, Decide: func(db.Have) (db.Changes, error) { return db.Changes{}, mine }}
	if err := b.db.Commit(t.Context(), refused); err != mine {
		t.Errorf("the decision's own error reaches the caller as %v", err)
	}
	refused.Decide = func(h db.Have) (db.Changes, error) { return db.Changes{}, nil }
	if err := b.db.Commit(t.Context(), refused); err != nil || b.record("free").Status != "" {
		t.Errorf("no changes: %v, the claim is %q", err, b.record("free").Status)
	}
	refused.Decide = func(h db.Have) (db.Changes, error) { panic("broken") }
	func() {
		defer func() { _ = recover() }()
		_ = b.db.Commit(t.Context(), refused)
	}()
	if b.record("free").Status != "" {
		t.Error("a decision that panicked leaves its claim")
	}
	b.add("free", nil)
	if err := b.db.Release(t.Context(), b.held("free")); !errors.Is(err, onlyonce.ErrFenced) {
		t.Errorf("release of what was dispatched: %v", err)
	}
	if n := b.count("SELECT captured FROM payments WHERE id = 'pay_k'"); n != 0 {
		t.Errorf("captured %d", n)
	}
}

func TestTakeOverWaitsForTheLease(t *testing.T) { onEach(t, testTakeOverWaitsForTheLease) }

func testTakeOverWaitsForTheLease(t *testing.T, b *bench) {
	b.add("k", nil)
	key := intentOf("k").Key
	attempt := 0
	want := db.Want{TakeOver: &key, PaymentID: "pay_k", Dispatch: true}
	p := db.Phase{Want: want, Decide: func(h db.Have) (db.Changes, error) {
		attempt = h.Claim.Attempt
		return db.Changes{Dispatch: h.Dispatch}, nil
	}}
	if err := b.db.Commit(t.Context(), p); !errors.Is(err, onlyonce.ErrInFlight) || attempt != 0 {
		t.Errorf("inside the lease: %v", err)
	}
	b.advance(b.engine.Lease() + time.Second)
	if err := b.db.Commit(t.Context(), p); err != nil || attempt != 2 {
		t.Errorf("after the lease: %v, attempt %d", err, attempt)
	}
}
