package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// doublings make the tables large enough that no planner takes a scan for an
// index's equal: 8,192 rows.
const doublings = 13

// fill multiplies the one payment of a bench, with all that hangs on it. A few
// rows are due, most are settled, as in a life.
func (b *bench) fill() {
	b.t.Helper()
	for i := range doublings {
		b.exec(fmt.Sprintf(`INSERT INTO payments SELECT account_id, CONCAT(id, '_%[1]d'), CONCAT(idempotency_key, '_%[1]d'),
			CONCAT(order_id, '_%[1]d'), NULL, amount, captured, currency, state, version, description, metadata,
			decline_code, provider_instance, provider_id, created_at + %[2]d, updated_at FROM payments`, i, 1<<i))
		b.exec(fmt.Sprintf(`INSERT INTO refunds SELECT account_id, CONCAT(id, '_%[1]d'), CONCAT(payment_id, '_%[1]d'),
			CONCAT(idempotency_key, '_%[1]d'), amount, currency, state, version, reason, decline_code, provider_instance,
			provider_id, created_at + %[2]d, updated_at FROM refunds`, i, 1<<i))
		b.exec(fmt.Sprintf(`INSERT INTO dispatches SELECT account_id, CONCAT(resource_id, '_%[1]d'), kind,
			CONCAT(idempotency_key, '_%[1]d'), request_id, provider_instance, provider_key,
			CASE WHEN %[1]d < 4 THEN request END, api_version, amount, currency, provider_id, first_sent_at + %[2]d, sends,
			ambiguous, reads_only, accepted, checks, absences, unknown_since,
			CASE WHEN %[1]d < 4 THEN first_sent_at ELSE 0 END FROM dispatches`, i, 1<<i))
		b.exec(fmt.Sprintf(`INSERT INTO events SELECT account_id, CONCAT(resource_id, '_%d'), version, at, type, state,
			attempt, detail FROM events`, i))
		b.exec(fmt.Sprintf(`INSERT INTO replays SELECT account_id, CONCAT(resource_id, '_%d'), replays,
			last_replayed_at FROM replays`, i))
		b.exec(fmt.Sprintf(`INSERT INTO idempotency_keys SELECT account_id, CONCAT(idempotency_key, '_%[1]d'), status,
			body_hash, operation, owner, attempt, lease_until, recovery_point, resource, created_at, completed_at,
			expires_at + %[2]d, version, response_status, response_headers, response_body FROM idempotency_keys`, i, 1<<i))
	}
	for _, table := range []string{"payments", "refunds", "dispatches", "events", "replays", "idempotency_keys"} {
		switch b.store.Dialect().Name {
		case "mysql":
			must(b.t, b.raw.QueryRowContext(b.t.Context(), "ANALYZE TABLE "+table).Err())
		default:
			b.exec("ANALYZE " + table)
		}
	}
}

// hotIndexes say which index must serve the statements that hold some words: a
// whole account read in the order of another index is no better than a scan.
var hotIndexes = map[string]string{
	"p.order_id =":               "payments_by_order",
	"p.idempotency_key =":        "payments_by_key",
	"p.order_guard =":            "payments_by_guard",
	"r.payment_id =":             "refunds_by_payment", // in each payment's sums, too
	"COUNT(*) FROM payments":     "payments_by_key",
	"COUNT(*) FROM refunds":      "refunds_by_key",
	"ORDER BY next_check_at":     "dispatches_by_check",
	"MIN(next_check_at)":         "dispatches_by_check",
	"first_sent_at >":            "dispatches_by_first_send",
	"status = 'completed' AND":   "idempotency_keys_expiry",
	"AND lease_until <=":         "idempotency_keys_lease",
	"ORDER BY p.created_at DESC": "payments_by_",
}

// TestNothingHotScans: what runs for every request or every sweep is found
// over an index, on every engine, the keys' own statements included. What runs
// once, at the start of a server or for a person, may scan: Unfinished,
// CheckSeal, APIKeys of all accounts.
func TestNothingHotScans(t *testing.T) { onEach(t, testNothingHotScans) }

func testNothingHotScans(t *testing.T, b *bench) {
	b.large()
	b.seen.take()
	b.request()
	b.sweep()
	explained := 0
	done := map[string]bool{}
	for _, s := range b.seen.take() {
		verb, _, _ := strings.Cut(strings.TrimSpace(s.query), " ")
		if done[s.query] || !slices.Contains([]string{"SELECT", "UPDATE", "DELETE"}, verb) {
			continue
		}
		done[s.query] = true
		plan, scans := b.explain(s)
		if explained++; scans {
			t.Errorf("%s\nreads a whole table:\n%s", s.query, plan)
		}
		for words, index := range hotIndexes {
			if strings.Contains(plan, "optimized away") {
				continue // MySQL has looked at the end of the index while it planned
			}
			if strings.Contains(s.query, words) && verb == "SELECT" && !strings.Contains(plan, index) {
				t.Errorf("%s\ndoes not use %s:\n%s", s.query, index, plan)
			}
		}
	}
	const least = 30 // what a request and a sweep send, so that nothing is left out silently
	if explained < least {
		t.Errorf("only %d statements were seen", explained)
	}
	// The judgement itself: this one has no index to use.
	if plan, scans := b.explain(statement{query: "SELECT id FROM payments WHERE decline_code = 'x'"}); !scans {
		t.Errorf("a scan is not seen as one:\n%s", plan)
	}
}

// large makes a bench with many rows.
func (b *bench) large() {
	b.t.Helper()
	b.add("k", func(p *payments.Payment, _ *payments.Dispatch) { p.OrderID, p.State = "o", payments.PendingUnknown })
	b.exec(`INSERT INTO refunds (account_id, id, payment_id, idempotency_key, amount, currency, state, version, reason,
		decline_code, provider_instance, provider_id, created_at, updated_at)
		VALUES (?, 're_k', 'pay_k', 'k', 1, 'USD', 'succeeded', 1, '', '', 'fake:1', '', 1, 1)`, account)
	b.exec(`INSERT INTO dispatches SELECT account_id, 're_k', 'refund', idempotency_key, request_id, provider_instance,
		provider_key, request, api_version, amount, currency, provider_id, first_sent_at, sends, ambiguous, reads_only,
		accepted, checks, absences, unknown_since, next_check_at FROM dispatches`)
	must(b.t, b.db.AddReplays(b.t.Context(), []db.ReplayCount{{Account: account, Resource: "pay_k", N: 1}}))
	c := b.held("k")
	finish := func(db.Have) (db.Changes, error) {
		return db.Changes{Key: db.KeyChange{Finish: &onlyonce.Outcome{Status: 201}}}, nil
	}
	must(b.t, b.db.Commit(b.t.Context(), db.Phase{Want: db.Want{Held: &c}, Decide: finish}))
	b.fill()
}

// request does what requests do.
func (b *bench) request() {
	t := b.t
	t.Helper()
	in := intentOf("k")
	_, err := b.db.Look(t.Context(), in)
	must(t, err)
	p := begin("fresh", func(p *payments.Payment, _ *payments.Dispatch) { p.OrderID, p.GuardsOrder = "fresh", true })
	p.Want.OrderID = "fresh"
	must(t, b.db.Commit(t.Context(), p))
	must(t, b.db.Commit(t.Context(), b.settle("fresh", func(*payments.Payment, *payments.Dispatch) {})))
	c := b.held("fresh")
	must(t, b.db.Commit(t.Context(), db.Phase{Want: db.Want{Held: &c, RefundID: "re_k", Dispatch: true},
		Decide: func(h db.Have) (db.Changes, error) {
			r := *h.Refund
			r.Version++
			e := payments.Event{Account: account, Resource: r.ID, Version: r.Version, At: h.Now, Type: payments.EventChecked}
			o := onlyonce.Outcome{Status: 201}
			return db.Changes{Refund: &r, Events: []payments.Event{e}, Key: db.KeyChange{Finish: &o}}, nil
		}}))
	one := db.Page{Limit: 100, After: &db.Cursor{CreatedAt: b.now(), ID: "pay_k"}}
	for _, page := range []db.Page{{Limit: 100}, one} {
		for _, f := range []db.Filter{{}, {State: payments.PendingUnknown}, {OrderID: "o_7"}, {Key: "k_7"}} {
			list, _, err := b.db.Payments(t.Context(), account, f, page)
			if must(t, err); len(list) == 0 {
				t.Errorf("%+v: no rows", f)
			}
		}
		_, _, err = b.db.Refunds(t.Context(), account, "pay_k", page)
		must(t, err)
	}
	_, _, err = b.db.Events(t.Context(), account, "pay_k", 0, 100)
	must(t, err)
	_, err = b.db.Refund(t.Context(), account, "re_k")
	must(t, err)
	_, _, err = b.db.Replays(t.Context(), account, "pay_k")
	must(t, err)
	must(t, b.db.AddReplays(t.Context(), []db.ReplayCount{{Account: account, Resource: "pay_k", N: 1}}))
	_ = b.signsIn("nobody")
}

// sweep does what the background duties do.
func (b *bench) sweep() {
	t := b.t
	t.Helper()
	due, err := b.db.Due(t.Context(), "fake:1", 10)
	if must(t, err); len(due) == 0 {
		t.Error("nothing is due")
	}
	_, _, err = b.db.NextCheck(t.Context(), "fake:1")
	must(t, err)
	future := b.now().Add(time.Hour) // written by a clock that has been set back since
	b.add("future", func(_ *payments.Payment, d *payments.Dispatch) { d.FirstSentAt = future })
	n, err := b.db.StopFutureSends(t.Context(), time.Minute)
	if must(t, err); n != 1 {
		t.Errorf("%d sends in the future", n)
	}
	must(t, b.store.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		for _, s := range []onlyonce.Status{onlyonce.InProgress, onlyonce.Completed, onlyonce.Tombstone} {
			if _, err := b.store.Store().Due(ctx, tx, s, 10); err != nil {
				return err
			}
		}
		return nil
	}))
	b.add("lapsed", nil)
	b.advance(b.engine.Lease() + time.Second)
	key := intentOf("lapsed").Key
	must(t, b.db.Commit(t.Context(), db.Phase{Want: db.Want{TakeOver: &key, PaymentID: "pay_lapsed", Dispatch: true},
		Decide: func(h db.Have) (db.Changes, error) { return db.Changes{Dispatch: h.Dispatch}, nil }}))
	must(t, b.store.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := b.store.Store().Reap(ctx, tx, []onlyonce.Key{intentOf("k").Key}, time.Hour)
		return err
	}))
}

// explain returns an engine's plan, and whether it reads a whole table or a
// whole index.
func (b *bench) explain(s statement) (plan string, scans bool) {
	b.t.Helper()
	word := map[string]string{
		"sqlite": "EXPLAIN QUERY PLAN ", "postgres": "EXPLAIN ", "mysql": "EXPLAIN FORMAT=TRADITIONAL ",
	}
	dialect := b.store.Dialect().Name
	rows, err := b.raw.QueryContext(b.t.Context(), word[dialect]+s.query, s.args...)
	if err != nil {
		b.t.Fatalf("explain %s: %v", s.query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	must(b.t, err)
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		must(b.t, rows.Scan(into...))
		row := map[string]string{}
		for i, name := range columns {
			row[name] = cells[i].String
			plan += cells[i].String + " "
		}
		plan += "\n"
		switch dialect {
		case "sqlite":
			scans = scans || strings.HasPrefix(row["detail"], "SCAN ") && row["detail"] != "SCAN CONSTANT ROW"
		case "postgres":
			scans = scans || strings.Contains(row["QUERY PLAN"], "Seq Scan")
		case "mysql":
			scans = scans || row["type"] == "ALL" || row["type"] == "index"
		}
	}
	must(b.t, rows.Err())
	return plan, scans
}

// TestListsNeedLittleMemory: a list holds a page and not the table.
func TestListsNeedLittleMemory(t *testing.T) {
	for _, e := range engines.Named(t, engines.SQLite) { // what is held is the same on all
		testListsNeedLittleMemory(t, newBench(t, e, db.PlainSealer()))
	}
}

func testListsNeedLittleMemory(t *testing.T, b *bench) {
	b.large()
	read := func() {
		due, err := b.db.Due(t.Context(), "fake:1", 16)
		if err != nil || len(due) != 16 {
			t.Fatalf("%d due, %v", len(due), err)
		}
		for _, f := range []db.Filter{{}, {State: payments.PendingUnknown}, {OrderID: "o_7"}, {Key: "k_7"}} {
			page, _, err := b.db.Payments(t.Context(), account, f, db.Page{Limit: 100})
			if err != nil || len(page) == 0 {
				t.Fatalf("%+v: %d rows, %v", f, len(page), err)
			}
		}
	}
	read()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const times = 10
	for range times {
		read()
		b.seen.take()
	}
	runtime.ReadMemStats(&after)
	const most = 2 << 20 // for five reads of up to 100 rows
	if per := (after.TotalAlloc - before.TotalAlloc) / times; per > most {
		t.Errorf("each read takes %d bytes, at most %d", per, most)
	}
}
