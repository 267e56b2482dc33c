package integration_test

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// wire stands between the servers and their database. It can be cut.
type wire struct {
	t        *testing.T
	address  string
	target   string
	listener net.Listener

	mu    sync.Mutex
	lines map[*line]bool
	down  bool
	fate  func(piece []byte) fateOfPiece
}

// line is one connection: both of its halves.
type line struct {
	near, far net.Conn
	deaf      bool // the next piece from the database is not delivered any more
}

// fateOfPiece is what becomes of a piece on its way to the database.
type fateOfPiece int

const (
	arrives fateOfPiece = iota
	isLost              // every connection is cut, and the piece with them
	isDone              // it arrives, and every connection is cut before its answer does
)

// behindWire is a house whose servers reach their database over a wire; the
// test looks at it around the wire.
func behindWire(t *testing.T, e engines.Engine) (*house, *wire) {
	t.Helper()
	h := newHouseOn(t, e)
	u, err := url.Parse(h.store[1])
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, target: u.Host, listener: listen(t), lines: map[*line]bool{}}
	w.address = w.listener.Addr().String()
	go w.serve()
	t.Cleanup(func() {
		w.listener.Close()
		w.cut()
	})
	u.Host = w.address
	h.use(u.String(), h.db)
	return h, w
}

func (w *wire) serve() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return // the test is over
		}
		w.mu.Lock()
		down := w.down
		w.mu.Unlock()
		far, err := net.Dial("tcp", w.target)
		if down || err != nil {
			reset(near)
			if err == nil {
				far.Close()
			}
			continue
		}
		l := &line{near: near, far: far}
		w.mu.Lock()
		w.lines[l] = true
		w.mu.Unlock()
		go w.carry(l, near, far, w.toDatabase)
		go w.carry(l, far, near, w.fromDatabase)
	}
}

// maxPiece is more than any statement of ours: one piece is one of them, or its
// answer.
const maxPiece = 64 << 10

// carry moves pieces from one half of a line to the other until it is cut.
func (w *wire) carry(l *line, from, to net.Conn, pass func(l *line, to net.Conn, piece []byte)) {
	buffer := make([]byte, maxPiece)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			pass(l, to, buffer[:n])
		}
		if err != nil {
			w.hangUp(l)
			return
		}
	}
}

func (w *wire) toDatabase(l *line, to net.Conn, piece []byte) {
	w.mu.Lock()
	fate := arrives
	if w.fate != nil {
		fate = w.fate(piece)
	}
	l.deaf = l.deaf || fate == isDone
	w.mu.Unlock()
	if fate == isLost {
		w.cut()
		return
	}
	_, _ = to.Write(piece) // it may have been cut meanwhile
}

func (w *wire) fromDatabase(l *line, to net.Conn, piece []byte) {
	w.mu.Lock()
	deaf := l.deaf
	w.mu.Unlock()
	if deaf {
		w.cut()
		return
	}
	_, _ = to.Write(piece)
}

// cut breaks every connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lines {
		reset(l.near)
		l.far.Close() // what has arrived is still read and done
		delete(w.lines, l)
	}
}

func (w *wire) hangUp(l *line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.near.Close()
	l.far.Close()
	delete(w.lines, l)
}

// goesDown cuts everything and lets nothing through until comesUp.
func (w *wire) goesDown() {
	w.setDown(true)
	w.cut()
}

func (w *wire) comesUp() { w.setDown(false) }

func (w *wire) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// isCutAtRandom cuts the wire at some of the COMMITs, before they arrive or
// before their answer does, and now and then anywhere else, at most so often.
// It returns what counts the cuts: all of them, and those after a COMMIT had
// arrived.
func (w *wire) isCutAtRandom(random *rand.Rand, most int) (count func() (all, afterCommit int)) {
	const commits, others = 6, 300 // one in so many
	all, after := 0, 0
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fate = func(piece []byte) fateOfPiece {
		commit := bytes.Contains(piece, []byte("COMMIT"))
		switch {
		case all >= most:
			return arrives
		case commit && random.IntN(commits) == 0:
			all++
			if random.IntN(2) == 0 {
				return isLost
			}
			after++
			return isDone
		case !commit && random.IntN(others) == 0:
			all++
			return isLost
		}
		return arrives
	}
	return func() (int, int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return all, after
	}
}
