package clusters_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// rounds is how often a test strikes: the environment says it, because a
// person's run is longer than one of every change.
func rounds(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: it must be a number from 1 on", variable, text)
	}
	return n
}

const (
	// patience is how long one intent may take, failovers included: many times
	// what the slowest cluster needs to notice that a node is gone.
	patience = 90 * time.Second
	look     = 5 * time.Millisecond // between two looks at what a test waits for
	retry    = 20 * time.Millisecond
)

// eventually looks again and again until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(look) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for: %s", patience, what)
		}
	}
}
