package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const (
	defaultPatience = 10 * time.Second      // longer than any lock timeout that a scenario sets
	cleanUpWait     = 30 * time.Second      // for locks of sessions that have only just ended
	askEvery        = 10 * time.Millisecond // who waits for a lock
)

// Options say how a script is played.
type Options struct {
	// URLs are the databases, as for sqlstore.Open. The first is where tables
	// are made; further ones are other nodes of the same cluster.
	URLs []string
	// Keep leaves the tables of the last section where they are. The next
	// scenario on the database removes them.
	Keep bool
	// Patience bounds each wait for a session. Default 10 s.
	Patience time.Duration
	// Watch is told of each step as it happens. Default: nobody is.
	Watch func(Event)
}

// Event is one thing that happened, for a transcript.
type Event struct {
	Kind      Kind     `json:"kind"`
	Line      int      `json:"line,omitempty"`    // in the file
	Session   string   `json:"session,omitempty"` // of a step
	Text      string   `json:"text,omitempty"`    // what was said or done; empty for a step that only collects
	Engine    string   `json:"engine,omitempty"`  // of a scenario: name and version
	Result    []string `json:"result,omitempty"`  // as the file would have it
	Detail    string   `json:"detail,omitempty"`  // the engine's own words, or who is waited for
	Want      []string `json:"want,omitempty"`    // what was expected, if that is not what came
	WantLine  int      `json:"wantLine,omitempty"`
	Statement bool     `json:"-"` // Text is SQL
}

// Kind is what an Event tells of.
type Kind string

// The kinds of events.
const (
	KindScenario Kind = "scenario" // the play begins
	KindSection  Kind = "section"
	KindSetup    Kind = "setup" // a statement before a section
	KindComment  Kind = "comment"
	KindStep     Kind = "step"
)

// Unexpected is the error of a scenario that did not go as its file says.
type Unexpected struct {
	File    string
	Line    int
	Session string
	Want    []string
	Got     []string
}

// Error says what was expected.
func (u *Unexpected) Error() string {
	return fmt.Sprintf("%s:%d: %s: expected %q, got %q", u.File, u.Line, u.Session,
		strings.Join(u.Want, "\n"), strings.Join(u.Got, "\n"))
}

// ErrEngine: the script does not play on this kind of database. Nothing was
// changed; the message says what it needs.
var ErrEngine = errors.New("the scenario does not play on this database")

// Play plays a script and removes its tables. *Unexpected: a step went
// otherwise than the file says. Other errors are of the database, or ErrEngine
// and ErrNotOurs.
func (s *Script) Play(ctx context.Context, o Options) (err error) {
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.Watch == nil {
		o.Watch = func(Event) {}
	}
	if len(o.URLs) == 0 {
		return errors.New("play a scenario: no database is named in Options.URLs")
	}
	if n := s.nodes(); len(o.URLs) < n {
		return fmt.Errorf("%w: its sessions are on %d nodes of a cluster: name each with a --db of its own", ErrEngine, n)
	}
	p := &player{script: s, o: o}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, url := range o.URLs {
		n, err := openNode(ctx, url)
		if err != nil {
			return err
		}
		p.nodes = append(p.nodes, n)
	}
	if err := p.fits(); err != nil {
		return err
	}
	if err := p.nodes[0].clear(ctx); err != nil { // a play that is refused has not begun
		return err
	}
	o.Watch(Event{Kind: KindScenario, Text: s.Name, Engine: p.engine().title})
	for _, sec := range s.sections {
		if p.engine().plays(sec.engines) {
			if err := p.section(ctx, sec); err != nil {
				return err
			}
		}
	}
	return nil
}

// player plays one script.
type player struct {
	script *Script
	o      Options
	nodes  []*node

	sessions map[string]*session // of the section
}

func (p *player) engine() engine { return p.nodes[0].engine }

// fits refuses an engine on which no section plays.
func (p *player) fits() error {
	e := p.engine()
	if !e.plays(p.script.Engines) {
		return fmt.Errorf("%w: %s is for %s, and this is %s: name another database with --db", ErrEngine, p.script.Name,
			strings.Join(p.script.Engines, ", "), e.title)
	}
	for _, sec := range p.script.sections {
		if e.plays(sec.engines) {
			return nil
		}
	}
	return fmt.Errorf("%w: no section of %s is for %s: name another database with --db", ErrEngine, p.script.Name, e.title)
}

// close ends the connections to the databases.
func (p *player) close() error {
	var errs []error
	for _, n := range p.nodes {
		errs = append(errs, n.pool.Close())
	}
	return errors.Join(errs...)
}

// section plays one story on new tables.
func (p *player) section(ctx context.Context, sec section) (err error) {
	p.o.Watch(Event{Kind: KindSection, Line: sec.number, Text: sec.title})
	first := p.nodes[0]
	if err := first.prepare(ctx, p.script.tables()); err != nil {
		return err
	}
	defer func() {
		if p.o.Keep {
			return
		}
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
		defer cancel()
		err = errors.Join(err, first.clean(clean))
	}()
	if sec.does() {
		if err := first.migrate(ctx); err != nil {
			return fmt.Errorf("make the engine's tables: %w", err)
		}
	}
	for _, c := range p.script.setup {
		text := p.script.filled(p.engine(), c.text)
		if err := first.exec(ctx, text); err != nil {
			return p.script.wrong(c.number, "%v", err)
		}
		p.o.Watch(Event{Kind: KindSetup, Line: c.number, Text: text, Statement: true})
	}
	for _, n := range p.nodes[1:] {
		if err := n.catchUp(ctx); err != nil {
			return fmt.Errorf("wait for the cluster's other nodes: %w", err)
		}
	}
	return p.lines(ctx, sec)
}

// lines has the sessions do what the section says, and ends them.
func (p *player) lines(ctx context.Context, sec section) (err error) {
	within, cancel := context.WithCancel(ctx)
	p.sessions = map[string]*session{}
	defer func() {
		cancel()
		err = errors.Join(err, p.closeSessions())
	}()
	for _, l := range sec.lines {
		if !p.engine().plays(l.on) {
			continue
		}
		if l.comment != "" || len(l.who) == 0 {
			p.o.Watch(Event{Kind: KindComment, Line: l.number, Text: l.comment})
			continue
		}
		if err := p.line(within, l); err != nil {
			return err
		}
	}
	return nil
}

// closeSessions ends those first whose locks others wait for.
func (p *player) closeSessions() error {
	for _, s := range p.sessions {
		if !s.inFlight && !s.paused {
			s.crash()
		}
	}
	var errs []error
	for _, s := range p.sessions {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// sit returns the session of this name, and makes it at its first line.
func (p *player) sit(name string) (*session, error) {
	if s := p.sessions[name]; s != nil {
		return s, nil
	}
	seat := p.script.seat(name)
	n := p.nodes[seat.node-1]
	pool, _, err := sqlstore.OpenSQL(withParameter(n.url, seat.parameter))
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	s := &session{name: name, node: n, pool: pool}
	s.waiter.label = fmt.Sprintf("%s %p", name, s)
	s.claimer, err = onlyonce.New(onlyonce.Options{
		Store: sqlstore.New(n.dialect, sqlstore.Options{BusyWait: p.o.Patience}),
	})
	p.sessions[name] = s
	return s, err
}

// withParameter adds a parameter to a database's URL.
func withParameter(url, parameter string) string {
	switch {
	case parameter == "":
		return url
	case strings.Contains(url, "?"):
		return url + "&" + parameter
	}
	return url + "?" + parameter
}
