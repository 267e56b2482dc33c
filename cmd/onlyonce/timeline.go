package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

const (
	// longGap is a wait that a timeline draws, so that it is seen.
	longGap = time.Second

	eventWidth     = 12 // news_ignored
	stateWidth     = 15 // pending_unknown
	detailWidth    = columns - 55
	maxDetailLines = 4
)

// timeline draws a resource's events one below the other, with the time
// between them.
func timeline(resource string, events []payments.Event, p paint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n %s\n", p.bold("timeline of "+resource))
	for i, e := range events {
		since := ""
		if i > 0 {
			d := e.At.Sub(events[i-1].At)
			since = gap(d)
			if d >= longGap {
				fmt.Fprintf(&b, "  %s ┆\n", pad("", 21))
			}
		}
		detail := e.Detail
		if e.Attempt > 1 {
			detail = strings.TrimSpace(fmt.Sprintf("attempt %d: %s", e.Attempt, detail))
			detail = strings.TrimSuffix(detail, ":")
		}
		line := fmt.Sprintf("  %s %8s ● %s %s ", clock(e.At), since, pad(string(e.Type), eventWidth),
			p.state(string(e.State))+strings.Repeat(" ", max(0, stateWidth-len(e.State))))
		for i, part := range wrapped(detail, detailWidth, maxDetailLines) {
			if i > 0 {
				line = strings.Repeat(" ", columns-detailWidth)
			}
			b.WriteString(strings.TrimRight(line+part, " ") + "\n")
		}
	}
	if len(events) == 0 {
		b.WriteString("  nothing yet\n")
	}
	return b.String()
}

// eventRow is an event as programs get it.
type eventRow struct {
	At       time.Time `json:"at"`
	Resource string    `json:"resource"`
	Type     string    `json:"type"`
	State    string    `json:"state"`
	Attempt  int       `json:"attempt"`
	Detail   string    `json:"detail,omitempty"`
}

func eventRowsOf(events []payments.Event) []eventRow {
	rows := []eventRow{}
	for _, e := range events {
		rows = append(rows, eventRow{e.At.UTC(), e.Resource, string(e.Type), string(e.State), e.Attempt, e.Detail})
	}
	return rows
}
