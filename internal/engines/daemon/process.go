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
	spec   Spec
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is gone
	result error         // of Wait, once ended is closed
}

func startProcess(spec Spec, cmd *exec.Cmd) (*Process, error) {
	log, err := os.OpenFile(spec.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	spec.place(cmd)
	p := &Process{spec: spec, cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The last signal comes when this thread ends, so it must last as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.result = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return p, nil
}

func (spec Spec) log() string { return filepath.Join(spec.Dir, "log") }

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
func (p *Process) Discard() error { return p.end(false, p.spec.Last) }

func (p *Process) end(group bool, sig syscall.Signal) error {
	if err := signal(p.cmd.Process, group, sig); err != nil && !gone(err) {
		return fmt.Errorf("end %s: %w", p.spec.Name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopWait):
		return fmt.Errorf("%s is there %v after signal %d", p.spec.Name, stopWait, sig)
	}
}

func gone(err error) bool { return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) }

// Stop stops the server cleanly. One that does not stop is killed, and that is
// an error.
func (p *Process) Stop() error {
	err := p.end(false, p.spec.Stop)
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
			return fmt.Errorf("%s ended (%v) before it was ready:\n%s", p.spec.Name, p.result, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w):\n%s", p.spec.Name, err, context.Cause(ctx), p.Tail())
		case <-tick.C:
		}
	}
}

// Tail is the last lines of the server's log.
func (p *Process) Tail() string {
	text, err := os.ReadFile(p.spec.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-logLines):], "\n")
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
