package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// asProgram makes the test binary the program itself.
const asProgram = "ONLYONCE_TEST_AS_WITH"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
	}
	os.Exit(m.Run())
}

// program prepares a run of the program with a search path of its own.
func program(t *testing.T, want, path string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", engines.WantVariable+"="+want)
	if path != "" {
		cmd.Env = append(cmd.Env, "PATH="+path)
	}
	return cmd
}

func TestExitStatusIsTheCommands(t *testing.T) {
	for _, row := range []struct {
		want   string
		args   []string
		status int
		said   string
	}{
		{"", []string{"--only", "sqlite", "--", "/bin/sh", "-c", "exit 0"}, 0, "engines that ran: sqlite 3."},
		{"sqlite", []string{"--", "/bin/sh", "-c", "exit 7"}, 7, "engines that ran: sqlite 3."},
		{"oracle", []string{"--", "/bin/sh"}, statusUsage, `there is no engine "oracle"`},
		{"", []string{"--only", "sqlite"}, statusUsage, errUsage.Error()},
		{"", []string{"--only", "sqlite", "--up", "--", "/bin/sh"}, statusUsage, errUsage.Error()},
		{"", []string{"--only", "sqlite", "--", "/no/such/program"}, statusFailed, "/no/such/program"},
	} {
		cmd := program(t, row.want, "", row.args...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != row.status || !strings.Contains(string(out), row.said) {
			t.Errorf("%v with %q: status %d (%v), want %d and %q:\n%s", row.args, row.want, got, err, row.status, row.said, out)
		}
	}
}

// With nothing on the machine SQLite runs alone, and what does not run is told
// with its cure. Where an engine must be there, the command is not even run.
func TestMissingEngines(t *testing.T) {
	empty := t.TempDir()
	for _, row := range []struct {
		want   string
		status int
		ran    bool
	}{
		{"", 0, true},
		{"sqlite", 0, true},
		{"mysql", statusFailed, false},
		{"all", statusFailed, false},
	} {
		t.Run(row.want, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "ran")
			cmd := program(t, row.want, empty, "--unpack", "--", "/bin/sh", "-c", "echo > "+mark)
			out, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != row.status {
				t.Errorf("status %d (%v), want %d:\n%s", got, err, row.status, out)
			}
			if _, err := os.Stat(mark); errors.Is(err, os.ErrNotExist) == row.ran {
				t.Errorf("the command ran: %v, want %v:\n%s", err == nil, row.ran, out)
			}
			if row.want != "sqlite" && !strings.Contains(string(out), "NOT RUN: mysql: no MySQL: ") {
				t.Errorf("it does not say that MySQL is missing:\n%s", out)
			}
		})
	}
}

// A signal ends the command and the program, and its folder goes.
func TestSignalEndsAll(t *testing.T) {
	cmd := program(t, "", "", "--only", "sqlite", "--up")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(line), "export "+engines.FileVariable+"=")
	if !ok {
		t.Fatalf("it says %q, which a shell can't use", line)
	}
	if _, err := os.Stat(list); err != nil {
		t.Error("the file is not there while the servers are up:", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error("after a signal:", err)
	}
	if _, err := os.Stat(filepath.Dir(list)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there after the end: %v", filepath.Dir(list), err)
	}
}
