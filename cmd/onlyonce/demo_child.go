package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	childReady = 20 * time.Second      // to open its files and listen, on a busy machine
	lookEvery  = 20 * time.Millisecond // between looks at something that is about to happen
	keptLog    = 4 << 10               // bytes of the server's log, shown if it fails
)

// child is the server that the demo starts and kills.
type child struct {
	base string // its URL
	db   string // its --db
	args []string
	dir  string
	tail *tailWriter
	log  io.Writer

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// newChild chooses a port for it; nothing is started.
func newChild(ctx context.Context, db, dir string, log io.Writer) (*child, error) {
	listener, err := listenLoopback(ctx)
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	k := &child{base: "http://" + address, db: db, dir: dir, tail: &tailWriter{}}
	k.log = k.tail
	if log != nil {
		k.log = io.MultiWriter(k.tail, log)
	}
	k.args = []string{
		"serve", "--listen", address,
		"--account", demoShop + "=" + demoKey(demoShop), "--account", demoOther + "=" + demoKey(demoOther),
		"--lease", demoLease.String(), "--provider-timeout", demoProviderTimeout.String(),
		"--commit-wait", demoCommitWait.String(), "--sweep-every", demoSweepEvery.String(),
	}
	return k, nil
}

// start runs the server and waits until it is ready.
func (k *child) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	k.cmd = exec.Command(self, k.args...)
	k.cmd.Dir, k.cmd.Stderr = k.dir, k.log
	// Other users can read a process's arguments, and the URL may hold a password.
	k.cmd.Env = append(plainEnvironment(os.Environ()), "ONLYONCE_DB="+k.db)
	if err := k.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	k.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // how it ends is seen by kill and start
		close(done)
	}(k.cmd, k.done)
	err = eventually(ctx, childReady, func() (bool, error) {
		select {
		case <-k.done:
			return false, errors.New("the server has ended:\n" + k.lastLog())
		default:
			return k.answers(ctx), nil
		}
	})
	if err != nil {
		return fmt.Errorf("wait for the server: %w", err)
	}
	return nil
}

func (k *child) answers(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.base+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (k *child) kill() error {
	if k.cmd == nil || k.cmd.Process == nil {
		return nil
	}
	err := k.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-k.done:
	case <-time.After(demoCleanup):
		return errors.Join(err, fmt.Errorf("process %d does not end", k.cmd.Process.Pid))
	}
	return err
}

func (k *child) pid() int { return k.cmd.Process.Pid }

func (k *child) lastLog() string { return k.tail.String() }

// plainEnvironment leaves out what would configure the demo's server.
func plainEnvironment(all []string) []string {
	var kept []string
	for _, e := range all {
		if !strings.HasPrefix(e, "ONLYONCE_") && !strings.HasPrefix(e, "STRIPE_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (t *tailWriter) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - keptLog; over > 0 {
		t.buf = bytes.Clone(t.buf[over:])
	}
	return len(b), nil
}

// String returns the end.
func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// eventually looks again and again until what is awaited has happened.
func eventually(ctx context.Context, most time.Duration, look func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		if ok, err := look(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it has not happened within %v", most)
		case <-time.After(lookEvery):
		}
	}
}
