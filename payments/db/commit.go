package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// errUnchanged rolls a transaction back in which nothing was decided.
var errUnchanged = errors.New("nothing changed")

// New returns the payments' share of a store.
func New(store *sqlstore.DB, engine *onlyonce.Engine, seal Sealer) *DB {
	d := store.Dialect()
	return &DB{store: store, engine: engine, seal: seal, q: newStatements(d.ForUpdate, d.Rebind)}
}

// Commit runs one phase in a transaction: loads what it wants, lets it decide,
// applies its changes, commits. After a lost race everything is read and
// decided again, a bounded number of times (sqlstore.DB.InTx).
//
// onlyonce.ErrFenced: the held claim is another's, nothing was written.
// onlyonce.ErrCommitUnknown: the changes may be durable. Errors of Decide reach
// the caller as they are; any other error means that nothing was written.
func (d *DB) Commit(ctx context.Context, p Phase) error {
	err := d.store.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error { return d.run(ctx, tx, p) })
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

func (d *DB) run(ctx context.Context, tx onlyonce.Tx, p Phase) error {
	if p.Begun != nil {
		p.Begun()
	}
	have, err := d.load(ctx, tx, p.Want)
	if err != nil {
		return err
	}
	changes, err := p.Decide(have)
	if err != nil {
		return err
	}
	if changes.empty() {
		return errUnchanged
	}
	return d.raced(d.apply(ctx, tx, have, changes))
}

// raced says of a row that a rival has inserted meanwhile that the race is lost.
func (d *DB) raced(err error) error {
	if err != nil && d.store.Dialect().IsDuplicate(err) {
		return fmt.Errorf("%w: %w", sqlstore.ErrRaced, err)
	}
	return err
}

// lockKey makes the COMMIT wait for what the key's own should have waited for.
func (d *DB) lockKey(ctx context.Context, tx onlyonce.Tx, key onlyonce.Key) error {
	_, err := d.engine.Load(ctx, tx, key)
	return err
}

// load reads and locks what a phase wants, in the one order.
func (d *DB) load(ctx context.Context, tx onlyonce.Tx, w Want) (Have, error) {
	h := Have{}
	account, err := d.loadKey(ctx, tx, w, &h)
	if err != nil {
		return h, err
	}
	if h.Now, err = d.store.Store().Now(ctx, tx); err != nil {
		return h, err
	}
	// A claim that was resumed, or a key that is not free, names what it made.
	if w.Begin != nil && w.PaymentID == "" && payments.KindOf(h.Decision.Record.Resource) == payments.KindPayment {
		w.PaymentID, w.Dispatch = h.Decision.Record.Resource, true
	}
	if w.Begin != nil && payments.KindOf(h.Decision.Record.Resource) == payments.KindRefund {
		w.RefundID, w.Dispatch = h.Decision.Record.Resource, true
	}
	if w.OrderID != "" {
		if h.Guard, err = d.guardHolder(ctx, tx, account, w.OrderID); err != nil {
			return h, err
		}
	}
	if err := d.loadResources(ctx, tx, account, w, &h); err != nil {
		return h, err
	}
	if w.Generation {
		name := w.Begin.Key.Name
		scan := func(rows onlyonce.Rows) error { return rows.Scan(&h.Generation) }
		if err := each(ctx, tx, scan, d.q.generation, account, name, account, name); err != nil {
			return h, fmt.Errorf("count earlier operations of key %v: %w", w.Begin.Key, err)
		}
	}
	return h, nil
}

func (d *DB) loadKey(ctx context.Context, tx onlyonce.Tx, w Want, h *Have) (account string, err error) {
	switch {
	case w.Begin != nil:
		h.Decision, err = d.engine.Begin(ctx, tx, *w.Begin)
		h.Claim = h.Decision.Claim
		if isKeyError(err) {
			h.KeyError, err = err, nil
		}
		return w.Begin.Key.Account, err
	case w.Held != nil:
		h.Claim = w.Held
		h.Decision.Record, err = d.engine.Hold(ctx, tx, *w.Held)
		return w.Held.Key.Account, err
	case w.TakeOver != nil:
		rec, err := d.engine.Load(ctx, tx, *w.TakeOver)
		if err != nil {
			return "", err
		}
		if !rec.Lapsed() {
			return "", onlyonce.ErrInFlight
		}
		claim, err := d.engine.TakeOver(ctx, tx, rec)
		h.Claim, h.Decision.Record = &claim, rec
		return w.TakeOver.Account, err
	}
	return "", errors.New("a phase must want a key")
}

// Release frees a claim under which nothing was dispatched.
// onlyonce.ErrFenced: it is another's by now, or past that point.
func (d *DB) Release(ctx context.Context, c onlyonce.Claim) error {
	return d.store.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error { return d.engine.Release(ctx, tx, c) })
}

// isKeyError reports whether the key itself forbids the request, which is an
// answer and not a failure.
func isKeyError(err error) bool {
	for _, target := range []error{onlyonce.ErrMismatch, onlyonce.ErrInFlight, onlyonce.ErrUnknown,
		onlyonce.ErrExpired, onlyonce.ErrFingerprintVersion} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func (d *DB) loadResources(ctx context.Context, tx onlyonce.Tx, account string, w Want, h *Have) (err error) {
	if w.RefundID != "" && w.PaymentID == "" {
		r, err := d.readRefund(ctx, tx, account, w.RefundID)
		if err != nil {
			return err
		}
		w.PaymentID = r.PaymentID // locked first, before its refund is read for good
	}
	if w.PaymentID != "" {
		if h.Payment, err = d.lockPayment(ctx, tx, account, w.PaymentID); err != nil {
			return err
		}
	}
	if w.RefundID != "" {
		if h.Refund, err = d.lockRefund(ctx, tx, account, w.RefundID); err != nil {
			return err
		}
	}
	if w.Dispatch {
		id := w.PaymentID
		if w.RefundID != "" {
			id = w.RefundID
		}
		h.Dispatch, err = d.readDispatch(ctx, tx, account, id)
	}
	return err
}

func (d *DB) guardHolder(ctx context.Context, tx onlyonce.Tx, account, orderID string) (*payments.Payment, error) {
	var found *payments.Payment
	scan := func(rows onlyonce.Rows) error {
		found = new(payments.Payment)
		return scanPayment(rows, found)
	}
	if err := each(ctx, tx, scan, d.q.paymentByGuard, account, guard(true, orderID)); err != nil {
		return nil, fmt.Errorf("look for the payment that holds the order: %w", err)
	}
	return found, nil
}

// lockPayment locks the row, then reads it; nil when there is none.
func (d *DB) lockPayment(ctx context.Context, tx onlyonce.Tx, account, id string) (*payments.Payment, error) {
	if !storable(id) {
		return nil, nil
	}
	if err := d.lock(ctx, tx, d.q.paymentLocked, account, id); err != nil {
		return nil, err
	}
	p, err := d.readPayment(ctx, tx, account, id)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return &p, err
}

func (d *DB) lockRefund(ctx context.Context, tx onlyonce.Tx, account, id string) (*payments.Refund, error) {
	if err := d.lock(ctx, tx, d.q.refundLocked, account, id); err != nil {
		return nil, err
	}
	r, err := d.readRefund(ctx, tx, account, id)
	return &r, err
}

func (d *DB) lock(ctx context.Context, tx onlyonce.Tx, query, account, id string) error {
	var version int64
	scan := func(rows onlyonce.Rows) error { return rows.Scan(&version) }
	if err := each(ctx, tx, scan, query, account, id); err != nil {
		return fmt.Errorf("lock %s: %w", id, err)
	}
	return nil
}
