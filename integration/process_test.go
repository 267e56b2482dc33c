package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// Ports below the range that systems give to outgoing connections, so that
	// none of those takes one between the choice and its use.
	lowestPort, portAbove = 20000, 32768
	portTries             = 100

	logShown = 6000 // bytes of a log that a failed test shows
)

// freeAddress is a loopback address that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	defer listener.Close()
	return listener.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	for range portTries {
		port := lowestPort + rand.IntN(portAbove-lowestPort)
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return listener
		}
	}
	t.Fatal("there is no free port")
	return nil
}

// process is the program, running. Its output goes to files, so that the last
// lines of one that was killed are there to read.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	log    string
	stdout string
	exited chan struct{} // closed when it has ended
}

var processes atomic.Int64 // makes the names of logs differ

// spec is what a process is started with. Only args are needed.
type spec struct {
	dir    string   // where it runs; else a new folder
	env    []string // beside the test's own environment
	stderr *os.File // else a file
	args   []string
}

// start runs the program. The end of the test kills what still runs, and shows
// its log if the test failed.
func start(t *testing.T, s spec) *process {
	t.Helper()
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	p := &process{t: t, name: fmt.Sprintf("%s-%d", s.args[0], processes.Add(1)), exited: make(chan struct{})}
	p.log, p.stdout = filepath.Join(t.TempDir(), p.name+".log"), filepath.Join(t.TempDir(), p.name+".out")
	p.cmd = exec.Command(program, s.args...)
	p.cmd.Dir, p.cmd.Env = s.dir, append(bareEnvironment(), s.env...)
	if s.stderr == nil {
		s.stderr = create(t, p.log)
		defer s.stderr.Close()
	}
	stdout := create(t, p.stdout)
	defer stdout.Close()
	p.cmd.Stderr, p.cmd.Stdout = s.stderr, stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.exited)
	}()
	t.Cleanup(p.cleanUp)
	return p
}

// bareEnvironment is the test's own without settings of the program.
func bareEnvironment() []string {
	var env []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "ONLYONCE_") && !strings.HasPrefix(line, "STRIPE_") {
			env = append(env, line)
		}
	}
	return env
}

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (p *process) cleanUp() {
	p.kill()
	if p.t.Failed() {
		text := p.output(p.log)
		p.t.Logf("log of %s, its last %d bytes:\n%s", p.name, logShown, text[max(0, len(text)-logShown):])
	}
	if text := p.output(p.log); strings.Contains(text, "DATA RACE") {
		p.t.Errorf("%s has a data race:\n%s", p.name, text)
	}
}

// kill is kill -9. It comes back when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.exited
}

// end waits for the process to end by itself and returns its exit status.
func (p *process) end(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within):
		p.t.Fatalf("%s has not ended within %v", p.name, within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// terminate asks the process to stop.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) output(path string) string {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Errorf("read what %s wrote: %v", p.name, err)
	}
	text = bytes.ReplaceAll(text, bytes.Repeat([]byte("-"), 256), nil) // what choke has stuffed the pipe with
	return string(bytes.ToValidUTF8(text, []byte("?")))
}

// logged counts the log's lines that hold all of these texts.
func (p *process) logged(texts ...string) int {
	n := 0
	for line := range strings.Lines(p.output(p.log)) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			n++
		}
	}
	return n
}

// answers waits until the URL answers 200.
func (p *process) answers(url string) {
	p.t.Helper()
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(p.t, patience, p.name+" to answer "+url, func() bool {
		if !p.running() {
			p.t.Fatalf("%s has ended: %v\n%s", p.name, p.cmd.ProcessState, p.output(p.log))
		}
		resp, err := client.Get(url)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// command runs a command of the program to its end.
func command(t *testing.T, dir string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	p := start(t, spec{dir: dir, args: args})
	status = p.end(2 * patience)
	return status, p.output(p.stdout), p.output(p.log)
}
