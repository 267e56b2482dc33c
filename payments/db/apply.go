package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// apply writes a phase's changes, in the one lock order: key, payment, refund,
// and what hangs on them.
func (d *DB) apply(ctx context.Context, tx onlyonce.Tx, h Have, c Changes) error {
	if err := d.applyKey(ctx, tx, h, c.Key); err != nil {
		return err
	}
	if c.Payment != nil {
		if err := d.writePayment(ctx, tx, *c.Payment, steps(c.Events, c.Payment.ID)); err != nil {
			return err
		}
	}
	if c.Refund != nil {
		if err := d.writeRefund(ctx, tx, *c.Refund, steps(c.Events, c.Refund.ID)); err != nil {
			return err
		}
	}
	if c.Dispatch != nil {
		if err := d.writeDispatch(ctx, tx, *c.Dispatch, h.Dispatch == nil); err != nil {
			return err
		}
	}
	for _, e := range c.Events {
		_, err := tx.Exec(ctx, d.q.insertEvent, e.Account, e.Resource, e.Version, micros(e.At), string(e.Type),
			string(e.State), e.Attempt, e.Detail)
		if err != nil {
			return fmt.Errorf("insert event %d of %s: %w", e.Version, e.Resource, err)
		}
	}
	return nil
}

func (d *DB) applyKey(ctx context.Context, tx onlyonce.Tx, h Have, k KeyChange) error {
	if k.Finish != nil {
		return d.engine.Finish(ctx, tx, *h.Claim, *k.Finish)
	}
	if k.Advance != nil {
		return d.engine.Advance(ctx, tx, *k.Advance)
	}
	return nil
}

// steps counts a resource's events: by so many its version has grown.
func steps(events []payments.Event, id string) int {
	n := 0
	for _, e := range events {
		if e.Resource == id {
			n++
		}
	}
	return n
}

// hit turns an update that found no row of the version it was decided on into
// a lost race. The version always changes, so the count can be trusted on
// every engine.
func hit(rows int64, err error, what string) error {
	if err != nil {
		return fmt.Errorf("update %s: %w", what, err)
	}
	if rows == 0 {
		return fmt.Errorf("update %s: %w", what, sqlstore.ErrRaced)
	}
	return nil
}

func (d *DB) writePayment(ctx context.Context, tx onlyonce.Tx, p payments.Payment, steps int) error {
	if p.Version > steps {
		rows, err := tx.Exec(ctx, d.q.updatePayment, guard(p.GuardsOrder, p.OrderID), p.Captured, string(p.State), p.Version,
			p.DeclineCode, p.ProviderID, micros(p.UpdatedAt), p.Account, p.ID, p.Version-steps)
		return hit(rows, err, p.ID)
	}
	metadata, err := json.Marshal(p.Metadata)
	if err != nil {
		return fmt.Errorf("payment %s: metadata: %w", p.ID, err)
	}
	_, err = tx.Exec(ctx, d.q.insertPayment, p.Account, p.ID, p.Key, p.OrderID, guard(p.GuardsOrder, p.OrderID),
		p.Amount.Minor, p.Captured, string(p.Amount.Currency), string(p.State), p.Version, p.Description, metadata,
		p.DeclineCode, p.Instance, p.ProviderID, micros(p.CreatedAt), micros(p.UpdatedAt))
	if err != nil {
		return fmt.Errorf("insert payment %s: %w", p.ID, err)
	}
	return nil
}

func (d *DB) writeRefund(ctx context.Context, tx onlyonce.Tx, r payments.Refund, steps int) error {
	if r.Version > steps {
		rows, err := tx.Exec(ctx, d.q.updateRefund, string(r.State), r.Version, r.DeclineCode, r.ProviderID,
			micros(r.UpdatedAt), r.Account, r.ID, r.Version-steps)
		return hit(rows, err, r.ID)
	}
	_, err := tx.Exec(ctx, d.q.insertRefund, r.Account, r.ID, r.PaymentID, r.Key, r.Amount.Minor,
		string(r.Amount.Currency), string(r.State), r.Version, r.Reason, r.DeclineCode, r.Instance, r.ProviderID,
		micros(r.CreatedAt), micros(r.UpdatedAt))
	if err != nil {
		return fmt.Errorf("insert refund %s: %w", r.ID, err)
	}
	return nil
}

func (d *DB) writeDispatch(ctx context.Context, tx onlyonce.Tx, p payments.Dispatch, fresh bool) error {
	var request any // NULL once the secret is not needed any more
	if p.Request.Body != nil {
		request = d.seal.Seal(p.Request.Body)
	}
	if !fresh {
		_, err := tx.Exec(ctx, d.q.updateDispatch, p.ProviderID, p.Sends, bit(p.Ambiguous), bit(p.ReadsOnly), bit(p.Accepted),
			p.Checks, p.Absences, micros(p.UnknownSince), micros(p.NextCheckAt), request, p.Account, p.Resource)
		if err != nil {
			return fmt.Errorf("update dispatch %s: %w", p.Resource, err)
		}
		return nil
	}
	_, err := tx.Exec(ctx, d.q.insertDispatch, p.Account, p.Resource, string(p.Kind), p.Key, p.RequestID, p.Instance,
		p.ProviderKey, p.Request.Version, p.Amount.Minor, string(p.Amount.Currency), p.ProviderID, micros(p.FirstSentAt),
		p.Sends, bit(p.Ambiguous), bit(p.ReadsOnly), bit(p.Accepted), p.Checks, p.Absences, micros(p.UnknownSince),
		micros(p.NextCheckAt), request)
	if err != nil {
		return fmt.Errorf("insert dispatch %s: %w", p.Resource, err)
	}
	return nil
}
