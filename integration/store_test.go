package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// Case 80: the store can't be written to under load. Who has not begun is told
// so, and nothing is run for it; who may have paid is told 202; what is
// finished is still replayed. Afterwards all of them end in one charge each.
func TestStoreCannotBeWritten(t *testing.T) {
	t.Parallel()
	grounds(t, testStoreCannotBeWritten)
}

func testStoreCannotBeWritten(t *testing.T, e engines.Engine) {
	h := newHouseOn(t, e)
	s := h.serve()
	done := payment("k-done", "", "tok_ok")
	stored := s.final(done, patience)
	g := newGate()
	h.proxy.does(func(p *passage) {
		p.hold(g)
		p.pass()
	})
	begun := paymentOf("k-begun", "", "tok_ok", 700)
	running := s.sent(begun)
	g.wait(t)
	h.db.claimed(begun.key)

	unlock := h.db.lock()
	g.open()
	h.proxy.passes()
	var requests []request
	want := []string{"charge 2500", "charge 700"}
	for i := range 20 {
		requests = append(requests, paymentOf(fmt.Sprintf("k-%d", i), "", "tok_ok", 100+i))
	}
	for i, got := range together(t, []server{s}, requests) {
		got.is(t, http.StatusServiceUnavailable, "unavailable")
		got.checkOpen(t)
		if at := h.db.key(requests[i].key); at != absent {
			t.Errorf("key %s is %q after 503", requests[i].key, at)
		}
	}
	(<-running).is(t, http.StatusAccepted, "")
	s.must(done).checkReplay(t, stored)
	h.moved(want...) // no debit without a claim
	unlock()

	for i, r := range requests {
		s.final(r, 2*patience).is(t, http.StatusCreated, "")
		want = append(want, fmt.Sprintf("charge %d", 100+i))
	}
	s.final(begun, 2*patience).is(t, http.StatusCreated, "")
	h.moved(want...)
	h.checkClaims()
}

// checkClaims holds every charge of the ledger against the keys: none without
// a row of its own.
func (h *house) checkClaims() {
	h.t.Helper()
	for _, e := range h.ledger() {
		id := e.Metadata["onlyonce_payment"]
		if e.Type == "refund" {
			id = e.Metadata["onlyonce_refund"]
		}
		if n := h.db.one(`SELECT count(*) FROM idempotency_keys WHERE resource = ?`, id); n != "1" {
			h.t.Errorf("%s has %s keys that made %q", e.text(), n, id)
		}
	}
}
