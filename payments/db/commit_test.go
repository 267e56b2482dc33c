package db_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

func (b *bench) count(query string, args ...any) (n int64) {
	b.t.Helper()
	must(b.t, b.raw.QueryRowContext(b.t.Context(), query, args...).Scan(&n))
	return n
}

// TestLostRaceIsDecidedAnew: a phase that was decided on an older version
// writes nothing, reads again and decides again.
func TestLostRaceIsDecidedAnew(t *testing.T) {
	stale := map[string]func(*db.Changes){
		"payment": func(c *db.Changes) { c.Payment.Version++; c.Events[0].Version++ }, // the row has another version
		"event":   func(c *db.Changes) { c.Events[0].Version-- },                      // the event exists
	}
	for name, spoil := range stale {
		for _, races := range []int{1, 7, 100} {
			t.Run(fmt.Sprintf("%s/%d", name, races), func(t *testing.T) {
				b := newBench(t, db.PlainSealer())
				b.add("k", nil)
				decisions := 0
				p := b.settle("k", func(p *payments.Payment, d *payments.Dispatch) { p.Captured, d.Checks = 1, 1 })
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
				got, readErr := b.db.Payment(t.Context(), account, "pay_k")
				must(t, readErr)
				switch lost := races > 8; {
				case lost && (!errors.Is(err, db.ErrConflict) || decisions != 8 || got.Version != 1):
					t.Errorf("a race lost for ever: %v after %d decisions, version %d", err, decisions, got.Version)
				case !lost && (err != nil || decisions != races+1 || got.Version != 2 || got.Captured != 1):
					t.Errorf("%v after %d decisions, version %d", err, decisions, got.Version)
				}
			})
		}
	}
}

func TestCommitFencesAndRollsBack(t *testing.T) {
	b := newBench(t, db.PlainSealer())
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

func TestTakeOverWaitsForTheLease(t *testing.T) {
	b := newBench(t, db.PlainSealer())
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

// TestManyRowsNeedLittleMemory: lists hold a page and not the table, and the
// reads of the resolver stay on their index.
func TestManyRowsNeedLittleMemory(t *testing.T) {
	const rows = 100_000
	b := newBench(t, db.PlainSealer())
	b.add("first", nil)
	b.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO payments SELECT account_id, 'pay_' || i, 'k' || i, 'o' || i, NULL, amount, captured, currency,
		'pending_unknown', version, description, metadata, decline_code, provider_instance, provider_id, created_at + i / 7,
		updated_at FROM payments, n WHERE id = 'pay_first'`, rows)
	b.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO dispatches SELECT account_id, 'pay_' || i, kind, 'k' || i, request_id, provider_instance, 'pk' || i,
		randomblob(200), api_version, amount, currency, provider_id, first_sent_at, sends, ambiguous, reads_only, accepted,
		checks, absences, first_sent_at, first_sent_at + i FROM dispatches, n WHERE resource_id = 'pay_first'`, rows)
	b.advance(time.Minute)
	read := func() {
		due, err := b.db.Due(t.Context(), "fake:1", 100)
		if err != nil || len(due) != 100 || due[0].Resource != "pay_1" {
			t.Fatalf("%d due, %v", len(due), err)
		}
		for _, f := range []db.Filter{{}, {State: payments.PendingUnknown}, {OrderID: "o7"}, {Key: "k7"}} {
			page, _, err := b.db.Payments(t.Context(), account, f, db.Page{Limit: 100})
			if err != nil || len(page) == 0 {
				t.Fatalf("%+v: %d rows, %v", f, len(page), err)
			}
		}
	}
	read()
	plan := ""
	rowsOf, err := b.raw.QueryContext(t.Context(), `EXPLAIN QUERY PLAN SELECT p.id FROM payments p
		WHERE p.account_id = 'a' AND p.idempotency_key = 'k' ORDER BY p.created_at DESC, p.id DESC LIMIT 100`)
	must(t, err)
	for rowsOf.Next() {
		var id, parent, unused int
		must(t, rowsOf.Scan(&id, &parent, &unused, &plan))
	}
	must(t, rowsOf.Close())
	if !strings.Contains(plan, "payments_by_key") {
		t.Errorf("payments of one key are looked for by %q", plan)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const times = 10
	for range times {
		read()
	}
	runtime.ReadMemStats(&after)
	const most = 2 << 20 // for five reads of up to 100 rows
	if per := (after.TotalAlloc - before.TotalAlloc) / times; per > most {
		t.Errorf("each read takes %d bytes, at most %d", per, most)
	}
}
