package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// startWait bounds a server's coming up, ten times what it takes on two
	// busy processors.
	startWait = time.Minute

	// stopWait bounds a clean stop.
	stopWait = 30 * time.Second

	// pollEvery is how often a server that comes up is asked whether it is.
	pollEvery = 20 * time.Millisecond

	// logLines is how much of a server's log an error holds.
	logLines = 20
)

// Process is one server process.
type Process struct {
	name   string
	logs   []string // files, searched for the reason of a failure
	cmd    *exec.Cmd
	stop   syscall.Signal
	last   syscall.Signal
	ended  chan struct{} // closed when the process is gone
	result error         // of Wait, once ended is closed
}

// command is what startProcess starts.
type command struct {
	name    string
	cmd     *exec.Cmd
	account *Account
	log     string         // file that gets what it writes
	logs    []string       // other files that it writes
	stop    syscall.Signal // asks for a clean stop
	last    syscall.Signal // ends it at once, without leaving anything in the system's tables
}

func startProcess(c command) (*Process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	defer log.Close()
	c.cmd.Stdout, c.cmd.Stderr = log, log
	attach(c.cmd, c.account, c.last)
	p := &Process{name: c.name, logs: append(c.logs, c.log), cmd: c.cmd, stop: c.stop, last: c.last,
		ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The last signal comes when this thread ends, so it must last as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			p.result = c.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process is gone, for whatever reason.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits until the process is gone and returns how it ended.
func (p *Process) Wait() error {
	<-p.ended
	return p.result
}

// Kill ends the process, and what it has started, with kill -9, and waits
// until it is gone.
func (p *Process) Kill() error { return p.end(true, syscall.SIGKILL) }

// Discard ends a server whose data nobody needs any more, at once.
func (p *Process) Discard() error { return p.end(false, p.last) }

func (p *Process) end(group bool, sig syscall.Signal) error {
	if err := signal(p.cmd.Process, group, sig); err != nil && !gone(err) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopWait):
		return fmt.Errorf("%s is there %v after signal %d", p.name, stopWait, sig)
	}
}

func gone(err error) bool { return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) }

// Stop stops the server cleanly. One that does not stop is killed, and that is
// an error.
func (p *Process) Stop() error {
	err := p.end(false, p.stop)
	if err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, p.Tail()), p.Kill())
	}
	return nil
}

// Ready asks again and again until the server answers, and fails with the last
// lines of its log when it ends or takes too long.
func (p *Process) Ready(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended (%v) before it was ready:\n%s", p.name, p.result, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w):\n%s", p.name, err, context.Cause(ctx), p.Tail())
		case <-tick.C:
		}
	}
}

// Tail is the last lines of the server's logs.
func (p *Process) Tail() string {
	var text strings.Builder
	for _, path := range p.logs {
		raw, err := os.ReadFile(path)
		if err != nil || len(raw) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		fmt.Fprintf(&text, "--- %s\n%s\n", filepath.Base(path), strings.Join(lines[max(0, len(lines)-logLines):], "\n"))
	}
	return text.String()
}

// lostPort reports that another program took the port first.
func (p *Process) lostPort() bool {
	select {
	case <-p.ended:
		return strings.Contains(strings.ToLower(p.Tail()), "address already in use")
	default:
		return false
	}
}
