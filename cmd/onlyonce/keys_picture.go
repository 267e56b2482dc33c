package main

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
)

// keyRow is a row of idempotency_keys as programs get it.
type keyRow struct {
	Account       string       `json:"account"`
	Key           string       `json:"key"`
	Operation     string       `json:"operation"`
	Fingerprint   string       `json:"fingerprint"`
	Status        string       `json:"status"`
	Attempt       int          `json:"attempt"`
	RecoveryPoint string       `json:"recoveryPoint"`
	Resource      string       `json:"resource,omitempty"`
	CreatedAt     time.Time    `json:"createdAt"`
	LeaseUntil    *time.Time   `json:"leaseUntil,omitempty"`
	CompletedAt   *time.Time   `json:"completedAt,omitempty"`
	ExpiresAt     *time.Time   `json:"expiresAt,omitempty"`
	Response      *responseRow `json:"response,omitempty"`
}

type responseRow struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
	Body    string              `json:"body"` // the stored bytes
}

func keyRowOf(rec onlyonce.Record) keyRow {
	row := keyRow{
		Account: rec.Key.Account, Key: rec.Key.Name, Operation: rec.Operation,
		Fingerprint: hex.EncodeToString([]byte(rec.Fingerprint)), Status: string(rec.Status), Attempt: rec.Attempt,
		RecoveryPoint: string(rec.Point), Resource: rec.Resource, CreatedAt: rec.CreatedAt.UTC(),
		CompletedAt: unlessZero(rec.CompletedAt), ExpiresAt: unlessZero(rec.ExpiresAt),
	}
	if rec.Status == onlyonce.InProgress {
		row.LeaseUntil = unlessZero(rec.LeaseUntil)
	}
	if rec.Outcome != nil {
		row.Response = &responseRow{rec.Outcome.Status, rec.Outcome.Header, string(rec.Outcome.Body)}
	}
	return row
}

// line is what `keys show --json` writes.
func (s shownKey) line() any {
	return struct {
		keyRow
		Payment  *paymentRow `json:"payment,omitempty"`
		Refund   *refundRow  `json:"refund,omitempty"`
		Timeline []eventRow  `json:"timeline"`
	}{keyRowOf(s.record), paymentRowOf(s.payment), refundRowOf(s.refund), eventRowsOf(s.events)}
}

const (
	nameWidth    = 16 // the longest column name is recovery_point
	claimedWidth = 28
	nowWidth     = 45 // with the two before it and the lines: 100 columns
	madeWidth    = claimedWidth + nowWidth + 3
	maxBodyLines = 12 // of the stored response; --json has all of it
)

// draw is the two-table picture: the row of idempotency_keys as it was claimed
// and as it is now, and what it made.
func (s shownKey) draw(p paint) string {
	rec := s.record
	var b strings.Builder
	fmt.Fprintf(&b, "\n %s  %s of account %s\n\n", p.bold(clip(rec.Key.Name, 60)), orDash(rec.Operation),
		visible(rec.Key.Account))
	b.WriteString(s.keyBox(p))
	if s.refund != nil {
		b.WriteString(refundBox(*s.refund, p))
	}
	if s.payment != nil {
		b.WriteString(paymentBox(*s.payment, p))
	}
	if rec.Resource != "" && !s.alone {
		b.WriteString(timeline(rec.Resource, s.events, p))
	}
	return b.String()
}

// keyBox draws the row of idempotency_keys.
func (s shownKey) keyBox(p paint) string {
	rec := s.record
	print := hex.EncodeToString([]byte(rec.Fingerprint))
	lease := "–"
	if rec.Status == onlyonce.InProgress {
		lease = moment(rec.LeaseUntil)
		if rec.Lapsed() {
			lease += " (lapsed)"
		}
	}
	// What the server makes is claimed together with its name and the intent to
	// send: the first row that anybody could see is there already.
	point, made := onlyonce.Started, ""
	if rec.Resource != "" && !s.alone {
		point, made = onlyonce.Dispatched, rec.Resource
	}
	now := string(rec.Point)
	if rec.Status != onlyonce.InProgress {
		now = "–" // where it would be resumed from, if it were not finished
	}
	rows := [][]string{
		{"account_id", rec.Key.Account, rec.Key.Account},
		{"key", rec.Key.Name, rec.Key.Name},
		{"body_hash", print, print},
		{"status", string(onlyonce.InProgress), string(rec.Status)},
		{"recovery_point", string(point), now},
		{"attempt", "1", strconv.Itoa(rec.Attempt)},
		{"lease_until", "set at each step", lease},
		{"resource", orDash(made), orDash(rec.Resource)},
	}
	rows = append(rows, responseRows(rec)...)
	rows = append(rows,
		[]string{"completed_at", "NULL", orNull(rec.CompletedAt)},
		[]string{"expires_at", "NULL", orNull(rec.ExpiresAt)},
	)
	return box{
		widths: []int{nameWidth, claimedWidth, nowWidth},
		head:   []string{"idempotency_keys", "claimed  " + clock(rec.CreatedAt), "now  " + clock(rec.Now)},
		rows:   rows,
		look: func(row, column int, cell string) string {
			return lookOfRow(p, row, column, rows, cell)
		},
	}.String()
}

// lookOfRow makes column names faint, and lets what changed stand out.
func lookOfRow(p paint, row, column int, rows [][]string, cell string) string {
	switch {
	case row < 0:
		return p.bold(cell)
	case column == 0:
		return p.dim(cell)
	case rows[row][0] == "status" || rows[row][0] == "state":
		return p.state(strings.TrimRight(cell, " ")) + cell[len(strings.TrimRight(cell, " ")):]
	}
	return cell
}

func orNull(t time.Time) string {
	if t.IsZero() {
		return "NULL"
	}
	return moment(t)
}

// responseRows are the stored response, its body over as many lines as it needs.
func responseRows(rec onlyonce.Record) [][]string {
	if rec.Outcome == nil {
		return [][]string{{"response_status", "NULL", "NULL"}, {"response_body", "NULL", "NULL"}}
	}
	rows := [][]string{{"response_status", "NULL", strconv.Itoa(rec.Outcome.Status)}}
	for _, name := range slices.Sorted(maps.Keys(rec.Outcome.Header)) {
		rows = append(rows, brokenRows("response_headers", name+": "+strings.Join(rec.Outcome.Header[name], ", "))...)
	}
	return append(rows, brokenRows("response_body", string(rec.Outcome.Body))...)
}

// brokenRows are a value that was NULL, over as many lines as it needs.
func brokenRows(name, value string) (rows [][]string) {
	for i, line := range broken(value, nowWidth, maxBodyLines) {
		row := []string{"", "", line}
		if i == 0 {
			row[0], row[1] = name, "NULL"
		}
		rows = append(rows, row)
	}
	return rows
}

func paymentBox(pay payments.Payment, p paint) string {
	rows := [][]string{
		{"amount", pay.Amount.String()},
		{"state", string(pay.State)},
		{"captured", fmt.Sprintf("%d, refunded %d, refundable %d (minor units)",
			pay.Captured, pay.Refunded, pay.Refundable())},
		{"order", orDash(pay.OrderID)},
		{"provider", orDash(pay.Instance) + "  " + pay.ProviderID},
		{"created_at", moment(pay.CreatedAt)},
	}
	rows = append(rows, doubtRows(pay.DeclineCode, pay.UnknownSince, pay.NextCheckAt)...)
	return madeBox("payment", pay.ID, rows, p)
}

func refundBox(r payments.Refund, p paint) string {
	rows := [][]string{
		{"amount", r.Amount.String()},
		{"state", string(r.State)},
		{"of payment", r.PaymentID},
		{"reason", orDash(r.Reason)},
		{"provider", orDash(r.Instance) + "  " + r.ProviderID},
		{"created_at", moment(r.CreatedAt)},
	}
	rows = append(rows, doubtRows(r.DeclineCode, r.UnknownSince, r.NextCheckAt)...)
	return madeBox("refund", r.ID, rows, p)
}

// doubtRows are there only where something went wrong.
func doubtRows(decline string, unknownSince, nextCheck time.Time) (rows [][]string) {
	if decline != "" {
		rows = append(rows, []string{"decline_code", decline})
	}
	if !unknownSince.IsZero() {
		rows = append(rows, []string{"unknown_since", moment(unknownSince)})
	}
	if !nextCheck.IsZero() {
		rows = append(rows, []string{"next_check_at", moment(nextCheck)})
	}
	return rows
}

func madeBox(kind, id string, rows [][]string, p paint) string {
	return box{
		widths: []int{nameWidth, madeWidth},
		head:   []string{kind, id},
		rows:   rows,
		look: func(row, column int, cell string) string {
			return lookOfRow(p, row, column, rows, cell)
		},
	}.String()
}
