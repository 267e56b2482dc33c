package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// columns is how wide anything drawn may be: it fits a plain terminal.
const columns = 100

// paint colours words for people. The zero paint leaves them as they are.
type paint struct{ on bool }

// paintFor colours only what goes to a terminal, and never where NO_COLOR is
// set (no-color.org).
func (p *program) paintFor(w io.Writer) paint {
	if value, set := p.env("NO_COLOR"); set && value != "" {
		return paint{}
	}
	if term, _ := p.env("TERM"); term == "dumb" {
		return paint{}
	}
	file, ok := w.(*os.File)
	if !ok {
		return paint{}
	}
	info, err := file.Stat()
	return paint{on: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p paint) wrap(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.wrap("1", s) }
func (p paint) dim(s string) string    { return p.wrap("2", s) }
func (p paint) red(s string) string    { return p.wrap("31", s) }
func (p paint) green(s string) string  { return p.wrap("32", s) }
func (p paint) yellow(s string) string { return p.wrap("33", s) }
func (p paint) cyan(s string) string   { return p.wrap("36", s) }

// state colours a payment's, refund's or key's state by what it means.
func (p paint) state(s string) string {
	switch s {
	case "succeeded", "completed":
		return p.green(s)
	case "failed", "tombstone":
		return p.red(s)
	}
	return p.yellow(s)
}

// pad fills s with spaces up to width characters.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// clip cuts s to width characters and marks the cut. Control characters are
// shown as escapes first, so that stored text can't move the cursor.
func clip(s string, width int) string {
	s = visible(s)
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "…"
}

// visible shows what a terminal would obey.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e ||
			r >= 0x2066 && r <= 0x2069 {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// clock writes a time of day with milliseconds, for lines that belong to one day.
func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("15:04:05.000")
}

// moment writes a time in full.
func moment(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

// gap writes how much later something happened: "+3 ms", "+4.21 s", "+2 h".
func gap(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("+%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("+%.2f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("+%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("+%.0f h", d.Hours())
	}
	return fmt.Sprintf("+%.0f days", d.Hours()/24)
}

// plural writes a count with its noun: "1 key", "2 keys".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// broken cuts a text into lines of a width, character by character, so that
// nothing is added or lost; what is left over after the last is marked.
func broken(text string, width, most int) []string {
	runes := []rune(visible(text))
	var lines []string
	for len(runes) > width && len(lines) < most-1 {
		lines = append(lines, string(runes[:width]))
		runes = runes[width:]
	}
	return append(lines, clip(string(runes), width))
}

// wrapped cuts a text for people into lines, between words where it can.
func wrapped(text string, width, most int) []string {
	runes := []rune(visible(text))
	var lines []string
	for len(runes) > width && len(lines) < most-1 {
		at := width
		for i := width; i > 0; i-- {
			if runes[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(runes[:at]))
		runes = []rune(strings.TrimLeft(string(runes[at:]), " "))
	}
	return append(lines, clip(string(runes), width))
}
