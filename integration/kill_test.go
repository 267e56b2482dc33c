package integration_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// crash is a moment in the life of a request at which the server is killed.
type crash struct {
	name string
	// prepare runs before the request and returns what waits for the moment,
	// and what lets the world go on after the kill.
	prepare func(h *house, s server, r request) (reach, after func())
	moved   bool // the money has moved at the provider by then
}

func nothing() {}

// crashes are the moments for a provider in a process of its own.
func crashes() []crash {
	return []crash{
		{"after phase 1, nothing forwarded", crashClaimed, false},
		{"the request was written, and arrives after the restart", crashLate, false},
		{"the provider acted, its answer is under way", crashActed, true},
		{"the answer came, phase 2 can't commit", crashAnswered, true},
		{"after phase 2", crashCommitted, true},
	}
}

func crashClaimed(h *house, _ server, r request) (reach, after func()) {
	g := newGate()
	h.proxy.does(func(s *passage) { s.hold(g) })
	return func() { g.wait(h.t); h.db.claimed(r.key) }, h.proxy.passes
}

// crashLate lets the first send loose once the restarted server's own has
// come: the network may deliver in any order.
func crashLate(h *house, _ server, r request) (reach, after func()) {
	g := newGate()
	h.proxy.does(func(s *passage) {
		if s.delay(g) {
			s.forward()
		}
	})
	return func() { g.wait(h.t); h.db.claimed(r.key) }, func() {
		h.proxy.does(func(s *passage) {
			got := s.forward()
			g.open()
			s.answer(got)
		})
	}
}

func crashActed(h *house, _ server, r request) (reach, after func()) {
	g := newGate()
	h.proxy.does(func(s *passage) {
		got := s.forward()
		if s.hold(g) {
			s.answer(got)
		}
	})
	return func() { g.wait(h.t); h.db.claimed(r.key) }, h.proxy.passes
}

func crashAnswered(h *house, s server, r request) (reach, after func()) {
	g := newGate()
	h.proxy.does(func(s *passage) {
		got := s.forward()
		s.hold(g)
		s.answer(got)
	})
	return func() {
			g.wait(h.t)
			release := h.db.lock()
			seen := s.logged("provider call", "answer=succeeded")
			g.open()
			eventually(h.t, patience, "the provider's answer in the server", func() bool {
				return s.logged("provider call", "answer=succeeded") > seen
			})
			h.db.claimed(r.key) // still: the lock keeps phase 2 out
			s.kill()
			release()
		}, func() {
			h.proxy.passes()
		}
}

func crashCommitted(h *house, _ server, r request) (reach, after func()) {
	return func() { h.db.finished(r.key) }, nothing
}

// Promises P1, P2, P3, P4 and P6, case 52: whenever the server dies, the same
// request ends in one charge and one answer, within the lease and one sweep.
func TestKilledServerPaysOnce(t *testing.T) {
	t.Parallel()
	grounds(t, func(t *testing.T, e engines.Engine) {
		for _, c := range crashes() {
			t.Run("payment/"+c.name, func(t *testing.T) {
				t.Parallel()
				h := newHouseOn(t, e)
				s := h.serve()
				r := payment("k-pay", "42", "tok_ok")
				s = h.crashAndCheck(s, c, r, nil, "charge 2500")
				got := s.get("/payments?orderId=42")["data"].([]any)
				if len(got) != 1 {
					t.Errorf("the order has %d payments", len(got))
				}
			})
		}
	})
}

// The same for refunds, P8 included.
func TestKilledServerRefundsOnce(t *testing.T) {
	t.Parallel()
	grounds(t, func(t *testing.T, e engines.Engine) {
		for _, c := range crashes() {
			t.Run("refund/"+c.name, func(t *testing.T) {
				t.Parallel()
				h := newHouseOn(t, e)
				s := h.serve()
				paid := s.final(payment("k-pay", "42", "tok_ok"), patience).object(t)
				id := paid["id"].(string)
				s = h.crashAndCheck(s, c, refund(id, "k-refund", 1000), []string{"charge 2500"}, "refund 1000")
				p := s.get("/payments/" + id)
				if p["refunded"] != 1000.0 || p["refundable"] != 1500.0 {
					t.Errorf("refunded %v, refundable %v", p["refunded"], p["refundable"])
				}
			})
		}
	})
}

// crashAndCheck sends the request, kills the server at the moment, starts
// another on the same database, and is the client until the end.
func (h *house) crashAndCheck(s server, c crash, r request, before []string, moves string) server {
	t := h.t
	t.Helper()
	reach, after := c.prepare(h, s, r)
	first := s.sent(r)
	reach()
	s.kill()
	seen := <-first // no answer, or the whole of it
	want := before
	if c.moved {
		want = append(want, moves)
	}
	h.moved(want...)
	after()
	s = h.serve()
	began := time.Now()
	got := s.final(r, lease+sweepEvery+slack)
	t.Logf("final %v after the restart", time.Since(began).Round(time.Millisecond))
	got.is(t, http.StatusCreated, "")
	if got.status == seen.status {
		got.checkReplay(t, seen)
	}
	s.must(r).checkReplay(t, got)
	h.proxy.settled(t)
	h.moved(append(before, moves)...)
	h.checkSends(r.key)
	return s
}

// checkSends holds the number of sends that the database tells of against what
// the proxy saw: no send is hidden, and none is made up that could matter.
func (h *house) checkSends(key string) {
	h.t.Helper()
	provider := h.db.one(`SELECT provider_key FROM dispatches WHERE account_id = ? AND idempotency_key = ?`, account, key)
	told := h.db.one(`SELECT sends FROM dispatches WHERE account_id = ? AND idempotency_key = ?`, account, key)
	sends, err := strconv.Atoi(told)
	if err != nil {
		h.t.Fatalf("key %s has no dispatch: %q", key, told)
	}
	h.proxy.mu.Lock()
	defer h.proxy.mu.Unlock()
	if seen := h.proxy.sends[provider]; seen > sends || len(h.proxy.sends) > h.db.count("dispatches") {
		h.t.Errorf("the database tells of %d sends under %s, the proxy saw %d, all: %v", sends, provider, seen, h.proxy.sends)
	}
}

// A server that dies while its answer goes out has stored it: the rest of the
// answer is lost, not the outcome.
func TestKilledDuringTheResponse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve()
	r := payment("k-1", "42", "tok_ok")
	conn := s.raw(r)
	defer conn.Close()
	if _, err := bufio.NewReaderSize(conn, 16).ReadByte(); err != nil {
		t.Fatal(err)
	}
	if at := h.db.key(r.key); at != completed {
		t.Errorf("the first byte went out while the key was %q", at)
	}
	s.kill()
	s = h.serve()
	got := s.must(r)
	got.is(t, http.StatusCreated, "")
	if !got.replayed() {
		t.Error("the first answer after the crash is no replay")
	}
	h.moved("charge 2500")
}

// raw sends the request over a bare connection and reads nothing.
func (c client) raw(r request) net.Conn {
	c.t.Helper()
	address := strings.TrimPrefix(c.base, "http://")
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", r.path, address, c.key, r.key, len(r.body), r.body)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(callTimeout))
	return conn
}
