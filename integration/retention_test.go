package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientPause is between two requests of one of many clients.
const clientPause = 100 * time.Millisecond

// Cases 63 and 65: 50 clients go on retrying while their keys expire and the
// reaper runs. Each gets its answer, then key-expired with the payment's name,
// and nothing else; there is no second debit while the tombstone stands.
func TestRetriesAroundTheEndOfRetention(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	all := []server{h.serve(short("60s")...), h.serve(short("60s")...)}
	var wg sync.WaitGroup
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprintf("charge %d", 100+i))
		wg.Go(func() { all[i%2].retryUntilExpired(paymentOf(fmt.Sprintf("k-%d", i), "", "tok_ok", 100+i)) })
	}
	wg.Wait()
	h.moved(want...)
	if n := h.db.one(`SELECT count(*) FROM idempotency_keys WHERE status = 'tombstone'`); n != "50" {
		t.Errorf("%s keys are tombstones, want 50", n)
	}
}

func short(tombstones string) []string {
	return []string{"--unsafe-retention", "--retention", "2s", "--tombstones", tombstones}
}

// retryUntilExpired sends the request until its key has been a tombstone for
// some requests.
func (c client) retryUntilExpired(r request) {
	var first reply
	var name string
	seen := 0
	for deadline := time.Now().Add(patience); seen < 10 && time.Now().Before(deadline); time.Sleep(clientPause) {
		got, err := c.send(r)
		switch {
		case err != nil:
			c.t.Errorf("key %s: %v", r.key, err)
			return
		case got.open() && first.status == 0:
		case got.status == http.StatusCreated && first.status == 0:
			first, name = got, got.object(c.t)["id"].(string)
		case got.status == http.StatusCreated && seen == 0:
			got.checkReplay(c.t, first)
		case got.problem() == "key-expired" && got.status == http.StatusConflict:
			seen++
			if got.object(c.t)["paymentId"] != name {
				c.t.Errorf("key %s: key-expired names %v, want %s", r.key, got.object(c.t)["paymentId"], name)
			}
		default:
			c.t.Errorf("key %s: %d after it was %d, and %d times expired: %s", r.key, got.status, first.status, seen, got.body)
			return
		}
	}
	if seen < 10 {
		c.t.Errorf("key %s was seen as expired %d times", r.key, seen)
	}
}

// After the tombstone the key is a new intent, as documented: another payment
// with another name and another charge. An unfinished key never expires.
func TestAfterTheTombstone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve(short("1s")...)
	g := newGate()
	h.proxy.does(func(p *passage) {
		if strings.Contains(string(p.body), "amount=777") {
			p.hold(g)
		}
		p.pass()
	})
	open := paymentOf("k-open", "", "tok_ok", 777)
	s.must(open).is(t, http.StatusAccepted, "")
	r := payment("k-old", "", "tok_ok")
	before := s.final(r, patience).object(t)["id"]
	eventually(t, patience, "the end of the tombstone", func() bool { return h.db.key(r.key) == absent })
	after := s.final(r, patience).object(t)["id"]
	if before == after {
		t.Errorf("the new payment has the old one's name %v", before)
	}
	if at := h.db.key(open.key); !strings.HasPrefix(at, "in_progress") {
		t.Errorf("the unfinished key is %q", at)
	}
	g.open()
	s.final(open, 2*slack).is(t, http.StatusCreated, "")
	h.moved("charge 2500", "charge 2500", "charge 777")
}
