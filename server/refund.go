package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// refundObject declares the body of POST /payments/{id}/refunds.
func refundObject() httponce.Object {
	return httponce.Object{
		{Name: "amount", Kind: httponce.Int, Min: 1, Max: money.Max},
		{Name: "reason", Kind: httponce.Text, Max: maxReason},
	}
}

func (s *Server) createRefund(w http.ResponseWriter, r *http.Request) {
	s.once(w, r, flow.OpRefund, refundObject(), func(
		ctx context.Context, in onlyonce.Intent, v httponce.Values, requestID string,
	) (flow.Answer, error) {
		id := r.PathValue("id")
		if !isID(id, payments.KindPayment) {
			id = "" // no payment has it; the key may still say something else
		}
		return s.o.Flow.Refund(ctx, in, flow.RefundRequest{
			PaymentID: id,
			Amount:    v.Int("amount"), // absent: 0, all that is left
			Reason:    v.Text("reason"),
			RequestID: requestID,
		})
	})
}

func (s *Server) getRefund(w http.ResponseWriter, r *http.Request) {
	id, ok := pathID(w, r, payments.KindRefund)
	if !ok {
		return
	}
	refund, err := s.o.DB.Refund(r.Context(), factsOf(r.Context()).account, id)
	if err != nil {
		s.unread(w, r, payments.KindRefund, err)
		return
	}
	write(w, http.StatusOK, bodyOfRefund(refund))
}

func (s *Server) listRefunds(w http.ResponseWriter, r *http.Request) {
	id, ok := pathID(w, r, payments.KindPayment)
	if !ok {
		return
	}
	q := readQuery(r, "limit", "cursor")
	page := q.page()
	if q.refused(w) {
		return
	}
	list, next, err := s.o.DB.Refunds(r.Context(), factsOf(r.Context()).account, id, page)
	if err != nil {
		s.unread(w, r, payments.KindPayment, err)
		return
	}
	write(w, http.StatusOK, listOf(list, bodyOfRefund, afterRow(next)))
}

// declinedResource names the refund or payment whose decline an outcome is.
func declinedResource(o onlyonce.Outcome) string {
	if o.Status != http.StatusPaymentRequired {
		return ""
	}
	var named struct{ PaymentID, RefundID string }
	if err := json.Unmarshal(o.Body, &named); err != nil {
		return ""
	}
	if named.RefundID != "" {
		return named.RefundID
	}
	return named.PaymentID
}
