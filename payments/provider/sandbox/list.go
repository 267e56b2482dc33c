package sandbox

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	defaultPage = 10 // Stripe's
	maxPage     = 100
	// ledgerPage is how many entries are in memory at once.
	ledgerPage = 500
)

// window is what a list asks for.
type window struct {
	from, to int64 // created_at in microseconds, from inclusive, to exclusive
	limit    int
	charge   string
	after    string // the id that the page before ended with
}

// parseWindow reads a list's parameters.
func parseWindow(kind string, q url.Values) (window, *problem) {
	win := window{to: math.MaxInt64, limit: defaultPage}
	for name, values := range q {
		value := values[len(values)-1]
		n, err := strconv.ParseInt(value, 10, 40) // seconds, or a page size: both small
		ok := err == nil && n >= 0
		second := time.Second.Microseconds()
		switch name {
		case "created[gte]":
			win.from = max(win.from, n*second)
		case "created[gt]":
			win.from = max(win.from, (n+1)*second)
		case "created[lte]":
			win.to = min(win.to, (n+1)*second)
		case "created[lt]":
			win.to = min(win.to, n*second)
		case "limit":
			win.limit, ok = int(n), ok && n >= 1 && n <= maxPage
		case "starting_after":
			win.after, ok = value, value != ""
		case "payment_intent":
			win.charge, ok = value, value != "" && kind == kindRefund
		default:
			return win, invalid("parameter_unknown", name, "Received unknown parameter.")
		}
		if !ok {
			return win, invalid("parameter_invalid", name, "Invalid value.")
		}
	}
	return win, nil
}

type wireList struct {
	Object  string       `json:"object"`
	URL     string       `json:"url"`
	HasMore bool         `json:"has_more"`
	Data    []wireObject `json:"data"`
}

// list serves a page, newest first.
func (s *Sandbox) list(kind string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, _ string) {
		win, bad := parseWindow(kind, r.URL.Query())
		if bad != nil {
			send(w, *bad.response())
			return
		}
		before := int64(math.MaxInt64)
		if win.after != "" {
			o, found, err := loadObject(r.Context(), s.read, kind, win.after)
			if err != nil {
				s.fail(w, r, err)
				return
			}
			if !found {
				send(w, *missing("starting_after", win.after).response())
				return
			}
			before = o.seq
		}
		objects, err := s.objects(r.Context(), kind, win, before)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		out := wireList{Object: "list", URL: r.URL.Path, HasMore: len(objects) > win.limit, Data: []wireObject{}}
		for _, o := range objects[:min(len(objects), win.limit)] {
			out.Data = append(out.Data, o.wire())
		}
		send(w, response{status: http.StatusOK, body: mustJSON(out)})
	}
}

// objects are a page of them and one more, if there is one.
func (s *Sandbox) objects(ctx context.Context, kind string, win window, before int64) ([]object, error) {
	query, args := sqlListObjects, []any{kind, win.from, win.to, before}
	if win.charge != "" {
		query, args = sqlListRefunds, append(args, win.charge)
	}
	rows, err := s.read.QueryContext(ctx, query, append(args, win.limit+1)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var objects []object
	for rows.Next() {
		o, err := scanObject(rows)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, rows.Err()
}

// entry is one line of the ledger.
type entry struct {
	ID             string          `json:"id"`
	Type           string          `json:"type"`
	Amount         int64           `json:"amount"`
	Currency       string          `json:"currency"`
	Status         string          `json:"status"`
	Metadata       json.RawMessage `json:"metadata"`
	IdempotencyKey string          `json:"idempotencyKey"`
	CreatedAt      string          `json:"createdAt"`
}

// serveLedger shows all money that moved, oldest first. It goes out in pages,
// so that neither memory nor a read of the file grows with the ledger or with
// a slow reader. A failure in the middle cuts the connection: a ledger that
// looks whole is whole.
func (s *Sandbox) serveLedger(w http.ResponseWriter, r *http.Request) {
	var last int64
	if err := s.read.QueryRowContext(r.Context(), sqlLastEntry).Scan(&last); err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	open := `{"data":[`
	for seq := int64(0); seq < last; {
		page, next, err := s.entries(r.Context(), seq, last)
		if err != nil || len(page) == 0 {
			panic(http.ErrAbortHandler)
		}
		for _, e := range page {
			if _, err := io.WriteString(w, open+string(e)); err != nil {
				return
			}
			open = ","
		}
		seq = next
	}
	if last == 0 {
		_, _ = io.WriteString(w, open) // an empty list
	}
	_, _ = io.WriteString(w, "]}\n") // a client that has gone reads nothing either way
}

// entries are a page after seq, as JSON, and the last one's seq.
func (s *Sandbox) entries(ctx context.Context, seq, last int64) (page [][]byte, next int64, err error) {
	rows, err := s.read.QueryContext(ctx, sqlEntries, seq, last, ledgerPage)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		var metadata string
		var createdAt int64
		err := rows.Scan(&next, &e.ID, &e.Type, &e.Amount, &e.Currency, &e.Status, &metadata, &e.IdempotencyKey, &createdAt)
		if err != nil {
			return nil, 0, err
		}
		e.Metadata, e.CreatedAt = json.RawMessage(metadata), rfc3339(createdAt)
		page = append(page, mustJSON(e))
	}
	return page, next, rows.Err()
}
