package storetest

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed scenarios
var scenarioFiles embed.FS

// scenario is one story under a "== name" line.
type scenario struct {
	name  string
	lines []line
}

// line is one step: who does what, and what comes of it.
type line struct {
	number  int // in its file, from 1
	session string
	verb    string            // empty: collect what the session still waits for
	args    []string          // in order, without those of the form name=value
	options map[string]string // name=value
	want    []string          // words of the result
}

// readScenarios reads every scenario of the package.
func readScenarios() ([]scenario, error) {
	names, err := fs.Glob(scenarioFiles, "scenarios/*.txt")
	if err != nil {
		return nil, err
	}
	var all []scenario
	for _, name := range names {
		text, err := scenarioFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// parse reads the scenarios of one file.
func parse(text string) ([]scenario, error) {
	var all []scenario
	number := 0
	for raw := range strings.Lines(text) {
		number++
		s := strings.TrimSpace(raw)
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(s, "== "); ok {
			all = append(all, scenario{name: strings.TrimSpace(name)})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("line %d: a scenario begins with \"== name\"", number)
		}
		l, err := parseLine(s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		l.number = number
		last := &all[len(all)-1]
		last.lines = append(last.lines, l)
	}
	return all, nil
}

func parseLine(s string) (line, error) {
	left, want, judged := strings.Cut(s, "->")
	words := strings.Fields(left)
	if len(words) == 0 {
		return line{}, fmt.Errorf("%q names no session", s)
	}
	l := line{session: words[0], options: map[string]string{}, want: strings.Fields(want)}
	if judged && len(l.want) == 0 {
		return line{}, fmt.Errorf("%q has an arrow and no result", s)
	}
	if len(words) == 1 {
		if !judged {
			return line{}, fmt.Errorf("%q has neither a verb nor a result", s)
		}
		return l, nil
	}
	l.verb = words[1]
	for _, w := range words[2:] {
		if name, value, ok := strings.Cut(w, "="); ok {
			l.options[name] = value
		} else {
			l.args = append(l.args, w)
		}
	}
	return l, nil
}

// agrees reports whether a result has the wanted words, its first in front.
func agrees(want []string, got string) bool {
	words := strings.Fields(got)
	if len(want) == 0 {
		return true
	}
	if len(words) == 0 || words[0] != want[0] {
		return false
	}
	have := make(map[string]bool, len(words))
	for _, w := range words {
		have[w] = true
	}
	for _, w := range want {
		if !have[w] {
			return false
		}
	}
	return true
}
