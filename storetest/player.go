package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// patience bounds each wait for a session, so that a store which never
// returns fails its test instead of hanging it.
const patience = 30 * time.Second

// errRollback ends a session's transaction on purpose.
var errRollback = errors.New("rolled back by the scenario")

func runScenarios(t *testing.T, h Harness) {
	all, err := readScenarios()
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range all {
		t.Run(sc.name, func(t *testing.T) { play(t, h.Open(t), sc) })
	}
}

// player plays one scenario.
type player struct {
	t        *testing.T
	s        Subject
	sessions map[string]*session
	clock    time.Duration
}

// session is a worker of a scenario.
type session struct {
	name    onlyonce.Token
	steps   chan step   // non-nil while a transaction is open
	ended   chan error  // what InTx returned
	answer  chan string // what the verb in progress returns
	waiting bool        // a line said that the verb waits
}

// step is a verb to run in an open transaction; a nil run ends it with err.
type step struct {
	run func(ctx context.Context, tx onlyonce.Tx) string
	err error
}

func play(t *testing.T, s Subject, sc scenario) {
	p := &player{t: t, s: s, sessions: map[string]*session{}}
	defer p.close()
	for _, l := range sc.lines {
		if l.session == "clock" {
			p.moveClock(l)
			continue
		}
		for name, other := range p.sessions {
			if name != l.session && other.waiting && len(other.answer) > 0 {
				t.Fatalf("line %d: %s was to wait, but it has returned %q", l.number, name, <-other.answer)
			}
		}
		p.line(l)
	}
}

func (p *player) moveClock(l line) {
	by, err := time.ParseDuration(l.verb)
	if err != nil {
		p.t.Fatalf("line %d: %v", l.number, err)
	}
	p.clock += by
	p.s.Skew(p.clock)
}

// line runs one line and compares its result.
func (p *player) line(l line) {
	w := p.sessions[l.session]
	if w == nil {
		w = &session{name: onlyonce.Token(l.session)}
		p.sessions[l.session] = w
	}
	if l.verb != "" {
		w.answer = make(chan string, 1)
		p.start(w, l)
	}
	if len(l.want) == 1 && l.want[0] == "waits" {
		w.waiting = true
		return
	}
	w.waiting = false
	got := p.collect(w, l)
	ok := agrees(l.want, got)
	if l.verb == "due" { // a list: one key too many is as wrong as one too few
		ok = strings.Join(l.want, " ") == got
	}
	if !ok {
		p.t.Fatalf("line %d: %s %s: want %q, got %q", l.number, l.session, l.verb, strings.Join(l.want, " "), got)
	}
}

func (p *player) collect(w *session, l line) string {
	select {
	case got := <-w.answer:
		return got
	case <-time.After(patience):
		p.t.Fatalf("line %d: %s %s has not returned for %v", l.number, l.session, l.verb, patience)
		return ""
	}
}

// start sets a verb going; its result arrives in w.answer.
func (p *player) start(w *session, l line) {
	answer := w.answer
	switch l.verb {
	case "begin":
		w.steps, w.ended = make(chan step), make(chan error, 1)
		steps, ended := w.steps, w.ended
		go func() {
			ended <- p.s.Tx.InTx(p.t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
				answer <- "begun"
				for st := range steps {
					if st.run == nil {
						return st.err
					}
					st.run(ctx, tx)
				}
				return errRollback
			})
		}()
	case "commit":
		p.end(w, answer, nil)
	case "rollback":
		p.end(w, answer, errRollback)
	default:
		run := func(ctx context.Context, tx onlyonce.Tx) string { return p.verb(ctx, tx, w, l) }
		if w.steps != nil {
			w.steps <- step{run: func(ctx context.Context, tx onlyonce.Tx) string {
				answer <- run(ctx, tx)
				return ""
			}}
			return
		}
		go func() { answer <- p.alone(run) }()
	}
}

// end ends a session's transaction.
func (p *player) end(w *session, answer chan string, err error) {
	w.steps <- step{err: err}
	got := <-w.ended
	w.steps = nil
	switch {
	case got == nil:
		answer <- "committed"
	case errors.Is(got, errRollback):
		answer <- "rolled-back"
	default:
		answer <- "error: " + got.Error()
	}
}

// alone runs a verb in a transaction of its own.
func (p *player) alone(run func(ctx context.Context, tx onlyonce.Tx) string) string {
	var got string
	err := p.s.Tx.InTx(p.t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		if got = run(ctx, tx); strings.HasPrefix(got, "error:") {
			return errRollback
		}
		return nil
	})
	if err != nil && !errors.Is(err, errRollback) {
		return fmt.Sprintf("error: %v", err)
	}
	return got
}

// close ends what a failed scenario left open, so that the store can close.
func (p *player) close() {
	for _, w := range p.sessions {
		if w.steps != nil {
			close(w.steps)
			<-w.ended
		}
	}
}
