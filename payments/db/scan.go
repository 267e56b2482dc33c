package db

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
)

// micros stores a time; none is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// guard is what makes an order unique in its account, or nil when it is free.
func guard(held bool, orderID string) any {
	if !held {
		return nil
	}
	sum := sha256.Sum256([]byte(orderID))
	return sum[:]
}

// storable reports whether every engine can hold these texts. What one of them
// can't hold stands in no row, and would be an error to some as an argument.
func storable(texts ...string) bool {
	for _, t := range texts {
		if !utf8.ValidString(t) || strings.ContainsRune(t, 0) {
			return false
		}
	}
	return true
}

// each runs a query and scans row by row.
func each(ctx context.Context, tx onlyonce.Tx, scan func(onlyonce.Rows) error, query string, args ...any) (err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func scanPayment(rows onlyonce.Rows, p *payments.Payment) error {
	var held, metadata []byte
	var currency, state string
	var created, updated, unknown, next int64
	err := rows.Scan(&p.Account, &p.ID, &p.Key, &p.OrderID, &held, &p.Amount.Minor, &p.Captured, &currency, &state,
		&p.Version, &p.Description, &metadata, &p.DeclineCode, &p.Instance, &p.ProviderID, &created, &updated,
		&p.Refunded, &p.Reserved, &p.Doubtful, &unknown, &next)
	if err != nil {
		return fmt.Errorf("scan payment: %w", err)
	}
	if err := json.Unmarshal(metadata, &p.Metadata); err != nil {
		return fmt.Errorf("payment %s: metadata: %w", p.ID, err)
	}
	p.GuardsOrder = held != nil
	p.Amount.Currency, p.State = money.Currency(currency), payments.State(state)
	p.CreatedAt, p.UpdatedAt = fromMicros(created), fromMicros(updated)
	p.UnknownSince, p.NextCheckAt = fromMicros(unknown), fromMicros(next)
	return nil
}

func scanRefund(rows onlyonce.Rows, r *payments.Refund) error {
	var currency, state string
	var created, updated, unknown, next int64
	err := rows.Scan(&r.Account, &r.ID, &r.PaymentID, &r.Key, &r.Amount.Minor, &currency, &state, &r.Version,
		&r.Reason, &r.DeclineCode, &r.Instance, &r.ProviderID, &created, &updated, &unknown, &next)
	if err != nil {
		return fmt.Errorf("scan refund: %w", err)
	}
	r.Amount.Currency, r.State = money.Currency(currency), payments.State(state)
	r.CreatedAt, r.UpdatedAt = fromMicros(created), fromMicros(updated)
	r.UnknownSince, r.NextCheckAt = fromMicros(unknown), fromMicros(next)
	return nil
}

func scanDispatch(rows onlyonce.Rows, d *payments.Dispatch) error {
	var kind, currency string
	var first, unknown, next int64
	err := rows.Scan(&d.Account, &d.Resource, &kind, &d.Key, &d.RequestID, &d.Instance, &d.ProviderKey,
		&d.Request.Version, &d.Amount.Minor, &currency, &d.ProviderID, &first, &d.Sends, &d.Ambiguous, &d.ReadsOnly,
		&d.Accepted, &d.Checks, &d.Absences, &unknown, &next, &d.Request.Body)
	if err != nil {
		return fmt.Errorf("scan dispatch: %w", err)
	}
	d.Kind, d.Amount.Currency = payments.Kind(kind), money.Currency(currency)
	d.FirstSentAt, d.UnknownSince, d.NextCheckAt = fromMicros(first), fromMicros(unknown), fromMicros(next)
	return nil
}

func scanEvent(rows onlyonce.Rows, e *payments.Event) error {
	var at int64
	var kind, state string
	err := rows.Scan(&e.Account, &e.Resource, &e.Version, &at, &kind, &state, &e.Attempt, &e.Detail)
	if err != nil {
		return fmt.Errorf("scan event: %w", err)
	}
	e.At, e.Type, e.State = fromMicros(at), payments.EventType(kind), payments.State(state)
	return nil
}
