package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

const (
	defaultLimit = 20
	maxLimit     = 100
	maxIDBytes   = 64  // ours have about 30
	maxCursor    = 200 // characters; ours have about 70
)

// listBody is a page of a list as clients see it.
type listBody[T any] struct {
	Data []T     `json:"data"`
	Next *string `json:"next"`
}

func listOf[Row, Body any](rows []Row, body func(Row) Body, next *string) listBody[Body] {
	data := make([]Body, len(rows)) // an empty list is [], not null
	for i, row := range rows {
		data[i] = body(row)
	}
	return listBody[Body]{data, next}
}

// pathID returns the id in the path, or answers that there is none such: ids
// of another shape are not looked up.
func pathID(w http.ResponseWriter, r *http.Request, kind payments.Kind) (string, bool) {
	id := r.PathValue("id")
	if !isID(id, kind) {
		httponce.NotFound(string(kind)).Write(w)
		return "", false
	}
	return id, true
}

func isID(id string, kind payments.Kind) bool {
	return len(id) <= maxIDBytes && payments.KindOf(id) == kind &&
		strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// unread answers a read that failed.
func (s *Server) unread(w http.ResponseWriter, r *http.Request, kind payments.Kind, err error) {
	if errors.Is(err, db.ErrNotFound) {
		httponce.NotFound(string(kind)).Write(w)
		return
	}
	s.unavailable(w, r, "read the "+string(kind), err)
}

// query is the query string of a list. A parameter that is misspelt, repeated
// or empty is refused: ignored, it would show payments that were not asked for.
type query struct {
	values url.Values
	faults []string
}

func readQuery(r *http.Request, known ...string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.fail("the query string is malformed")
	}
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			q.fail(fmt.Sprintf("there is no parameter %q here", name))
		case len(all) > 1:
			q.fail(fmt.Sprintf("%s was sent %d times", name, len(all)))
		case all[0] == "":
			q.fail(name + " is empty: leave it out instead")
		}
	}
	slices.Sort(q.faults)
	return q
}

func (q *query) fail(fault string) { q.faults = append(q.faults, fault) }

// refused answers a query that is at fault.
func (q *query) refused(w http.ResponseWriter) bool {
	if len(q.faults) == 0 {
		return false
	}
	httponce.InvalidRequest("The query is not valid: " + strings.Join(q.faults, "; ") + ".").Write(w)
	return true
}

func (q *query) text(name string, most int) string {
	text := q.values.Get(name)
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || utf8.RuneCountInString(text) > most {
		q.fail(fmt.Sprintf("%s must be text of at most %d characters, without NUL", name, most))
	}
	return text
}

func (q *query) state(name string) payments.State {
	state := payments.State(q.values.Get(name))
	if state != "" && !slices.Contains(payments.States(), state) {
		q.fail(fmt.Sprintf("%s must be one of %v", name, payments.States()))
	}
	return state
}

func (q *query) key(name, account string) string {
	key := onlyonce.Key{Account: account, Name: q.values.Get(name)}
	if key.Name != "" && key.Validate() != nil {
		q.fail(name + " can't be an idempotency key")
	}
	return key.Name
}

func (q *query) limit() int {
	text := q.values.Get("limit")
	if text == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit || text[0] == '+' {
		q.fail(fmt.Sprintf("limit must be a whole number from 1 to %d", maxLimit))
	}
	return n
}

func (q *query) page() db.Page {
	return db.Page{After: q.row("cursor"), Limit: q.limit()}
}

// Cursors are opaque to clients. That of a list is the last row's time in
// microseconds and its id, that of a timeline the last event's version.

func afterRow(c *db.Cursor) *string {
	if c == nil {
		return nil
	}
	return sealCursor(strconv.FormatInt(c.CreatedAt.UnixMicro(), 10) + " " + c.ID)
}

func afterVersion(version int) *string { return sealCursor(strconv.Itoa(version)) }

func sealCursor(text string) *string {
	sealed := base64.RawURLEncoding.EncodeToString([]byte(text))
	return &sealed
}

func (q *query) row(name string) *db.Cursor {
	text, ok := q.cursor(name)
	if !ok {
		return nil
	}
	micros, id, _ := strings.Cut(text, " ")
	at, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || payments.KindOf(id) == "" || !isID(id, payments.KindOf(id)) {
		q.foreign(name)
		return nil
	}
	return &db.Cursor{CreatedAt: time.UnixMicro(at).UTC(), ID: id}
}

func (q *query) version(name string) int {
	text, ok := q.cursor(name)
	if !ok {
		return 0
	}
	version, err := strconv.Atoi(text)
	if err != nil || version < 1 {
		q.foreign(name)
	}
	return version
}

func (q *query) cursor(name string) (string, bool) {
	sealed := q.values.Get(name)
	if sealed == "" {
		return "", false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(sealed) > maxCursor {
		q.foreign(name)
		return "", false
	}
	return string(text), true
}

func (q *query) foreign(name string) {
	q.fail(name + " is not one that a page of this list gave as next")
}
