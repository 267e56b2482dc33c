package scenario

import (
	"fmt"
	"regexp"
	"strings"
)

// verb is what a session does in a line.
type verb string

const (
	verbNone   verb = ""        // a comment, or only the result of what was sent before
	verbSQL    verb = "SQL"     // A: SELECT 1
	verbDo     verb = "do"      // A do req-42 charge 30: UPDATE …
	verbGoesOn verb = "goes on" // the paused effect of do returns, and is committed
	verbFails  verb = "fails"   // the paused effect of do fails, and is rolled back
	verbCrash  verb = "crashes" // the connection ends
)

// line is one step of a section, or a comment.
type line struct {
	number  int
	comment string

	who       []string // more than one only to collect results in any order
	on        []string // engines; empty: all
	verb      verb
	statement string // SQL as it was written
	key       string // of do
	intent    string // of do: what is wanted once
	pausing   bool   // do stops before COMMIT
	wants     []want // the first that fits the engine counts
}

// want is an expected result.
type want struct {
	number   int
	on       []string
	lines    []string // as in the file; a table has a header and rows
	anyOrder []string // one for each session, whoever gets it
}

// text is the line as it is shown, without its session.
func (l line) text(statement string) string {
	switch l.verb {
	case verbDo:
		pause := ""
		if l.pausing {
			pause = ", pausing"
		}
		return fmt.Sprintf("do %s %s%s: %s", l.key, l.intent, pause, statement)
	case verbSQL:
		return statement
	}
	return string(l.verb)
}

var (
	lineHead = regexp.MustCompile(`^([A-Z]\w*(?:, [A-Z]\w*)*)(?: on ([a-z]+(?:, [a-z]+)*))?(?:(:)|\s+)(.*)$`)
	doHead   = regexp.MustCompile(`^do (\S+) ([^:]+?)(, pausing)?:(?: (.*))?$`)
)

// parseLine reads what a session does, and what comes of it.
func (s *Script) parseLine(b block) (line, error) {
	m := lineHead.FindStringSubmatch(b.head)
	if m == nil {
		return line{}, s.wrong(b.number, `%q is no step: write "A: SQL", "A do KEY WHAT: SQL", "A goes on", "A fails", `+
			`"A crashes" or "A -> result"`, b.head)
	}
	l := line{number: b.number, who: strings.Split(m[1], ", ")}
	var err error
	if m[2] != "" {
		if l.on, err = s.engineList(b.number, m[2]); err != nil {
			return l, err
		}
	}
	// The statement goes on until the first arrow.
	rest := b.rest
	if result, ok := strings.CutPrefix(m[4], "->"); ok && m[3] == "" {
		rest = append([]command{{b.number, "-> " + strings.TrimSpace(result)}}, rest...)
	} else if err := s.parseVerb(&l, m[3] == ":", m[4]); err != nil {
		return l, err
	}
	for len(rest) > 0 && !strings.HasPrefix(rest[0].text, "->") {
		if l.statement == "" && l.verb != verbDo {
			return l, s.wrong(rest[0].number, `%q goes on with %q, which has no statement: begin its result with "->"`,
				rest[0].text, b.head)
		}
		l.statement = strings.TrimSpace(l.statement + "\n" + rest[0].text)
		rest = rest[1:]
	}
	if l.verb == verbDo && l.statement == "" {
		return l, s.wrong(b.number, "the effect is missing: write the statement behind the colon")
	}
	if l.wants, err = s.parseWants(rest); err != nil {
		return l, err
	}
	return l, s.checkLine(l)
}

func (s *Script) parseVerb(l *line, colon bool, text string) error {
	if colon {
		if l.verb, l.statement = verbSQL, strings.TrimSpace(text); l.statement == "" {
			return s.wrong(l.number, "the statement is missing: write it behind the colon")
		}
		return nil
	}
	if m := doHead.FindStringSubmatch(text); m != nil {
		l.verb, l.key, l.intent, l.pausing, l.statement = verbDo, m[1], m[2], m[3] != "", strings.TrimSpace(m[4])
		return nil
	}
	switch l.verb = verb(text); l.verb {
	case verbGoesOn, verbFails, verbCrash:
		return nil
	}
	return s.wrong(l.number, `%q is nothing that a session can do: write "A: SQL", "A do KEY WHAT: SQL", "A goes on", `+
		`"A fails" or "A crashes"`, text)
}

var wantHead = regexp.MustCompile(`^->(?: on ([a-z]+(?:, [a-z]+)*):)?(?: (.*))?$`)

// parseWants reads results, each from its arrow on.
func (s *Script) parseWants(lines []command) ([]want, error) {
	var wants []want
	for _, c := range lines {
		m := wantHead.FindStringSubmatch(c.text)
		if m == nil { // the first line always has an arrow
			last := &wants[len(wants)-1]
			last.lines = append(last.lines, c.text)
			continue
		}
		w := want{number: c.number}
		if m[1] != "" {
			var err error
			if w.on, err = s.engineList(c.number, m[1]); err != nil {
				return nil, err
			}
		}
		if text := strings.TrimSpace(m[2]); text != "" {
			w.lines = []string{text}
		}
		wants = append(wants, w)
	}
	for i := range wants {
		if err := s.checkWant(&wants[i]); err != nil {
			return nil, err
		}
	}
	return wants, nil
}

const anyOrderWords = "in any order:"

var resultText = regexp.MustCompile(`^([1-9]\d* rows?|no rows|ok|waits|sent|paused|failed|gone|rolled back|` +
	`(done|replay)( .+)?|error( (` + strings.Join(errorWords(), "|") + `))?)$`)

func (s *Script) checkWant(w *want) error {
	if len(w.lines) == 0 {
		return s.wrong(w.number, `there is an arrow and no result: write one behind it, for example "-> 1 row"`)
	}
	words := w.lines
	if list, ok := strings.CutPrefix(w.lines[0], anyOrderWords); ok && len(w.lines) == 1 {
		for one := range strings.SplitSeq(list, ",") {
			w.anyOrder = append(w.anyOrder, strings.TrimSpace(one))
		}
		words = w.anyOrder
	} else if len(w.lines) > 1 {
		return s.checkTable(w)
	}
	for _, text := range words {
		if !resultText.MatchString(text) {
			return s.wrong(w.number, `%q is no result: write "1 row", "no rows", "ok", "waits", "sent", "paused", "done", `+
				`"replay", "failed", "gone", "rolled back", "error" with one of %s, or a table with a line of names above its rows`,
				text, strings.Join(errorWords(), ", "))
		}
	}
	return nil
}

func (s *Script) checkTable(w *want) error {
	columns := strings.Count(w.lines[0], "|")
	for i, text := range w.lines {
		if strings.Count(text, "|") != columns {
			return s.wrong(w.number+i, "the table has %d columns above and %d here: put one | between two values",
				columns+1, strings.Count(text, "|")+1)
		}
	}
	return nil
}

// checkLine refuses what can't be played.
func (s *Script) checkLine(l line) error {
	var anyOrder, one bool
	for _, w := range l.wants {
		if w.anyOrder == nil {
			one = true
			continue
		}
		anyOrder = true
		if len(w.anyOrder) != len(l.who) {
			return s.wrong(w.number, "there are %d sessions and %d results: write one for each", len(l.who), len(w.anyOrder))
		}
	}
	switch {
	case len(l.who) > 1 && (l.verb != verbNone || one):
		return s.wrong(l.number, `several sessions at once can only be collected: write "%s -> %s …"`,
			strings.Join(l.who, ", "), anyOrderWords)
	case len(l.who) == 1 && anyOrder:
		return s.wrong(l.number, "%q is for several sessions: name them, or write the result alone", anyOrderWords)
	}
	return nil
}
