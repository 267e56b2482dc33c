package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// line has a session do something and compares what comes of it.
func (p *player) line(ctx context.Context, l line) error {
	if len(l.who) > 1 {
		return p.anyOrder(ctx, l)
	}
	s, err := p.sit(l.who[0])
	if err != nil {
		return p.script.wrong(l.number, "%v", err)
	}
	text, err := p.act(ctx, s, l)
	if err != nil {
		return err
	}
	want := p.want(l)
	event := Event{Kind: KindStep, Line: l.number, Session: s.name, Text: text, Statement: l.verb == verbSQL}
	got, err := p.outcome(ctx, s, l, want)
	if err != nil {
		return err
	}
	event.Result, event.Detail = got.lines(), got.detail
	if want == nil && !got.fault() || want != nil && got.is(want.lines) {
		p.o.Watch(event)
		return nil
	}
	unexpected := &Unexpected{p.script.file, l.number, s.name, []string{"no error"}, got.lines()}
	if want != nil {
		unexpected.Line, unexpected.Want = want.number, want.lines
	}
	event.Want, event.WantLine = unexpected.Want, unexpected.Line
	p.o.Watch(event)
	return unexpected
}

// want returns the expected result on this engine, nil if any is fine that is
// no error.
func (p *player) want(l line) *want {
	for i := range l.wants {
		if p.engine().plays(l.wants[i].on) {
			return &l.wants[i]
		}
	}
	return nil
}

// act has the session do what the line says, and returns it as it was done.
func (p *player) act(ctx context.Context, s *session, l line) (text string, err error) {
	if fault := s.cannot(l); fault != "" {
		return "", p.script.wrong(l.number, "%s", fault)
	}
	statement := p.script.filled(p.engine(), l.statement)
	switch l.verb {
	case verbNone:
		return "", nil
	case verbSQL:
		if err := s.open(ctx); err != nil {
			return "", fmt.Errorf("connect session %s: %w", s.name, err)
		}
		s.send(ctx, func(ctx context.Context, answers chan<- result) { answers <- s.statement(ctx, statement) })
	case verbDo:
		if err := s.lend(ctx); err != nil {
			return "", fmt.Errorf("connect session %s: %w", s.name, err)
		}
		s.send(ctx, func(ctx context.Context, answers chan<- result) { answers <- s.do(ctx, l, statement, answers) })
	case verbGoesOn:
		s.resume(nil)
	case verbFails:
		s.resume(errFails)
	case verbCrash:
		s.crash()
	}
	return l.text(statement), nil
}

// cannot says why a session can't do what a line says, "" if it can.
func (s *session) cannot(l line) string {
	switch {
	case l.verb == verbNone && !s.inFlight:
		return s.name + " waits for nothing: remove the line, or let it do something before"
	case l.verb != verbNone && s.inFlight:
		return fmt.Sprintf(`%s is still busy: collect its result first, with "%s -> …"`, s.name, s.name)
	case l.verb != verbNone && s.paused != (l.verb == verbGoesOn || l.verb == verbFails):
		return fmt.Sprintf(`after "do … , pausing" %s can only go on or fail, and only then: `+
			`write "%s goes on" or "%s fails" once, right behind it`, s.name, s.name, s.name)
	}
	return ""
}

// outcome is what the session answers, or that it waits or was only sent.
func (p *player) outcome(ctx context.Context, s *session, l line, want *want) (result, error) {
	switch {
	case l.verb == verbCrash:
		return said("gone"), nil
	case want != nil && want.lines[0] == "sent":
		return said("sent"), nil
	case want != nil && want.lines[0] == "waits":
		return p.seeWait(ctx, s)
	}
	wait, cancel := context.WithTimeout(ctx, p.o.Patience)
	defer cancel()
	select {
	case r := <-s.answers:
		return s.collected(r), ctx.Err() // when that has ended, so has the statement
	case <-wait.Done():
		if err := ctx.Err(); err != nil {
			return result{}, err
		}
		return result{words: nothingWord, detail: fmt.Sprintf("no answer within %v", p.o.Patience)}, nil
	}
}

// seeWait asks the database until it says that the session waits for a lock.
func (p *player) seeWait(ctx context.Context, s *session) (result, error) {
	wait, cancel := context.WithTimeout(ctx, p.o.Patience)
	defer cancel()
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		yes, by, err := s.node.waits(wait, s.node, s.waiter)
		if err != nil && wait.Err() == nil {
			return result{}, fmt.Errorf("ask the database who waits: %w", err)
		}
		if yes {
			return result{words: "waits", detail: p.waitedFor(by)}, nil
		}
		select {
		case r := <-s.answers:
			return s.collected(r), ctx.Err()
		case <-ticker.C:
		case <-wait.Done():
			if err := ctx.Err(); err != nil {
				return result{}, err
			}
			detail := fmt.Sprintf("no answer within %v, and it waits for no lock", p.o.Patience)
			return result{words: nothingWord, detail: detail}, nil
		}
	}
}

// waitedFor names the sessions with these numbers.
func (p *player) waitedFor(numbers []int64) string {
	var names []string
	for _, s := range p.sessions {
		if slices.Contains(numbers, s.waiter.number) {
			names = append(names, s.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "for " + strings.Join(names, ", ")
}

// anyOrder collects the results of several sessions, whoever gets which.
func (p *player) anyOrder(ctx context.Context, l line) error {
	want := p.want(l)
	if want == nil {
		return nil
	}
	var events []Event
	var got []result
	for _, name := range l.who {
		s, err := p.sit(name)
		if err != nil {
			return p.script.wrong(l.number, "%v", err)
		}
		if _, err := p.act(ctx, s, l); err != nil {
			return err
		}
		r, err := p.outcome(ctx, s, l, nil)
		if err != nil {
			return err
		}
		got = append(got, r)
		events = append(events, Event{Kind: KindStep, Line: l.number, Session: name, Result: r.lines(), Detail: r.detail})
	}
	ok := shared(want.anyOrder, got)
	unexpected := &Unexpected{File: p.script.file, Line: want.number, Session: strings.Join(l.who, ", "), Want: want.lines}
	for i, e := range events {
		unexpected.Got = append(unexpected.Got, e.Result...)
		if !ok && i == len(events)-1 {
			e.Want, e.WantLine = want.lines, want.number
		}
		p.o.Watch(e)
	}
	if !ok {
		return unexpected
	}
	return nil
}
