package scenario

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The classes of errors: the same words on every engine.
const (
	errDuplicate     = "duplicate"     // the row exists
	errDeadlock      = "deadlock"      // the engine gave up on this transaction to end a circle
	errLockTimeout   = "lock timeout"  // somebody held a lock for too long
	errBusy          = "busy"          // SQLite: somebody else writes
	errSerialization = "serialization" // what was read has changed meanwhile
	errAborted       = "aborted"       // the transaction has failed before and takes no more statements
	errInFlight      = "in flight"     // of do: the original did not end in time
	errMismatch      = "mismatch"      // of do: the key belongs to another intent
	errOther         = "other"
)

func errorWords() []string {
	return []string{errDuplicate, errDeadlock, errLockTimeout, errBusy, errSerialization, errAborted, errInFlight,
		errMismatch, errOther}
}

const (
	pausedWord      = "paused"      // the effect of do has run and stands still before COMMIT
	rolledBackWords = "rolled back" // the answer to a COMMIT
	nothingWord     = "nothing"     // no answer came in time
)

// result is what came of a step.
type result struct {
	words  string     // empty for a table
	cells  [][]string // the names of the columns, then the rows
	detail string     // the engine's own words, or who is waited for
}

// said makes a result of a few words.
func said(words string) result { return result{words: words} }

// failed makes the result of an error.
func failed(class, detail string) result { return result{"error " + class, nil, detail} }

// fault reports whether a step with this result went wrong unless the file
// expects just that.
func (r result) fault() bool {
	return r.words == nothingWord || r.words == rolledBackWords || strings.HasPrefix(r.words, "error ")
}

// counted is a number of rows in words.
func counted(n int64) string {
	switch n {
	case 0:
		return "no rows"
	case 1:
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// lines is the result as a scenario file would have it.
func (r result) lines() []string {
	if r.cells == nil {
		return []string{r.words}
	}
	widths := make([]int, len(r.cells[0]))
	for _, row := range r.cells {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range r.cells {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteString(" | ")
			}
			b.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// is reports whether the result is the expected one. A few words may leave out
// what follows them, and a number of rows stands for any such rows.
func (r result) is(lines []string) bool {
	if len(lines) > 1 {
		return slices.EqualFunc(r.cells, lines, func(row []string, line string) bool {
			return slices.Equal(row, cellsOf(line))
		})
	}
	if r.cells != nil {
		return lines[0] == counted(int64(len(r.cells)-1))
	}
	return r.words == lines[0] || strings.HasPrefix(r.words, lines[0]+" ")
}

// cellsOf cuts a line of a table.
func cellsOf(line string) []string {
	cells := strings.Split(line, "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// shared reports whether the results, as many as were expected, can be dealt
// out so that each is one of those.
func shared(wants []string, got []result) bool {
	left := slices.Clone(got)
	// The longest first: "done" would also take what "done 201" waits for.
	sorted := slices.SortedFunc(slices.Values(wants), func(a, b string) int { return len(b) - len(a) })
	for _, w := range sorted {
		i := slices.IndexFunc(left, func(r result) bool { return r.is([]string{w}) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}
