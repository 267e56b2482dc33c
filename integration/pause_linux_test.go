package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// pause stops the process as a suspended machine does: no code of it runs.
func (p *process) pause() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatalf("pause %s: %v", p.name, err)
	}
	eventually(p.t, patience, p.name+" to stop", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatal(err)
		}
		// The state is the word after the command's name in parentheses.
		_, after, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(after, "T")
	})
}

// pause stops the owner while it does not hold the file's write lock, which on
// SQLite would stop every other server with it.
func (h *house) pause(owner server) {
	h.t.Helper()
	eventually(h.t, patience, "a pause outside of a sweep's transaction", func() bool {
		owner.pause()
		if h.db.free() {
			return true
		}
		owner.resume()
		return false
	})
}

// pauseFor stops a process in whatever it does, for so long.
func (p *process) pauseFor(long time.Duration) {
	p.t.Helper()
	p.pause()
	began := time.Now()
	eventually(p.t, long+patience, "the end of a pause", func() bool { return time.Since(began) > long })
	p.resume()
}

func (p *process) resume() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatalf("resume %s: %v", p.name, err)
	}
}

// choke is a process's standard error that can be stopped up. Whoever logs
// then waits in the middle of what it does: between two lines of the program
// there is a moment as long as the test likes.
type choke struct {
	t           *testing.T
	read, write *os.File
	log         *os.File
	idle        chan struct{} // closed when nothing reads any more
}

func newChoke(t *testing.T) *choke {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &choke{t: t, read: read, write: write, log: create(t, filepath.Join(t.TempDir(), "choked.log"))}
	c.open()
	t.Cleanup(func() {
		write.Close()
		<-c.idle // the process was killed before, so the pipe has ended
		read.Close()
		c.log.Close()
	})
	return c
}

// open lets the lines flow into the log.
func (c *choke) open() {
	_ = c.read.SetReadDeadline(time.Time{})
	c.idle = make(chan struct{})
	go func() {
		defer close(c.idle)
		_, _ = c.log.ReadFrom(c.read) // until shut, or the end of the pipe
	}()
}

// shut stops the flow and fills the pipe, so that the next line blocks.
func (c *choke) shut() {
	c.t.Helper()
	if err := c.read.SetReadDeadline(time.Unix(1, 0)); err != nil {
		c.t.Fatal(err)
	}
	<-c.idle
	fd := int(c.write.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		c.t.Fatal(err)
	}
	for _, piece := range []string{strings.Repeat("-", 4096), "-"} {
		for {
			if _, err := syscall.Write(fd, []byte(piece)); errors.Is(err, syscall.EAGAIN) {
				break
			} else if err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		c.t.Fatal(err)
	}
}

// pausedAt is a moment at which an owner is paused for longer than its lease.
type pausedAt struct {
	name string
	// reach sends the request to the owner and pauses it at the moment.
	reach func(h *house, r request) (owner server, answer <-chan reply)
	sends int // of the owner before the moment
}

// pausedBeforeSend: phase 1 is committed, and not a byte has gone out. The
// owner logs between the two; there it is caught.
func pausedBeforeSend(h *house, r request) (server, <-chan reply) {
	c := newChoke(h.t)
	owner := h.serveWith(spec{stderr: c.write})
	owner.log = c.log.Name()
	c.shut()
	answer := owner.sent(r)
	h.db.claimed(r.key)
	h.pause(owner)
	c.open()
	return owner, answer
}

// pausedBeforeAnswer: the request went out and the provider acted; the answer
// waits in the owner's socket.
func pausedBeforeAnswer(h *house, r request) (server, <-chan reply) {
	g := newGate()
	h.proxy.does(func(s *passage) {
		got := s.forward()
		if s.n > 1 || s.delay(g) {
			s.answer(got)
		}
	})
	owner := h.serve()
	answer := owner.sent(r)
	g.wait(h.t)
	h.pause(owner)
	g.open()
	h.proxy.settled(h.t)
	return owner, answer
}

// pausedBeforeCommit: the owner has read the answer and can't commit it yet.
func pausedBeforeCommit(h *house, r request) (server, <-chan reply) {
	g := newGate()
	h.proxy.does(func(s *passage) {
		got := s.forward()
		s.delay(g)
		s.answer(got)
	})
	owner := h.serve()
	answer := owner.sent(r)
	g.wait(h.t)
	unlock := h.db.lock()
	g.open()
	eventually(h.t, patience, "the provider's answer in the owner", func() bool {
		return owner.logged("provider call", "answer=succeeded") > 0
	})
	owner.pause() // it can't hold the write lock, which is ours
	unlock()
	return owner, answer
}

// Engine rules 4 and 5, case 57: an owner that comes back after its lease sends
// nothing, writes nothing, and answers from the stored row.
func TestPausedOwnerIsFenced(t *testing.T) {
	t.Parallel()
	grounds(t, testPausedOwnerIsFenced)
}

func testPausedOwnerIsFenced(t *testing.T, e engines.Engine) {
	for _, p := range []pausedAt{
		{"before the send", pausedBeforeSend, 0},
		{"before the answer", pausedBeforeAnswer, 1},
		{"before phase 2 commits", pausedBeforeCommit, 1},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			h := newHouseOn(t, e)
			r := payment("k-paused", "42", "tok_ok")
			owner, answer := p.reach(h, r)
			if n := h.proxy.arrived(); n != p.sends {
				t.Fatalf("the owner had sent %d times when it was paused, want %d", n, p.sends)
			}
			other := h.serve()
			got := other.final(r, lease+sweepEvery+slack)
			got.is(t, http.StatusCreated, "")
			sent, written, stored := h.proxy.arrived(), h.proxy.bytes.Load(), h.db.all()
			owner.resume()
			late := <-answer
			if late.status == http.StatusCreated {
				late.checkSame(t, got)
			} else {
				late.is(t, http.StatusAccepted, "")
			}
			owner.must(r).checkReplay(t, got)
			if n := h.proxy.arrived(); n != sent || h.proxy.bytes.Load() != written {
				t.Errorf("the owner has sent after its time: %d requests, %d bytes", n-sent, h.proxy.bytes.Load()-written)
			}
			if now := h.db.all(); now != stored {
				t.Errorf("the owner has written after its time; before:\n%s\nnow:\n%s", stored, now)
			}
			// It is fenced, or its wait for the writer was over before it had a turn.
			if owner.logged("taken over meanwhile, nothing written")+owner.logged("the answer could not be stored") != 1 {
				t.Error("the owner did not notice that its time was over")
			}
			h.moved("charge 2500")
			h.checkSends(r.key)
		})
	}
}
