package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// storyteller writes what happens, for people or for programs.
type storyteller struct {
	to    io.Writer
	paint paint
	json  bool
	began time.Time
	act   actLine
}

// actLine is one act as programs get it.
type actLine struct {
	Step  int         `json:"step"`
	Title string      `json:"title"`
	Lines []storyLine `json:"lines"`
}

// storyLine is one thing that happened.
type storyLine struct {
	At     float64 `json:"at"` // seconds since the demo began
	Who    string  `json:"who"`
	What   string  `json:"what"`
	Detail string  `json:"detail"`
}

const (
	whoWidth  = 9  // "to first"
	whatWidth = 24 // "422 Unprocessable Entity"
	saidWidth = columns - 2 - 9 - 2 - whoWidth - 1 - whatWidth - 1
)

func (s *storyteller) title(k *child, dir string) {
	if s.json {
		return
	}
	fmt.Fprintf(s.to, "\n %s\n %s\n",
		s.paint.bold("onlyonce demo: one charge per intent, whatever happens to the request"),
		s.paint.dim(fmt.Sprintf("server %s   files %s   lease %v, provider timeout %v", k.base, dir,
			demoLease, demoProviderTimeout)))
}

// begin opens an act.
func (s *storyteller) begin(title, why string) {
	s.act = actLine{Step: s.act.Step + 1, Title: title}
	if !s.json {
		fmt.Fprintf(s.to, "\n %s  %s\n", s.paint.bold(strconv.Itoa(s.act.Step)+"  "+title), s.paint.dim("– "+why))
	}
}

// say tells one thing.
func (s *storyteller) say(who, what, detail string) {
	at := time.Since(s.began).Seconds()
	if s.json {
		s.act.Lines = append(s.act.Lines, storyLine{At: at, Who: who, What: what, Detail: detail})
		return
	}
	line := fmt.Sprintf("  %7.3f s  %s %s %s", at, s.paint.cyan(pad(who, whoWidth)),
		s.look(who, what, pad(clip(what, whatWidth), whatWidth)), clip(detail, saidWidth))
	fmt.Fprintln(s.to, strings.TrimRight(line, " "))
}

// look colours what happened by what it means.
func (s *storyteller) look(who, what, text string) string {
	switch {
	case strings.HasPrefix(what, "201"), what == "1 charge", what == "completed":
		return s.paint.green(text)
	case what == "killed", what == "hangs up", what == "no answer":
		return s.paint.red(text)
	case who == "ledger":
		return s.paint.red(text) // neither one charge nor on its way to be
	case strings.HasPrefix(what, "4"), strings.HasPrefix(what, "202"), what == "in_progress":
		return s.paint.yellow(text)
	}
	return text
}

// endAct writes the act for programs.
func (s *storyteller) endAct() {
	if s.json {
		_ = writeJSON(s.to, s.act) // a reader that has gone needs no more of it
	}
}

// chargeLine is one row of the table as programs get it.
type chargeLine struct {
	Account  string   `json:"account"`
	Key      string   `json:"key"`
	Payment  string   `json:"payment"`
	Requests int      `json:"requests"`
	Answers  []string `json:"answers"`
	Charges  int      `json:"charges"`
}

// table ends the demo: charges per intent, out of the provider's ledger.
func (s *storyteller) table(played []*intent, entries int, once bool) {
	if s.json {
		lines := []chargeLine{}
		for _, in := range played {
			lines = append(lines, chargeLine{in.account, in.key, in.payment, in.asked, in.answers, in.charges})
		}
		_ = writeJSON(s.to, struct {
			Charges []chargeLine `json:"charges"`
			Entries int          `json:"ledgerEntries"`
			Once    bool         `json:"once"`
		}{lines, entries, once})
		return
	}
	fmt.Fprintf(s.to, "\n %s\n", s.paint.bold("Charges per intent, from the provider's ledger"))
	fmt.Fprint(s.to, s.charges(played))
	word := s.paint.green("One charge each.")
	if !once {
		word = s.paint.red("NOT one charge each: this is a bug, please report it with the output above.")
	}
	fmt.Fprintf(s.to, " %s, %s in the ledger. %s\n\n", plural(len(played), "intent", "intents"),
		plural(entries, "entry", "entries"), word)
}

func (s *storyteller) charges(played []*intent) string {
	b := box{
		widths: []int{7, 11, 24, 8, 22, 7},
		head:   []string{"account", "key", "what happened", "requests", "answers", "charges"},
	}
	for _, in := range played {
		b.rows = append(b.rows, []string{
			in.account, in.key, in.story, strconv.Itoa(in.asked), strings.Join(slices.Compact(in.answers), ", "),
			strconv.Itoa(in.charges),
		})
	}
	last := len(b.widths) - 1
	b.look = func(row, column int, cell string) string {
		switch {
		case row < 0:
			return s.paint.bold(cell)
		case column != last:
			return cell
		case b.rows[row][last] == "1":
			return s.paint.green(cell)
		}
		return s.paint.red(cell)
	}
	return b.String()
}

func (s *storyteller) kept(dir string) {
	if s.json {
		_ = writeJSON(s.to, map[string]string{"kept": dir})
		return
	}
	fmt.Fprintf(s.to, " The files are in %s. Look at a key with\n   onlyonce keys show %s order-1004 --db %s\n\n",
		dir, demoShop, shellQuoted(demoDB(dir)))
}
