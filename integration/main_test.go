package integration_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// program is the real program, built once for all tests.
var program string

const (
	// atOnce is how many tests run side by side. They mostly wait for leases,
	// so it is more than the processors of a small machine.
	atOnce = "6"

	// withRace, set to 1, builds the program with the race detector.
	withRace = "ONLYONCE_TEST_RACE"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(built(m))
}

func isSet(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// built builds the program into a folder of its own, runs the tests, and
// removes it.
func built(m *testing.M) int {
	dir, err := os.MkdirTemp("", "onlyonce")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "onlyonce")
	args := []string{"build", "-o", program}
	if os.Getenv(withRace) == "1" {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../cmd/onlyonce")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// look is the pause between two looks at something that a test waits for.
const look = 5 * time.Millisecond

// patience is how long a test waits for what should come at once: long, for a
// machine that does other things too.
const patience = slowness * 20 * time.Second

// eventually looks again and again until the condition holds. A test never
// waits a fixed time for something to have happened.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(look) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for: %s", within, what)
		}
	}
}
