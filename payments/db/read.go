package db

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

//go:embed migrations
var migrations embed.FS

// Migrations are the payments' tables, for sqlstore.DB.Migrate.
func Migrations() sqlstore.Migrations {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return sqlstore.Migrations{Name: "payments", FS: files}
}

// Cursor is a place in a list that is sorted by (created_at, id), newest first.
type Cursor struct {
	CreatedAt time.Time
	ID        string
}

// Page is a share of a list: at most Limit rows that come after the cursor.
type Page struct {
	After *Cursor
	Limit int
}

// Filter narrows a list of payments; an empty member does not.
type Filter struct {
	OrderID string
	State   payments.State
	Key     string
}

func (d *DB) readPayment(ctx context.Context, tx onlyonce.Tx, account, id string) (p payments.Payment, err error) {
	if !storable(id) {
		return p, fmt.Errorf("payment %q: %w", id, ErrNotFound)
	}
	found := false
	scan := func(rows onlyonce.Rows) error {
		found = true
		return scanPayment(rows, &p)
	}
	if err := each(ctx, tx, scan, d.q.payment, account, id); err != nil {
		return p, fmt.Errorf("read payment: %w", err)
	}
	if !found {
		return p, fmt.Errorf("payment %q: %w", id, ErrNotFound)
	}
	return p, nil
}

func (d *DB) readRefund(ctx context.Context, tx onlyonce.Tx, account, id string) (r payments.Refund, err error) {
	if !storable(id) {
		return r, fmt.Errorf("refund %q: %w", id, ErrNotFound)
	}
	found := false
	scan := func(rows onlyonce.Rows) error {
		found = true
		return scanRefund(rows, &r)
	}
	if err := each(ctx, tx, scan, d.q.refund, account, id); err != nil {
		return r, fmt.Errorf("read refund: %w", err)
	}
	if !found {
		return r, fmt.Errorf("refund %q: %w", id, ErrNotFound)
	}
	return r, nil
}

// readDispatch returns nil when there is none.
func (d *DB) readDispatch(ctx context.Context, tx onlyonce.Tx, account, id string) (*payments.Dispatch, error) {
	var found *payments.Dispatch
	scan := func(rows onlyonce.Rows) error {
		found = new(payments.Dispatch)
		return scanDispatch(rows, found)
	}
	if err := each(ctx, tx, scan, d.q.dispatch, account, id); err != nil {
		return nil, fmt.Errorf("read dispatch: %w", err)
	}
	if found == nil || found.Request.Body == nil {
		return found, nil
	}
	plain, err := d.seal.Open(found.Request.Body)
	if err != nil {
		return nil, fmt.Errorf("dispatch %s: %w", id, err)
	}
	found.Request.Body = plain
	return found, nil
}

// Payment reads one payment, or ErrNotFound.
func (d *DB) Payment(ctx context.Context, account, id string) (p payments.Payment, err error) {
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		p, err = d.readPayment(ctx, tx, account, id)
		return err
	})
	return p, err
}

// Refund reads one refund, or ErrNotFound.
func (d *DB) Refund(ctx context.Context, account, id string) (r payments.Refund, err error) {
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		r, err = d.readRefund(ctx, tx, account, id)
		return err
	})
	return r, err
}

// Look answers an intent from the stored rows alone, in one snapshot, without
// a write: Have holds the decision, why the key forbids the request, and what
// the key made. onlyonce.ErrCommitUnknown: there is an outcome, and a failover
// could still lose it.
func (d *DB) Look(ctx context.Context, in onlyonce.Intent) (h Have, err error) {
	waits := false
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		h = Have{}
		var err error
		h.Decision, err = d.engine.Look(ctx, tx, in)
		if isKeyError(err) {
			h.KeyError, err = err, nil
		}
		if err == nil && h.Decision.Outcome != nil {
			waits, err = d.store.Store().AwaitsStandby(ctx, tx)
		}
		if err != nil {
			return err
		}
		switch id := h.Decision.Record.Resource; payments.KindOf(id) {
		case payments.KindPayment:
			var p payments.Payment
			p, err = d.readPayment(ctx, tx, in.Key.Account, id)
			h.Payment = &p
		case payments.KindRefund:
			var r payments.Refund
			r, err = d.readRefund(ctx, tx, in.Key.Account, id)
			h.Refund = &r
		}
		return err
	})
	if err != nil || !waits {
		return h, err
	}
	return h, d.store.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error { return d.lockKey(ctx, tx, in.Key) })
}

// Payments lists an account's payments, newest first, and the cursor of the
// next page, nil on the last.
func (d *DB) Payments(ctx context.Context, account string, f Filter, page Page) (
	list []payments.Payment, next *Cursor, err error) {
	if !storable(f.OrderID, string(f.State), f.Key, page.after().ID) {
		return nil, nil, nil
	}
	query, args := paymentColumns, []any{account}
	narrow := func(column, value string) {
		if value != "" {
			query, args = query+" AND p."+column+" = ?", append(args, value)
		}
	}
	narrow("order_id", f.OrderID)
	narrow("state", string(f.State))
	narrow("idempotency_key", f.Key)
	query, args = page.apply(query, paymentPage, paymentTail, args)
	list, err = listRows(ctx, d, scanPayment, query, args)
	if len(list) > page.Limit {
		list = list[:page.Limit]
		last := list[page.Limit-1]
		next = &Cursor{last.CreatedAt, last.ID}
	}
	return list, next, err
}

// Refunds lists a payment's refunds, newest first, and the cursor of the next
// page, nil on the last. ErrNotFound: the account has no such payment.
func (d *DB) Refunds(ctx context.Context, account, paymentID string, page Page) (
	list []payments.Refund, next *Cursor, err error) {
	if _, err := d.Payment(ctx, account, paymentID); err != nil {
		return nil, nil, err
	}
	if !storable(page.after().ID) {
		return nil, nil, nil
	}
	query, args := page.apply(refundColumns+" AND r.payment_id = ?", refundPage, refundTail, []any{account, paymentID})
	list, err = listRows(ctx, d, scanRefund, query, args)
	if len(list) > page.Limit {
		list = list[:page.Limit]
		last := list[page.Limit-1]
		next = &Cursor{last.CreatedAt, last.ID}
	}
	return list, next, err
}

// after is the page's cursor, zero for the first page.
func (p Page) after() Cursor {
	if p.After == nil {
		return Cursor{}
	}
	return *p.After
}

// apply asks for one row more than the page has, which tells whether another
// page follows.
func (p Page) apply(query, after, tail string, args []any) (string, []any) {
	if p.After != nil {
		at := micros(p.After.CreatedAt)
		query, args = query+after, append(args, at, at, p.After.ID)
	}
	return query + tail, append(args, p.Limit+1)
}

func listRows[T any](ctx context.Context, d *DB, scan func(onlyonce.Rows, *T) error, query string, args []any) (
	list []T, err error) {
	query = d.store.Dialect().Rebind(query)
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		list = nil
		return each(ctx, tx, func(rows onlyonce.Rows) error {
			list = append(list, *new(T))
			return scan(rows, &list[len(list)-1])
		}, query, args...)
	})
	return list, err
}

// Events lists a resource's timeline in order, after the given version (0: from
// the beginning), and whether more follows.
func (d *DB) Events(ctx context.Context, account, resource string, after, limit int) (
	list []payments.Event, more bool, err error) {
	if !storable(resource) {
		return nil, false, nil
	}
	list, err = listRows(ctx, d, scanEvent, d.q.events, []any{account, resource, after, limit + 1})
	if len(list) > limit {
		return list[:limit], true, err
	}
	return list, false, err
}

// Due lists dispatches of one provider instance whose next check has come,
// oldest first, without their requests.
func (d *DB) Due(ctx context.Context, instance string, limit int) (list []payments.Dispatch, err error) {
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		list = nil
		now, err := d.store.Store().Now(ctx, tx)
		if err != nil {
			return err
		}
		return each(ctx, tx, func(rows onlyonce.Rows) error {
			list = append(list, payments.Dispatch{})
			return scanDispatch(rows, &list[len(list)-1])
		}, d.q.dueDispatches, micros(now), instance, limit)
	})
	return list, err
}

// NextCheck tells how long it is until the next check of this instance is due;
// planned is false when there is none.
func (d *DB) NextCheck(ctx context.Context, instance string) (wait time.Duration, planned bool, err error) {
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		now, err := d.store.Store().Now(ctx, tx)
		if err != nil {
			return err
		}
		var next int64
		scan := func(rows onlyonce.Rows) error { return rows.Scan(&next) }
		if err := each(ctx, tx, scan, d.q.nextCheck, instance); err != nil {
			return err
		}
		wait, planned = fromMicros(next).Sub(now), next != 0
		return nil
	})
	return wait, planned, err
}

// Unfinished counts the dispatches that are not final, for each provider
// instance they belong to.
func (d *DB) Unfinished(ctx context.Context) (counts map[string]int, err error) {
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		counts = map[string]int{}
		return each(ctx, tx, func(rows onlyonce.Rows) error {
			var instance string
			var n int
			err := rows.Scan(&instance, &n)
			counts[instance] = n
			return err
		}, d.q.unfinished)
	})
	return counts, err
}

// StopFutureSends forbids further sends of what was first sent later than now
// plus slack: a clock that has been set back since wrote that time, so nobody
// can tell when the provider's key window ends. It returns how many there are.
func (d *DB) StopFutureSends(ctx context.Context, slack time.Duration) (stopped int64, err error) {
	var limit int64
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		now, err := d.store.Store().Now(ctx, tx)
		if err != nil {
			return err
		}
		limit = micros(now.Add(slack))
		scan := func(rows onlyonce.Rows) error { return rows.Scan(&stopped) }
		return each(ctx, tx, scan, d.q.futureSends, limit)
	})
	if err != nil || stopped == 0 {
		return 0, err // as good as always, and without a lock
	}
	err = d.store.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) (err error) {
		stopped, err = tx.Exec(ctx, d.q.stopSends, limit)
		return err
	})
	return stopped, err
}

// CheckSeal opens the request of every unfinished dispatch, one at a time. An
// error names how many can't be opened: with this secret key they could never
// be sent again.
func (d *DB) CheckSeal(ctx context.Context) error {
	var failed int
	var first error
	err := d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		failed, first = 0, nil
		return each(ctx, tx, func(rows onlyonce.Rows) error {
			var id string
			var sealed []byte
			if err := rows.Scan(&id, &sealed); err != nil {
				return err
			}
			if _, err := d.seal.Open(sealed); err != nil {
				failed++
				first = cmp.Or(first, fmt.Errorf("%s: %w", id, err))
			}
			return nil
		}, d.q.sealed)
	})
	if err != nil {
		return fmt.Errorf("check the secret columns: %w", err)
	}
	if failed > 0 {
		return fmt.Errorf("%d unfinished request(s) can't be opened, the first is of %w", failed, first)
	}
	return nil
}

// Replays returns how often a resource's outcome was replayed, and when last.
func (d *DB) Replays(ctx context.Context, account, resource string) (count int64, last time.Time, err error) {
	err = d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		return each(ctx, tx, func(rows onlyonce.Rows) error {
			var at int64
			err := rows.Scan(&count, &at)
			last = fromMicros(at)
			return err
		}, d.q.replays, account, resource)
	})
	return count, last, err
}

// ReplayCount is how often an outcome was replayed since it was last stored.
type ReplayCount struct {
	Account  string
	Resource string
	N        int64
	Last     time.Time
}

// AddReplays adds to the stored counts, all in one transaction, in one order
// everywhere, so that two servers never wait for each other.
func (d *DB) AddReplays(ctx context.Context, counts []ReplayCount) error {
	counts = slices.SortedFunc(slices.Values(counts), func(a, b ReplayCount) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Resource, b.Resource))
	})
	add := func(ctx context.Context, tx onlyonce.Tx) error {
		for _, c := range counts {
			rows, err := tx.Exec(ctx, d.q.addReplays, c.N, micros(c.Last), c.Account, c.Resource)
			if err == nil && rows == 0 {
				_, err = tx.Exec(ctx, d.q.insertReplays, c.Account, c.Resource, c.N, micros(c.Last))
			}
			if err != nil {
				return d.raced(err) // another server was the first to count
			}
		}
		return nil
	}
	if err := d.store.InTx(ctx, add); err != nil {
		return fmt.Errorf("count %d replays: %w", len(counts), err)
	}
	return nil
}
