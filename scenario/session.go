package scenario

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"runtime/pprof"
	"strings"
	"unicode/utf8"

	"github.com/onlyonce-go/onlyonce"
)

// labelName is the profiler's label that tells the sessions' goroutines apart.
const labelName = "scenario session"

// session is one connection of a scenario. Only the player calls its methods.
type session struct {
	name    string
	node    *node
	pool    *sql.DB // of one connection
	conn    *sql.Conn
	waiter  waiter
	claimer *onlyonce.Engine // of do

	answers  chan result   // of what was sent last: one, or two if it pauses
	ended    chan struct{} // closed when what was sent last is over; nil: nothing was
	inFlight bool          // there is an answer to collect
	pause    chan error    // what the paused effect of do is to return
	paused   bool
}

// open gets the session's connection and asks what the database calls it.
func (s *session) open(ctx context.Context) (err error) {
	if s.conn != nil {
		return nil
	}
	if s.conn, err = s.pool.Conn(ctx); err != nil {
		return err
	}
	if s.node.session == "" {
		return nil
	}
	return s.conn.QueryRowContext(ctx, s.node.session).Scan(&s.waiter.number)
}

// lend leaves the connection to the pool, where do takes it.
func (s *session) lend(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	conn := s.conn
	s.conn = nil
	return conn.Close()
}

// maxAnswers is how many results one act has at most: that it pauses, and how
// it ended.
const maxAnswers = 2

// send has the session do something, which then is in flight.
func (s *session) send(ctx context.Context, act func(ctx context.Context, answers chan<- result)) {
	answers, ended := make(chan result, maxAnswers), make(chan struct{})
	s.answers, s.ended, s.inFlight, s.pause = answers, ended, true, make(chan error, 1)
	go pprof.Do(ctx, pprof.Labels(labelName, s.waiter.label), func(ctx context.Context) {
		defer close(ended)
		act(ctx, answers)
	})
}

// collected takes an answer into account.
func (s *session) collected(r result) result {
	s.inFlight = false
	s.paused = r.words == pausedWord
	return r
}

// resume lets the paused effect of do return.
func (s *session) resume(err error) {
	s.pause <- err
	s.inFlight, s.paused = true, false
}

// crash ends the connection as the death of its process would.
func (s *session) crash() {
	conn := s.conn
	s.conn = nil
	if conn == nil {
		return
	}
	// The pool closes a connection that is called bad; there is nothing to do
	// about one that does not even close.
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// close ends the session, once the context of what is in flight has ended.
func (s *session) close() error {
	if s.ended != nil {
		<-s.ended
	}
	s.crash()
	return s.pool.Close()
}

// talker runs statements: a connection, or a transaction on it.
type talker interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// statement runs SQL on the session's own connection.
func (s *session) statement(ctx context.Context, text string) result {
	empty := firstWord(text) == "COMMIT" && s.node.emptyCommit != nil && s.node.emptyCommit(s.conn)
	r, err := talk(ctx, s.conn, text)
	if err != nil {
		return s.node.failure(err)
	}
	if empty {
		return said(rolledBackWords)
	}
	return r
}

// talk runs one statement and reads all that comes back.
func talk(ctx context.Context, t talker, text string) (result, error) {
	switch first := firstWord(text); {
	case givesRows(first, text):
		rows, err := t.QueryContext(ctx, text)
		if err != nil {
			return result{}, err
		}
		defer rows.Close()
		return table(rows)
	default:
		done, err := t.ExecContext(ctx, text)
		if err != nil || !changesRows(first) {
			return said("ok"), err
		}
		n, err := done.RowsAffected()
		return said(counted(n)), err
	}
}

func firstWord(text string) string {
	for word := range strings.FieldsSeq(text) {
		return strings.ToUpper(word)
	}
	return ""
}

func givesRows(first, text string) bool {
	switch first {
	case "SELECT", "WITH", "VALUES", "SHOW", "PRAGMA", "EXPLAIN":
		return true
	}
	return strings.Contains(strings.ToUpper(text), " RETURNING ")
}

func changesRows(first string) bool {
	return first == "INSERT" || first == "UPDATE" || first == "DELETE" || first == "REPLACE"
}

// table reads rows as texts.
func table(rows *sql.Rows) (result, error) {
	names, err := rows.Columns()
	if err != nil {
		return result{}, err
	}
	cells := [][]string{names}
	for rows.Next() {
		values, targets := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return result{}, err
		}
		row := make([]string, len(names))
		for i, v := range values {
			row[i] = cell(v)
		}
		cells = append(cells, row)
	}
	if len(cells) == 1 {
		return said(counted(0)), rows.Err()
	}
	return result{cells: cells}, rows.Err()
}

// cell writes a value as all engines write it.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return fmt.Sprintf("x'%x'", v)
	}
	return fmt.Sprint(v)
}

// failure is an error as a result: its class, the engine's code and its words.
func (n *node) failure(err error) result {
	class, code := n.judge(err)
	if class == "" {
		return failed(errOther, err.Error())
	}
	text := err.Error()
	if !strings.Contains(text, code) {
		text = code + " " + text
	}
	return failed(class, text)
}
