package db_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// TestTheWidestRequestFits: what the API accepts is stored whole on every
// engine, in characters of four bytes or of six in JSON.
func TestTheWidestRequestFits(t *testing.T) { onEach(t, testTheWidestRequestFits) }

func testTheWidestRequestFits(t *testing.T, b *bench) {
	const wide = "𝄞"
	metadata := map[string]string{}
	for i := range 20 {
		metadata[fmt.Sprintf("%02d", i)+strings.Repeat("<", 38)] = strings.Repeat(wide, 250) + strings.Repeat("\x01", 250)
	}
	// The last moment of a leap day, the hour that a summer time repeats, and
	// the first one after 32 bits of seconds.
	times := []time.Time{
		time.Date(2028, 2, 29, 23, 59, 59, 999999000, time.UTC),
		time.Date(2025, 10, 26, 0, 30, 0, 1000, time.UTC),
		time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC),
	}
	for i, at := range times {
		key := strings.Repeat("k", 254) + fmt.Sprint(i)
		b.add(fmt.Sprint(i), func(p *payments.Payment, d *payments.Dispatch) {
			p.Key, d.Key = key, key
			p.OrderID, p.GuardsOrder = strings.Repeat(wide, 254)+fmt.Sprint(i), true
			p.Description, p.Metadata, p.CreatedAt = strings.Repeat(wide, 1000), metadata, at
			p.ProviderID, p.DeclineCode = strings.Repeat("p", 255), strings.Repeat("c", 255)
			p.Amount.Minor, d.Amount.Minor = math.MaxInt64, math.MaxInt64
			d.Request.Body = []byte(strings.Repeat("\x00\xff", 1<<15))
		})
		p, err := b.db.Payment(t.Context(), account, fmt.Sprint("pay_", i))
		must(t, err)
		if p.OrderID != strings.Repeat(wide, 254)+fmt.Sprint(i) || p.Description != strings.Repeat(wide, 1000) ||
			!maps.Equal(p.Metadata, metadata) || !p.CreatedAt.Equal(at) || p.Amount.Minor != math.MaxInt64 ||
			p.ProviderID != strings.Repeat("p", 255) || p.DeclineCode != strings.Repeat("c", 255) || p.Key != key {
			t.Errorf("payment %d does not come back as it was stored", i)
		}
		list, _, err := b.db.Payments(t.Context(), account, db.Filter{OrderID: p.OrderID}, db.Page{Limit: 2})
		if err != nil || len(list) != 1 {
			t.Errorf("%d payments of the order, %v", len(list), err)
		}
	}
	b.storeWideRefund()
}

// storeWideRefund refunds payment 0 with the longest reason.
func (b *bench) storeWideRefund() {
	t := b.t
	t.Helper()
	const wide = "𝄞"
	in := intentOf("refund")
	detail := strings.Repeat(wide, 1<<10)
	must(t, b.db.Commit(t.Context(), db.Phase{Want: db.Want{Begin: &in, PaymentID: "pay_0"}, Decide: func(h db.Have) (
		db.Changes, error) {
		r := payments.Refund{Account: account, ID: "re_wide", PaymentID: "pay_0", Key: "refund", Amount: h.Payment.Amount,
			State: payments.Succeeded, Version: 1, Reason: strings.Repeat(wide, 500), Instance: "fake:1", CreatedAt: h.Now}
		d := payments.Dispatch{Account: account, Resource: r.ID, Kind: payments.KindRefund, Key: "refund", Amount: r.Amount}
		e := payments.Event{Account: account, Resource: r.ID, Version: 1, At: h.Now, Detail: detail, State: r.State}
		c := *h.Claim
		c.Point, c.Resource = onlyonce.Dispatched, r.ID
		return db.Changes{Refund: &r, Dispatch: &d, Events: []payments.Event{e}, Key: db.KeyChange{Advance: &c}}, nil
	}}))
	r, err := b.db.Refund(t.Context(), account, "re_wide")
	if err != nil || r.Reason != strings.Repeat(wide, 500) || r.Amount.Minor != math.MaxInt64 {
		t.Errorf("the refund does not come back as it was stored: %v", err)
	}
	events, _, err := b.db.Events(t.Context(), account, "re_wide", 0, 10)
	if err != nil || len(events) != 1 || events[0].Detail != detail {
		t.Errorf("its timeline does not: %v", err)
	}
	p, err := b.db.Payment(t.Context(), account, "pay_0")
	if err != nil || p.Refunded != math.MaxInt64 || p.Reserved != math.MaxInt64 || p.Doubtful != 0 {
		t.Errorf("the payment's sums are %d, %d, %d; %v", p.Refunded, p.Reserved, p.Doubtful, err)
	}
}

// TestWhatNoEngineHoldsIsNotFound is case 8 of the reports for names that come
// in a path: some engines refuse such an argument, and the rest has no such row.
func TestWhatNoEngineHoldsIsNotFound(t *testing.T) { onEach(t, testWhatNoEngineHoldsIsNotFound) }

func testWhatNoEngineHoldsIsNotFound(t *testing.T, b *bench) {
	b.add("k", nil)
	for _, id := range []string{"pay_\x00", "pay_k\x00", "pay_\xff", "\xed\xa0\x80"} {
		if _, err := b.db.Payment(t.Context(), account, id); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("payment %q: %v", id, err)
		}
		if _, err := b.db.Refund(t.Context(), account, id); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("refund %q: %v", id, err)
		}
		if list, _, err := b.db.Events(t.Context(), account, id, 0, 1); len(list) != 0 || err != nil {
			t.Errorf("events of %q: %d, %v", id, len(list), err)
		}
		after := &db.Cursor{CreatedAt: b.now(), ID: id}
		for _, f := range []db.Filter{{OrderID: id}, {Key: id}, {State: payments.State(id)}} {
			if list, _, err := b.db.Payments(t.Context(), account, f, db.Page{Limit: 1}); len(list) != 0 || err != nil {
				t.Errorf("%+q: %d rows, %v", f, len(list), err)
			}
		}
		if list, _, err := b.db.Payments(t.Context(), account, db.Filter{}, db.Page{After: after, Limit: 1}); err != nil {
			t.Errorf("after %q: %d rows, %v", id, len(list), err)
		}
		if _, _, err := b.db.Refunds(t.Context(), account, "pay_k", db.Page{After: after, Limit: 1}); err != nil {
			t.Errorf("refunds after %q: %v", id, err)
		}
		in := intentOf("r")
		err := b.db.Commit(t.Context(), db.Phase{Want: db.Want{Begin: &in, PaymentID: id}, Decide: func(h db.Have) (
			db.Changes, error) {
			if h.Payment != nil {
				t.Errorf("%q is a payment", id)
			}
			return db.Changes{}, nil
		}})
		must(t, err)
	}
}

// TestMigrationsStandARepetition: on MySQL a crash in the middle leaves half of
// the tables, and the next start begins anew.
func TestMigrationsStandARepetition(t *testing.T) { onEach(t, testMigrationsStandARepetition) }

func testMigrationsStandARepetition(t *testing.T, b *bench) {
	id := b.add("k", nil)
	b.exec("DROP TABLE replays")
	b.exec("DELETE FROM schema_payments WHERE version_id > 0")
	if n, err := b.store.Migrate(t.Context(), db.Migrations()); n != 1 || err != nil {
		t.Fatalf("%d migrations, %v", n, err)
	}
	if _, err := b.db.Payment(t.Context(), account, id); err != nil {
		t.Errorf("the payment that was there: %v", err)
	}
	must(t, b.db.AddReplays(t.Context(), []db.ReplayCount{{Account: account, Resource: id, N: 1}}))
}
