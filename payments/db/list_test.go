package db_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// walk reads a list page by page.
func walk[T any](t *testing.T, limit int, read func(db.Page) ([]T, *db.Cursor, error)) (all []T) {
	t.Helper()
	var after *db.Cursor
	for range 1000 {
		list, next, err := read(db.Page{After: after, Limit: limit})
		must(t, err)
		all = append(all, list...)
		if len(list) > limit || next != nil && len(list) != limit {
			t.Fatalf("a page of %d has %d rows and goes on: %v", limit, len(list), next != nil)
		}
		if next == nil {
			return all
		}
		after = next
	}
	t.Fatal("the list has no end")
	return nil
}

// TestListsAreExactUnderEqualTimes: every row once, newest first, however the
// pages fall among rows of one microsecond.
func TestListsAreExactUnderEqualTimes(t *testing.T) { onEach(t, testListsAreExactUnderEqualTimes) }

func testListsAreExactUnderEqualTimes(t *testing.T, b *bench) {
	at := b.now()
	var want []payments.Payment
	for i := range 40 {
		key := fmt.Sprintf("k%02d", rand.IntN(1<<20)*100+i)
		created := at.Add(time.Duration(i/13) * time.Microsecond)
		id := b.add(key, func(p *payments.Payment, _ *payments.Dispatch) { p.CreatedAt = created })
		want = append(want, payments.Payment{ID: id, CreatedAt: created})
		b.exec(`INSERT INTO refunds (account_id, id, payment_id, idempotency_key, amount, currency, state, version, reason,
			decline_code, provider_instance, provider_id, created_at, updated_at)
			VALUES (?, ?, 'pay_one', ?, 1, 'USD', 'succeeded', 1, '', '', 'fake:1', '', ?, ?)`,
			account, "re_"+key, key, created.UnixMicro(), created.UnixMicro())
		b.exec(`INSERT INTO dispatches SELECT account_id, CONCAT('re_', idempotency_key), 'refund', idempotency_key,
			request_id, provider_instance, provider_key, request, api_version, amount, currency, provider_id, first_sent_at,
			sends, ambiguous, reads_only, accepted, checks, absences, unknown_since, next_check_at
			FROM dispatches WHERE resource_id = ?`, id)
	}
	b.add("one", func(p *payments.Payment, _ *payments.Dispatch) { p.CreatedAt = at.Add(-time.Hour) })
	slices.SortFunc(want, func(x, y payments.Payment) int {
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.ID, x.ID))
	})
	for _, limit := range []int{1, 2, 7, 13, 40, 41, 100} {
		list := walk(t, limit, func(p db.Page) ([]payments.Payment, *db.Cursor, error) {
			return b.db.Payments(t.Context(), account, db.Filter{State: payments.Processing}, p)
		})
		refunds := walk(t, limit, func(p db.Page) ([]payments.Refund, *db.Cursor, error) {
			return b.db.Refunds(t.Context(), account, "pay_one", p)
		})
		if len(list) != 41 || len(refunds) != 40 {
			t.Fatalf("pages of %d: %d payments, %d refunds", limit, len(list), len(refunds))
		}
		for i, w := range want {
			if list[i].ID != w.ID || !list[i].CreatedAt.Equal(w.CreatedAt) || "pay_"+refunds[i].Key != w.ID {
				t.Fatalf("pages of %d: row %d is %s and %s, want %s", limit, i, list[i].ID, refunds[i].ID, w.ID)
			}
		}
	}
}

func TestFilters(t *testing.T) { onEach(t, testFilters) }

func testFilters(t *testing.T, b *bench) {
	b.add("a", func(p *payments.Payment, _ *payments.Dispatch) { p.OrderID, p.State = "o1", payments.Failed })
	b.add("b", func(p *payments.Payment, _ *payments.Dispatch) { p.OrderID, p.GuardsOrder = "o1", true })
	b.add("c", func(p *payments.Payment, _ *payments.Dispatch) { p.State = payments.Review })
	b.exec("UPDATE payments SET created_at = created_at + 1000 WHERE id = 'pay_c'")
	for _, c := range []struct {
		account string
		filter  db.Filter
		want    int
	}{
		{account, db.Filter{}, 3},
		{account, db.Filter{OrderID: "o1"}, 2},
		{account, db.Filter{OrderID: "o1", State: payments.Failed}, 1},
		{account, db.Filter{State: payments.Review}, 1},
		{account, db.Filter{Key: "b"}, 1},
		{account, db.Filter{Key: "b", State: payments.Review}, 0},
		{account, db.Filter{OrderID: "O1"}, 0},
		{account, db.Filter{OrderID: "' OR ''='"}, 0},
		{"acct_2", db.Filter{}, 0},
	} {
		list, next, err := b.db.Payments(t.Context(), c.account, c.filter, db.Page{Limit: 3})
		if err != nil || next != nil || len(list) != c.want {
			t.Errorf("%s %+v: %d rows, next %v, %v; want %d", c.account, c.filter, len(list), next, err, c.want)
		}
	}
}

// TestEverythingComesBack: what is stored is what is read.
func TestEverythingComesBack(t *testing.T) { onEach(t, testEverythingComesBack) }

func testEverythingComesBack(t *testing.T, b *bench) {
	b.add("k", func(p *payments.Payment, _ *payments.Dispatch) { p.OrderID, p.GuardsOrder = "o", true })
	since := b.now()
	must(t, b.db.Commit(t.Context(), b.settle("k", func(p *payments.Payment, d *payments.Dispatch) {
		p.State, p.Captured, p.ProviderID, p.DeclineCode = payments.PendingUnknown, 7, "pi_1", "c"
		d.ProviderID, d.Sends, d.Ambiguous, d.ReadsOnly, d.Accepted = "pi_1", 2, true, true, true
		d.Checks, d.Absences, d.UnknownSince, d.NextCheckAt = 3, 1, since, since.Add(time.Second)
	})))
	p, err := b.db.Payment(t.Context(), account, "pay_k")
	must(t, err)
	if p.State != payments.PendingUnknown || p.Captured != 7 || p.ProviderID != "pi_1" || p.DeclineCode != "c" ||
		p.Version != 2 ||
		p.Key != "k" || p.OrderID != "o" || !p.GuardsOrder || p.Amount.String() != "100.00 USD" || p.Metadata["a"] != "ü" ||
		p.Description != "d" || p.Instance != "fake:1" || !p.UnknownSince.Equal(since) ||
		!p.NextCheckAt.Equal(since.Add(time.Second)) {
		t.Errorf("the payment is %+v", p)
	}
	b.advance(2 * time.Second)
	due, err := b.db.Due(t.Context(), "fake:1", 10)
	must(t, err)
	if len(due) != 1 || due[0].Request.Body != nil || due[0].Key != "k" || due[0].Sends != 2 || !due[0].Ambiguous ||
		!due[0].ReadsOnly || !due[0].Accepted || due[0].Checks != 3 || due[0].Absences != 1 || due[0].ProviderKey != "pk_k" {
		t.Errorf("due is %+v", due)
	}
	for _, id := range []string{"pay_absent", "PAY_K", "pay_k "} {
		if _, err := b.db.Payment(t.Context(), account, id); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("payment %q: %v", id, err)
		}
	}
	if _, err := b.db.Payment(t.Context(), "acct_2", "pay_k"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("another account's payment: %v", err)
	}
	if _, _, err := b.db.Refunds(t.Context(), "acct_2", "pay_k", db.Page{Limit: 1}); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("another account's refunds: %v", err)
	}
	if _, err := b.db.Refund(t.Context(), account, "re_absent"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("an absent refund: %v", err)
	}
}

func TestEventsPageByPage(t *testing.T) { onEach(t, testEventsPageByPage) }

func testEventsPageByPage(t *testing.T, b *bench) {
	b.add("k", nil)
	for range 9 {
		must(t, b.db.Commit(t.Context(), b.settle("k", func(*payments.Payment, *payments.Dispatch) {})))
	}
	after, seen := 0, 0
	for more := true; more; {
		var list []payments.Event
		var err error
		list, more, err = b.db.Events(t.Context(), account, "pay_k", after, 4)
		must(t, err)
		for _, e := range list {
			if seen++; e.Version != seen {
				t.Fatalf("event %d has version %d", seen, e.Version)
			}
			after = e.Version
		}
	}
	if seen != 10 {
		t.Errorf("%d events", seen)
	}
	if list, more, err := b.db.Events(t.Context(), account, "pay_k", 6, 4); len(list) != 4 || more || err != nil {
		t.Errorf("the last full page: %d, more %v, %v", len(list), more, err)
	}
}

func TestDueAndUnfinished(t *testing.T) { onEach(t, testDueAndUnfinished) }

func testDueAndUnfinished(t *testing.T, b *bench) {
	now := b.now()
	at := func(after time.Duration, instance string, final bool) func(*payments.Payment, *payments.Dispatch) {
		return func(_ *payments.Payment, d *payments.Dispatch) {
			d.NextCheckAt, d.Instance = now.Add(after), instance
			if final {
				d.Request.Body, d.NextCheckAt = nil, time.Time{}
			}
		}
	}
	b.add("late", at(time.Minute, "fake:1", false))
	b.add("second", at(-time.Second, "fake:1", false))
	b.add("first", at(-time.Minute, "fake:1", false))
	b.add("other", at(-time.Minute, "fake:2", false))
	b.add("final", at(0, "fake:3", true))
	for limit, want := range map[int]string{1: "[first]", 10: "[first second]"} {
		due, err := b.db.Due(t.Context(), "fake:1", limit)
		must(t, err)
		var keys []string
		for _, d := range due {
			keys = append(keys, d.Key)
		}
		if fmt.Sprint(keys) != want {
			t.Errorf("due of %d: %v, want %s", limit, keys, want)
		}
	}
	counts, err := b.db.Unfinished(t.Context())
	if err != nil || fmt.Sprint(counts) != "map[fake:1:3 fake:2:1]" {
		t.Errorf("unfinished: %v, %v", counts, err)
	}
	if wait, planned, err := b.db.NextCheck(t.Context(), "fake:2"); err != nil || !planned || wait > -time.Minute {
		t.Errorf("next check: %v, %v, %v", wait, planned, err)
	}
	if _, planned, err := b.db.NextCheck(t.Context(), "fake:3"); err != nil || planned {
		t.Errorf("a final one is planned: %v, %v", planned, err)
	}
}
