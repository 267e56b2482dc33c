package scenario

import (
	"regexp"
	"slices"
	"strings"
)

// check looks at what can only be judged once the whole file was read.
func (s *Script) check() error {
	if len(s.sections) == 0 {
		return s.wrong(1, `nothing happens in it: write "== what happens" and below it lines like "A: SELECT 1"`)
	}
	for _, c := range s.commands() {
		if err := s.checkStatement(c); err != nil {
			return err
		}
	}
	for _, sec := range s.sections {
		for _, l := range sec.lines {
			for _, name := range l.who {
				if len(s.seats) > 0 && !slices.ContainsFunc(s.seats, func(t seat) bool { return t.name == name }) {
					return s.wrong(l.number, "session %s is not among those of sessions: add it there, or mend the name", name)
				}
			}
		}
	}
	return nil
}

// commands returns every statement of the file.
func (s *Script) commands() []command {
	all := slices.Clone(s.setup)
	for _, sec := range s.sections {
		for _, l := range sec.lines {
			if l.statement != "" {
				all = append(all, command{l.number, l.statement})
			}
		}
	}
	return all
}

var (
	braced  = regexp.MustCompile(`\{([a-z-]+)\}`)
	creates = regexp.MustCompile(`(?i)^\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w"` + "`" + `.]+)`)
)

func (s *Script) checkStatement(c command) error {
	for _, m := range braced.FindAllStringSubmatch(c.text, -1) {
		if !slices.ContainsFunc(s.words, func(w word) bool { return w.name == m[1] }) {
			return s.wrong(c.number, `{%s} stands for nothing: write "let %s = SQL" above the first "=="`, m[1], m[1])
		}
	}
	m := creates.FindStringSubmatch(c.text)
	if m != nil && !strings.HasPrefix(m[1], tablePrefix) {
		return s.wrong(c.number, "the table %s could be somebody else's: call it %s%s", m[1], tablePrefix, m[1])
	}
	return nil
}

// tables returns the names of the tables that the file makes, in order.
func (s *Script) tables() []string {
	var names []string
	for _, c := range s.commands() {
		m := creates.FindStringSubmatch(c.text)
		if m != nil && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// nodes returns how many databases the sessions are spread over.
func (s *Script) nodes() int {
	n := 1
	for _, t := range s.seats {
		n = max(n, t.node)
	}
	return n
}

// does reports whether a session uses the library's own verb.
func (sec section) does() bool {
	return slices.ContainsFunc(sec.lines, func(l line) bool { return l.verb == verbDo })
}

// seat returns where a session sits.
func (s *Script) seat(name string) seat {
	i := slices.IndexFunc(s.seats, func(t seat) bool { return t.name == name })
	if i < 0 {
		return seat{name: name, node: 1}
	}
	return s.seats[i]
}

// filled puts an engine's own words in place of those in braces.
func (s *Script) filled(e engine, text string) string {
	return braced.ReplaceAllStringFunc(text, func(name string) string {
		i := slices.IndexFunc(s.words, func(w word) bool { return "{"+w.name+"}" == name && e.plays(w.on) })
		if i < 0 {
			return ""
		}
		return s.words[i].text
	})
}
