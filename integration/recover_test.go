package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// inProcessCrashes are the moments for the sandbox inside the server, which
// dies with it. The test makes the moments with the write locks of the files.
func inProcessCrashes() []crash {
	return []crash{
		{"after phase 1, the provider has not begun", func(h *house, _ server, r request) (reach, after func()) {
			release := h.box.lock()
			return func() { h.db.claimed(r.key) }, release
		}, false},
		{"the provider acted, phase 2 can't commit", func(h *house, s server, r request) (reach, after func()) {
			release := h.box.lock()
			before := h.box.count("ledger")
			return func() {
				h.db.claimed(r.key)
				unlock := h.db.lock()
				release()
				eventually(h.t, patience, "the provider's ledger to grow", func() bool { return h.box.count("ledger") > before })
				s.kill()
				unlock()
			}, nothing
		}, true},
		{"after phase 2", crashCommitted, true},
	}
}

// The sandbox in the server is durable by itself: what it moved before kill -9
// it knows afterwards, and moves no second time.
func TestKilledWithItsSandbox(t *testing.T) {
	t.Parallel()
	for _, c := range inProcessCrashes() {
		t.Run("payment/"+c.name, func(t *testing.T) {
			t.Parallel()
			h := newInProcessHouse(t)
			h.crashWithSandbox(h.serve(), c, payment("k-pay", "42", "tok_ok"))
			h.moved("charge 2500")
		})
		t.Run("refund/"+c.name, func(t *testing.T) {
			t.Parallel()
			h := newInProcessHouse(t)
			s := h.serve()
			paid := s.final(payment("k-pay", "42", "tok_ok"), patience).object(t)
			h.crashWithSandbox(s, c, refund(paid["id"].(string), "k-refund", 1000))
			h.moved("charge 2500", "refund 1000")
		})
	}
}

func (h *house) crashWithSandbox(s server, c crash, r request) {
	t := h.t
	t.Helper()
	entries := h.box.count("ledger")
	reach, after := c.prepare(h, s, r)
	answered := s.sent(r)
	reach()
	s.kill()
	<-answered
	if c.moved {
		entries++
	}
	if got := h.box.count("ledger"); got != entries {
		t.Errorf("the ledger has %d entries at the crash, want %d", got, entries)
	}
	after()
	s = h.serve()
	got := s.final(r, lease+sweepEvery+slack)
	got.is(t, http.StatusCreated, "")
	s.must(r).checkReplay(t, got)
}

// P6: nobody retries, and the key is finished all the same; who comes later
// gets the outcome as a replay.
func TestRecoversWithoutTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range crashes()[:4] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			s := h.serve()
			r := payment("k-gone", "42", "tok_ok")
			reach, after := c.prepare(h, s, r)
			answered := s.sent(r)
			reach()
			s.kill()
			<-answered
			after()
			s = h.serve()
			h.db.finished(r.key)
			got := s.must(r)
			got.is(t, http.StatusCreated, "")
			if !got.replayed() || got.object(t)["state"] != "succeeded" {
				t.Errorf("the late retry is no replay of a success: %s", got.body)
			}
			h.proxy.settled(t)
			h.moved("charge 2500")
			h.checkSends(r.key)
		})
	}
}

// Of two servers one is killed; the other one, which runs all the time, is
// asked for the same payment, or finds it by itself.
func TestTheOtherServerTakesOver(t *testing.T) {
	t.Parallel()
	grounds(t, testTheOtherServerTakesOver)
}

func testTheOtherServerTakesOver(t *testing.T, e engines.Engine) {
	for _, retries := range []bool{true, false} {
		t.Run(fmt.Sprintf("client retries %v", retries), func(t *testing.T) {
			t.Parallel()
			h := newHouseOn(t, e)
			owner, other := h.serve(), h.serve()
			r := payment("k-both", "42", "tok_ok")
			reach, after := crashActed(h, owner, r)
			answered := owner.sent(r)
			reach()
			other.must(r).is(t, http.StatusConflict, "in-flight")
			owner.kill()
			<-answered
			after()
			if retries {
				other.final(r, lease+sweepEvery+slack).is(t, http.StatusCreated, "")
			}
			h.db.finished(r.key)
			got := other.must(r)
			got.is(t, http.StatusCreated, "")
			if !got.replayed() {
				t.Error("the late retry is no replay")
			}
			h.moved("charge 2500")
			h.checkSends(r.key)
		})
	}
}

// The same by `onlyonce sweep` alone, with no server at all.
func TestRecoversBySweep(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve()
	r := payment("k-swept", "", "tok_ok")
	reach, after := crashActed(h, s, r)
	answered := s.sent(r)
	reach()
	s.kill()
	<-answered
	after()
	args := append([]string{"sweep", "--json", "--lease", lease.String(), "--provider-timeout", "1s"}, h.provider...)
	if swept := h.sweep(args); swept.TakenOver+swept.Looked != 0 {
		t.Errorf("a sweep before the lease is over took %+v", swept)
	}
	h.db.lapsed(r.key)
	resumed := 0
	eventually(t, slack, "the sweeps to finish the key", func() bool {
		resumed += h.sweep(args).TakenOver
		return strings.HasPrefix(h.db.key(r.key), "completed")
	})
	if resumed != 1 {
		t.Errorf("the sweeps took over %d claims, want 1", resumed)
	}
	got := h.serve().must(r)
	got.is(t, http.StatusCreated, "")
	h.moved("charge 2500")
}

type swept struct{ TakenOver, Looked, Reaped int }

func (h *house) sweep(args []string) (line swept) {
	h.t.Helper()
	status, stdout, stderr := command(h.t, h.dir, args...)
	if status != 0 {
		h.t.Fatalf("sweep exits %d: %s", status, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &line); err != nil {
		h.t.Fatalf("sweep wrote %q: %v", stdout, err)
	}
	return line
}

// Cases 55 and 91: the provider acts and never answers. While that is open the
// payment is never called failed, the client is told 202, and what goes out
// again is the same key.
func TestTimeoutIsUnknownUntilProved(t *testing.T) {
	t.Parallel()
	grounds(t, testTimeoutIsUnknownUntilProved)
}

func testTimeoutIsUnknownUntilProved(t *testing.T, e engines.Engine) {
	h := newHouseOn(t, e)
	s := h.serve()
	quiet := newGate() // the provider's side stays silent until it opens
	h.proxy.does(func(p *passage) {
		got := p.forward()
		if p.hold(quiet) {
			p.answer(got)
		}
	})
	r := payment("k-slow", "42", "tok_ok")
	first := s.must(r)
	first.is(t, http.StatusAccepted, "")
	id := first.object(t)["id"].(string)
	eventually(t, patience, "a third send, which comes after the lease", func() bool {
		if state := s.get("/payments/" + id)["state"]; state != "pending_unknown" {
			t.Fatalf("the payment is %v while nothing is known", state)
		}
		again := s.must(r)
		if again.status != http.StatusAccepted {
			again.is(t, http.StatusConflict, "in-flight")
		}
		again.checkOpen(t)
		return h.proxy.arrived() >= 3
	})
	other := s.must(payment("k-impatient", "42", "tok_ok"))
	other.is(t, http.StatusConflict, "order-busy")
	if other.object(t)["paymentId"] != id {
		t.Errorf("order-busy names %v, want %s", other.object(t)["paymentId"], id)
	}
	quiet.open()
	got := s.final(r, 2*slack)
	got.is(t, http.StatusCreated, "")
	h.moved("charge 2500")
	h.checkSends(r.key)
}

// The provider's own process dies after it has acted, and is away for a while.
// What it can't be asked stays unknown, new payments too, and nothing is lost.
func TestProviderDies(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve()
	g := newGate()
	h.proxy.does(func(p *passage) {
		got := p.forward()
		p.delay(g)
		p.answer(got)
	})
	acted, fresh := paymentOf("k-acted", "", "tok_ok", 100), paymentOf("k-fresh", "", "tok_ok", 200)
	running := s.sent(acted)
	g.wait(t)
	h.sandbox.kill()
	h.proxy.does(func(p *passage) { p.cut() })
	g.open()
	if got := <-running; got.status != http.StatusCreated { // its answer was under way already, unless all was slow
		got.is(t, http.StatusAccepted, "")
	}
	s.must(fresh).is(t, http.StatusAccepted, "")
	h.proxy.passes()
	eventually(t, patience, "another send in vain", func() bool { return h.proxy.arrived() > 2 })
	s.must(fresh).checkOpen(t)
	h.startSandbox()
	s.final(fresh, young).is(t, http.StatusCreated, "")
	s.final(acted, young).is(t, http.StatusCreated, "")
	h.moved("charge 100", "charge 200")
	h.checkSends(acted.key)
	h.checkSends(fresh.key)
}
