package sandbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	kindPayment = "payment_intent"
	kindRefund  = "refund"
)

// object is a payment intent or a refund.
type object struct {
	seq        int64
	id, kind   string
	amount     int64 // as it was sent
	currency   string
	status     string
	decline    string
	charge     string // a refund's payment intent
	refundFate string
	metadata   string // JSON object
	createdAt  int64
}

type scanner interface{ Scan(dest ...any) error }

func scanObject(row scanner) (o object, err error) {
	err = row.Scan(&o.seq, &o.id, &o.kind, &o.amount, &o.currency, &o.status, &o.decline, &o.charge,
		&o.refundFate, &o.metadata, &o.createdAt)
	return o, err
}

type queryRower interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func loadObject(ctx context.Context, q queryRower, kind, id string) (object, bool, error) {
	o, err := scanObject(q.QueryRowContext(ctx, sqlLoadObject, kind, id))
	if errors.Is(err, sql.ErrNoRows) {
		return object{}, false, nil
	}
	return o, err == nil, err
}

func (o object) add(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, sqlAddObject, o.id, o.kind, o.amount, o.currency, o.status, o.decline,
		o.charge, o.refundFate, o.metadata, o.createdAt)
	return err
}

func addEntry(ctx context.Context, tx *sql.Tx, kind string, o object, key string) error {
	_, err := tx.ExecContext(ctx, sqlAddEntry, o.id, kind, o.amount, o.currency, o.status, o.metadata, key, o.createdAt)
	return err
}

// wireObject is Stripe's form of an object, as far as anybody needs it. The
// payment method is left out: nothing here keeps a token.
type wireObject struct {
	ID             string          `json:"id"`
	Object         string          `json:"object"`
	Amount         int64           `json:"amount"`
	AmountReceived *int64          `json:"amount_received,omitempty"`
	Created        int64           `json:"created"`
	Currency       string          `json:"currency"`
	FailureReason  string          `json:"failure_reason,omitempty"`
	LastError      *problem        `json:"last_payment_error,omitempty"`
	Livemode       bool            `json:"livemode"`
	Metadata       json.RawMessage `json:"metadata"`
	PaymentIntent  string          `json:"payment_intent,omitempty"`
	Status         string          `json:"status"`
}

func (o object) wire() wireObject {
	w := wireObject{
		ID: o.id, Object: o.kind, Amount: o.amount, Currency: o.currency, Status: o.status,
		Metadata: json.RawMessage(o.metadata), PaymentIntent: o.charge, Created: time.UnixMicro(o.createdAt).Unix(),
	}
	switch {
	case o.kind == kindRefund:
		w.FailureReason = o.decline
	case o.decline != "":
		w.AmountReceived, w.LastError = new(int64), cardError(o.decline)
	default:
		w.AmountReceived = &o.amount
	}
	return w
}

func (o object) json() []byte { return mustJSON(o.wire()) }

// problem is Stripe's form of an error.
type problem struct {
	status      int
	Type        string      `json:"type"`
	Code        string      `json:"code,omitempty"`
	DeclineCode string      `json:"decline_code,omitempty"`
	Message     string      `json:"message"`
	Param       string      `json:"param,omitempty"`
	Intent      *wireObject `json:"payment_intent,omitempty"`
}

func (p problem) response() *response {
	return &response{status: p.status, body: mustJSON(map[string]problem{"error": p})}
}

func cardError(decline string) *problem {
	return &problem{
		status: http.StatusPaymentRequired, Type: "card_error", Code: "card_declined", DeclineCode: decline,
		Message: "Your card was declined.",
	}
}

func declined(o object) *problem {
	p, w := cardError(o.decline), o.wire()
	p.Intent = &w
	return p
}

func missing(param, id string) *problem {
	return &problem{
		status: http.StatusNotFound, Type: "invalid_request_error", Code: "resource_missing", Param: param,
		Message: fmt.Sprintf("No such %s: %q", param, id),
	}
}

// mustJSON marshals our own types, which always can be.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sandbox: marshal %T: %v", v, err))
	}
	return append(b, '\n')
}
