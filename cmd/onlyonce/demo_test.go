package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// demonstrate runs the demo as a process with a temporary folder of its own.
func demonstrate(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"demo"}, args...)...)
	// What would configure a server must not reach the demo's.
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "ONLYONCE_LEASE=1s", "ONLYONCE_PROVIDER=stripe")
	return cmd, dir
}

func leftIn(t *testing.T, dir string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "onlyonce-demo-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestDemo(t *testing.T) {
	t.Parallel()
	cmd, dir := demonstrate(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(out)
	says(t, text, "kill -9", "hangs up", "422", "409 Conflict", "202 Accepted", "Idempotent-Replayed: true",
		"6 intents, 6 entries in the ledger. One charge each.")
	if n := strings.Count(text, "│ 1       │\n"); n != 6 {
		t.Errorf("%d intents have one charge, want 6:\n%s", n, text)
	}
	for line := range strings.Lines(text) {
		// The second line names a folder, which is as long as it is.
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns && !strings.HasPrefix(line, " server ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDemoForPrograms(t *testing.T) {
	t.Parallel()
	cmd, dir := demonstrate(t, "--json", "--keep")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var steps []map[string]any
	for line := range strings.Lines(string(out)) {
		var step map[string]any
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		steps = append(steps, step)
	}
	if len(steps) != len(acts())+2 || steps[len(steps)-2]["once"] != true {
		t.Errorf("%d objects, the last but one %v", len(steps), steps[len(steps)-2])
	}
	if left := leftIn(t, dir); len(left) != 1 || steps[len(steps)-1]["kept"] != left[0] {
		t.Errorf("--keep left %v and said %v", left, steps[len(steps)-1])
	}
}

// ctrl-C ends the server, by its process id, and removes the folder.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	cmd, dir := demonstrate(t)
	out := watch("tok_slow")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, out.seen, "the third act, in which a request runs for three seconds")
	_, address, _ := strings.Cut(out.String(), "server http://")
	address, _, _ = strings.Cut(address, " ")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("it ended with %v", err)
	}
	says(t, out.String(), "interrupted")
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// Only a look: a request would make an orphan write its log, and so end.
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Errorf("the server still runs at %s", address)
	}
}

// A second charge, a missing one and one that belongs to nobody are all told.
func TestVerdictOfTheDemo(t *testing.T) {
	entry := func(payment string) ledgerEntry {
		return ledgerEntry{Type: "charge", Metadata: map[string]string{"onlyonce_payment": payment}}
	}
	for name, test := range map[string]struct {
		ledger []ledgerEntry
		once   bool
	}{
		"one each":    {[]ledgerEntry{entry("pay_a"), entry("pay_b")}, true},
		"two for one": {[]ledgerEntry{entry("pay_a"), entry("pay_a"), entry("pay_b")}, false},
		"none":        {[]ledgerEntry{entry("pay_a")}, false},
		"nobody's":    {[]ledgerEntry{entry("pay_a"), entry("pay_b"), entry("pay_c")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			d := &demo{
				out: &storyteller{to: &out}, ledger: test.ledger, played: []*intent{{payment: "pay_a"}, {payment: "pay_b"}},
			}
			err := d.judge()
			var found finding
			if errors.As(err, &found) == test.once {
				t.Errorf("the verdict is %v", err)
			}
			if strings.Contains(out.String(), "One charge each") != test.once {
				t.Errorf("it says:\n%s", out.String())
			}
		})
	}
}

func TestSandboxByItself(t *testing.T) {
	address, file := freeAddress(t), filepath.Join(t.TempDir(), "sandbox.db")
	ctx, cancel := context.WithCancel(t.Context())
	out := watch("A server that uses it")
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"sandbox", "--listen", address, "--sandbox-db", file, "--sandbox-key-window", "48m"},
			lookup(nil), out, watch("nothing"))
	}()
	await(t, out.seen, "the sandbox")
	says(t, out.String(), "http://"+address+"/sandbox/ledger", file, "--stripe-url http://"+address,
		"--provider-key-window 46m")
	s := serving(t, newDB(t), "--provider", "stripe", "--stripe-url", "http://"+address, "--stripe-key", "sk_test_any",
		"--account", "shop="+ownKey, "--provider-key-window", "46m")
	if code, answer := charge(t, s.base, ownKey, "k", "tok_ok"); code != 201 || answer["livemode"] != false {
		t.Errorf("%d %v", code, answer)
	}
	if got := status(t, s.base+"/sandbox/ledger"); got != 404 {
		t.Errorf("another process's ledger is %d", got)
	}
	s.end(t)
	cancel()
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("exit status %d", code)
		}
	case <-time.After(atMost):
		t.Fatal("the sandbox does not stop")
	}
}
