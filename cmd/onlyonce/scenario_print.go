package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/onlyonce-go/onlyonce/scenario"
)

// scenarioPrinter writes a transcript, which looks like the scenario's file.
type scenarioPrinter struct {
	to     io.Writer
	paint  paint
	script *scenario.Script

	steps  int
	setUp  bool // the tables have been shown
	gap    bool // the next step stands under an empty line
	errors []error
}

// scenarioIndent is how far what belongs to a line stands under it.
const scenarioIndent = "   "

// mostLines bounds one text of a transcript; a statement of a file has few.
const mostLines = 50

func (o *scenarioPrinter) line(indent, text string, colour func(string) string) {
	_, err := fmt.Fprintln(o.to, indent+colour(text))
	o.errors = append(o.errors, err)
}

// text writes a text of several lines: the first behind a head, the others
// under an indent.
func (o *scenarioPrinter) text(head, indent, text string, colour func(string) string) {
	for raw := range strings.Lines(text) {
		for _, l := range wrapped(strings.TrimSuffix(raw, "\n"), columns-len(indent), mostLines) {
			o.line(head, l, colour)
			head = indent
		}
	}
}

func asIs(s string) string { return s }

// event writes what happened.
func (o *scenarioPrinter) event(e scenario.Event) {
	switch e.Kind {
	case scenario.KindScenario:
		o.line("", e.Text+", on "+e.Engine, o.paint.bold)
		o.text("", "", o.script.Title, asIs)
		o.text("\n", "", o.script.About, asIs)
	case scenario.KindSection:
		o.line("\n", "== "+e.Text, o.paint.bold)
		o.gap = true
	case scenario.KindSetup:
		o.setup(e)
	case scenario.KindComment:
		o.text("\n# ", "# ", e.Text, o.paint.dim)
		o.gap = false
	case scenario.KindStep:
		o.step(e)
	}
}

// setup shows the tables once: each section begins with the same.
func (o *scenarioPrinter) setup(e scenario.Event) {
	if o.steps > 0 {
		return
	}
	if !o.setUp {
		o.line("\n", "setup:", asIs)
	}
	o.setUp = true
	o.text("  ", "    ", e.Text+";", asIs)
}

func (o *scenarioPrinter) step(e scenario.Event) {
	o.steps++
	who := o.paint.cyan(e.Session)
	if o.gap {
		who, o.gap = "\n"+who, false
	}
	arrow := scenarioIndent + "-> "
	switch {
	case e.Text == "":
		arrow = who + " -> "
	case e.Statement:
		o.text(who+": ", scenarioIndent, e.Text, asIs)
	default:
		o.text(who+" ", scenarioIndent, e.Text, asIs)
	}
	o.result(arrow, e)
	if len(e.Want) > 0 {
		o.line(scenarioIndent, fmt.Sprintf("expected (line %d):", e.WantLine), o.paint.red)
		for _, l := range e.Want {
			o.line(scenarioIndent+scenarioIndent, l, o.paint.red)
		}
	}
}

// result writes what came of a step, and the engine's own words for it.
func (o *scenarioPrinter) result(arrow string, e scenario.Event) {
	under := scenarioIndent + scenarioIndent
	if len(e.Result) == 1 && len(arrow+e.Result[0]+e.Detail) < columns/2 && e.Detail != "" {
		o.line(arrow, o.colour(e.Result[0])+o.paint.dim("  "+visible(e.Detail)), asIs)
		return
	}
	for _, l := range e.Result {
		o.line(arrow, visible(l), o.colour)
		arrow = under
	}
	o.text(under, under, e.Detail, o.paint.dim)
}

// colour paints a result by what it means.
func (o *scenarioPrinter) colour(result string) string {
	switch first, _, _ := strings.Cut(result, " "); first {
	case "waits", "paused":
		return o.paint.yellow(result)
	case "error", "failed", "gone", "rolled":
		return o.paint.red(result)
	}
	return result
}

// json writes an event for programs.
func (o *scenarioPrinter) json(e scenario.Event) {
	if e.Kind == scenario.KindStep {
		o.steps++
	}
	o.errors = append(o.errors, writeJSON(o.to, e))
}

// scenarioEnd is the last line for programs.
type scenarioEnd struct {
	Kind  string `json:"kind"` // "end"
	OK    bool   `json:"ok"`
	Steps int    `json:"steps"`
}

// end writes how it ended, and returns what could not be written.
func (o *scenarioPrinter) end(json, ok bool) error {
	switch {
	case json:
		o.errors = append(o.errors, writeJSON(o.to, scenarioEnd{"end", ok, o.steps}))
	case ok:
		o.line("\n", plural(o.steps, "step", "steps")+", each as expected.", o.paint.green)
	default:
		o.line("\n", fmt.Sprintf("Step %d went otherwise than expected.", o.steps), o.paint.red)
	}
	return errors.Join(o.errors...)
}
