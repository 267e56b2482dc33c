package server

import (
	"context"
	"net/http"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// Limits of what a client may send; characters are code points.
const (
	maxOrderID       = 255
	maxToken         = 255
	maxDescription   = 1000
	maxReason        = 500
	maxPairs         = 20
	maxMetadataName  = 40
	maxMetadataValue = 500
)

// paymentObject declares the body of POST /payments.
func paymentObject() httponce.Object {
	return httponce.Object{
		{Name: "orderId", Kind: httponce.Text, Min: 1, Max: maxOrderID},
		{Name: "amount", Kind: httponce.Int, Required: true, Min: 1, Max: money.Max},
		{Name: "currency", Kind: httponce.Text, Required: true, Min: 0, Max: maxToken, Check: currencyFault},
		{Name: "paymentMethodToken", Kind: httponce.Text, Required: true, Min: 1, Max: maxToken},
		{Name: "description", Kind: httponce.Text, Max: maxDescription},
		{
			Name: "metadata", Kind: httponce.Pairs,
			Max: maxPairs, MaxName: maxMetadataName, MaxValue: maxMetadataValue,
		},
	}
}

func currencyFault(code string) string {
	if _, err := money.ParseCurrency(code); err != nil {
		return "must be an upper-case ISO 4217 code with a known exponent, for example \"USD\""
	}
	return ""
}

func (s *Server) createPayment(w http.ResponseWriter, r *http.Request) {
	s.once(w, r, flow.OpPayment, paymentObject(), func(
		ctx context.Context, in onlyonce.Intent, v httponce.Values, requestID string,
	) (flow.Answer, error) {
		return s.o.Flow.Pay(ctx, in, flow.PaymentRequest{
			OrderID:     v.Text("orderId"),
			Amount:      money.Amount{Minor: v.Int("amount"), Currency: money.Currency(v.Text("currency"))},
			Method:      v.Text("paymentMethodToken"),
			Description: v.Text("description"),
			Metadata:    v.Pairs("metadata"),
			RequestID:   requestID,
		})
	})
}

func (s *Server) getPayment(w http.ResponseWriter, r *http.Request) {
	id, ok := pathID(w, r, payments.KindPayment)
	if !ok {
		return
	}
	p, err := s.o.DB.Payment(r.Context(), factsOf(r.Context()).account, id)
	if err != nil {
		s.unread(w, r, payments.KindPayment, err)
		return
	}
	write(w, http.StatusOK, bodyOfPayment(p))
}

func (s *Server) listPayments(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r, "orderId", "state", "idempotencyKey", "limit", "cursor")
	account := factsOf(r.Context()).account
	filter := db.Filter{
		OrderID: q.text("orderId", maxOrderID), State: q.state("state"), Key: q.key("idempotencyKey", account),
	}
	page := q.page()
	if q.refused(w) {
		return
	}
	list, next, err := s.o.DB.Payments(r.Context(), account, filter, page)
	if err != nil {
		s.unread(w, r, payments.KindPayment, err)
		return
	}
	write(w, http.StatusOK, listOf(list, bodyOfPayment, afterRow(next)))
}

// timelineBody is a page of a timeline, and what is counted beside it.
type timelineBody struct {
	listBody[eventBody]
	Replays        int64 `json:"replays"`
	LastReplayedAt stamp `json:"lastReplayedAt,omitzero"`
}

func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) {
	id, ok := pathID(w, r, payments.KindPayment)
	if !ok {
		return
	}
	q := readQuery(r, "limit", "cursor")
	after, limit := q.version("cursor"), q.limit()
	if q.refused(w) {
		return
	}
	account := factsOf(r.Context()).account
	body, err := s.timeline(r.Context(), account, id, after, limit)
	if err != nil {
		s.unread(w, r, payments.KindPayment, err)
		return
	}
	write(w, http.StatusOK, body)
}

func (s *Server) timeline(ctx context.Context, account, id string, after, limit int) (timelineBody, error) {
	if _, err := s.o.DB.Payment(ctx, account, id); err != nil {
		return timelineBody{}, err
	}
	events, more, err := s.o.DB.Events(ctx, account, id, after, limit)
	if err != nil {
		return timelineBody{}, err
	}
	var next *string
	if more {
		next = afterVersion(events[len(events)-1].Version)
	}
	body := timelineBody{listBody: listOf(events, bodyOfEvent, next)}
	var pending int64
	if s.o.Replays != nil {
		n, last := s.o.Replays.Pending(account, id)
		pending, body.LastReplayedAt = n, stamp(last)
	}
	stored, last, err := s.o.DB.Replays(ctx, account, id)
	if err != nil {
		return timelineBody{}, err
	}
	body.Replays = stored + pending
	if pending == 0 {
		body.LastReplayedAt = stamp(last)
	}
	return body, nil
}
