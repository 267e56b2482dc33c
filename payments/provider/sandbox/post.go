package sandbox

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
)

// request is a POST that was read whole.
type request struct {
	id       string // ours, for Request-Id
	endpoint string
	kind     string
	key      string
	params   []byte // digest
	in       input
	invalid  *problem // what is wrong with the input, if anything
}

// response is an answer that is durable.
type response struct {
	status   int
	body     []byte
	original string // the request that made it, on a replay
	delivery delivery
}

// post answers a POST. It does not stop when the client hangs up: the provider
// does not either.
func (s *Sandbox) post(ctx context.Context, req request) (response, error) {
	ctx = context.WithoutCancel(ctx)
	var resp *response
	var slow keyRow
	err := s.inTx(ctx, func(tx *sql.Tx) (err error) {
		resp, slow, err = s.begin(ctx, tx, req)
		return err
	})
	if err == nil && resp == nil {
		if err := s.pause(ctx, s.o.SlowBy); err != nil {
			return response{}, err
		}
		err = s.inTx(ctx, func(tx *sql.Tx) (err error) {
			resp, err = s.resume(ctx, tx, req, slow)
			return err
		})
	}
	switch {
	case busy(err):
		return *problem{
			status: http.StatusTooManyRequests, Type: "invalid_request_error", Code: "lock_timeout",
			Message: "This object cannot be accessed right now because another request holds it.",
		}.response(), nil
	case err != nil:
		return response{}, err
	}
	s.o.Log.LogAttrs(ctx, slog.LevelInfo, "sandbox answer", slog.String("endpoint", req.endpoint),
		slog.String("key", req.key), slog.String("request", req.id), slog.Int("status", resp.status),
		slog.Bool("replayed", resp.original != ""), slog.String("delivery", string(resp.delivery)))
	return *resp, nil
}

// begin decides a send. Without a response the row holds the lease of a slow
// charge.
func (s *Sandbox) begin(ctx context.Context, tx *sql.Tx, req request) (*response, keyRow, error) {
	row, resp, err := s.recall(ctx, tx, req)
	if err != nil || resp != nil {
		return resp, row, err
	}
	if req.invalid != nil {
		return req.invalid.response(), row, nil // never began to execute, so the key is not spent
	}
	f, unknown, err := s.fateOf(ctx, tx, req)
	if err != nil {
		return nil, row, err
	}
	if unknown != nil {
		return unknown.response(), row, nil
	}
	row.sends++
	switch {
	case row.sends <= f.busy:
		return keyInUse().response(), row, row.save(ctx, tx)
	case f.lost && row.sends == 1:
		return &response{delivery: deliverNever}, row, row.save(ctx, tx)
	case f.slow && row.sends == 1:
		row.owner = s.o.NewID()
		row.leaseUntil = s.o.Now().Add(s.o.SlowBy + leaseMargin).UnixMicro()
		return nil, row, row.save(ctx, tx)
	}
	resp, err = s.execute(ctx, tx, req, f, row)
	return resp, row, err
}

// resume ends a slow charge, unless its lease lapsed and another send has it.
func (s *Sandbox) resume(ctx context.Context, tx *sql.Tx, req request, slow keyRow) (*response, error) {
	row := slow
	if req.key != "" {
		now, resp, err := s.recall(ctx, tx, req)
		switch {
		case err != nil:
			return nil, err
		case now.owner != slow.owner && resp != nil:
			return resp, nil
		case now.owner != slow.owner:
			return keyInUse().response(), nil
		}
		row = now
	}
	row.owner, row.leaseUntil = "", 0
	f, unknown, err := s.fateOf(ctx, tx, req)
	if err != nil || unknown != nil {
		return nil, errors.Join(err, errors.New("the object of a running request is gone"))
	}
	return s.execute(ctx, tx, req, f, row)
}

// execute moves the money, if the fate says so, and binds the answer to the
// key, all in the caller's transaction.
func (s *Sandbox) execute(ctx context.Context, tx *sql.Tx, req request, f fate, row keyRow) (*response, error) {
	row.owner, row.leaseUntil = "", 0
	resp := &response{}
	if !f.skips {
		var err error
		if resp, err = s.act(ctx, tx, req, f); err != nil {
			return nil, err
		}
	}
	if f.broken {
		resp = problem{
			status: http.StatusInternalServerError, Type: "api_error",
			Message: "An unknown error occurred.",
		}.response()
	}
	if row.sends == 1 {
		resp.delivery = f.delivery
	}
	row.status, row.body, row.requestID = resp.status, resp.body, req.id
	return resp, row.save(ctx, tx)
}

// fateOf is the fate that the token of the charge, or of the refunded charge,
// chooses. The problem is that the refund's charge is not there.
func (s *Sandbox) fateOf(ctx context.Context, tx *sql.Tx, req request) (fate, *problem, error) {
	if req.kind == kindPayment {
		return fates[req.in.token], nil, nil
	}
	charge, found, err := loadObject(ctx, tx, kindPayment, req.in.charge)
	if err != nil {
		return fate{}, nil, err
	}
	if !found {
		return fate{}, missing("payment_intent", req.in.charge), nil
	}
	return fates[charge.refundFate], nil, nil
}

// act charges or refunds.
func (s *Sandbox) act(ctx context.Context, tx *sql.Tx, req request, f fate) (*response, error) {
	if req.kind == kindPayment {
		return s.charge(ctx, tx, req, f)
	}
	return s.refund(ctx, tx, req, f)
}

func (s *Sandbox) charge(ctx context.Context, tx *sql.Tx, req request, f fate) (*response, error) {
	o := object{
		id: "pi_" + s.o.NewID(), kind: kindPayment, amount: req.in.amount, currency: req.in.currency,
		status: "succeeded", refundFate: refundFate(req.in.token), metadata: req.in.metadata,
		createdAt: s.o.Now().UnixMicro(),
	}
	if f.declined != "" {
		o.status, o.decline = "requires_payment_method", f.declined
	}
	if err := o.add(ctx, tx); err != nil {
		return nil, err
	}
	if f.declined != "" {
		return declined(o).response(), nil
	}
	return &response{status: http.StatusOK, body: o.json()}, addEntry(ctx, tx, "charge", o, req.key)
}

func (s *Sandbox) refund(ctx context.Context, tx *sql.Tx, req request, f fate) (*response, error) {
	charge, found, err := loadObject(ctx, tx, kindPayment, req.in.charge)
	if err != nil || !found {
		return nil, errors.Join(err, errors.New("the charge is gone"))
	}
	var refunded int64
	if err := tx.QueryRowContext(ctx, sqlRefunded, charge.id).Scan(&refunded); err != nil {
		return nil, err
	}
	o := object{
		id: "re_" + s.o.NewID(), kind: kindRefund, amount: req.in.amount, currency: charge.currency,
		status: "succeeded", charge: charge.id, metadata: req.in.metadata, createdAt: s.o.Now().UnixMicro(),
	}
	room := charge.amount - refunded
	if o.amount == 0 {
		o.amount = room
	}
	if p := refuse(charge, o.amount, room); p != nil {
		return p.response(), nil
	}
	if f.declined != "" {
		o.status, o.decline = "failed", "declined"
	}
	if err := o.add(ctx, tx); err != nil || f.declined != "" {
		return &response{status: http.StatusOK, body: o.json()}, err
	}
	return &response{status: http.StatusOK, body: o.json()}, addEntry(ctx, tx, "refund", o, req.key)
}

// refuse says why a charge can't give the amount back, or nil.
func refuse(charge object, amount, room int64) *problem {
	p := &problem{status: http.StatusBadRequest, Type: "invalid_request_error"}
	switch {
	case charge.status != "succeeded":
		p.Code, p.Message = "payment_intent_unexpected_state", "This payment intent has no successful charge to refund."
	case room <= 0:
		p.Code, p.Message = "charge_already_refunded", "The charge has already been refunded."
	case amount > room:
		p.Code, p.Message = "amount_too_large", "The refund is greater than what is left of the charge."
		p.Param = "amount"
	default:
		return nil
	}
	return p
}
