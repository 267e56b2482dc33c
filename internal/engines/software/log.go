package software

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Log tells a person what is being done, one short line per step.
type Log struct {
	// Out takes the lines.
	Out io.Writer

	// Now is the clock by which steps are timed, time.Now in programs.
	Now func() time.Time

	mu sync.Mutex
}

// Say writes a line.
func (l *Log) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.Out, "engines: "+format+"\n", args...)
}

// Step does something and says how long it took.
func (l *Log) Step(what string, do func() error) error {
	start := l.Now()
	err := do()
	seconds := l.Now().Sub(start).Seconds()
	if err != nil {
		l.Say("%s: failed after %.1f s", what, seconds)
		return fmt.Errorf("%s: %w", what, err)
	}
	l.Say("%s: %.1f s", what, seconds)
	return nil
}
