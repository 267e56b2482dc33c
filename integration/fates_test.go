package integration_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// young is how long a young unknown may stay one, once the provider is honest.
const young = slowness * 40 * time.Second

// fate is what becomes of a charge with a token of the sandbox.
type fate struct {
	token  string
	first  int // the first answer's status
	final  int
	code   string // the decline code, "" for any
	moves  bool   // money moves, once
	refund int    // the final status when the fate is that of a refund
}

var fates = []fate{
	{"tok_ok", 201, 201, "", true, 201},
	{"any other text", 201, 201, "", true, 0},
	{"tok_declined", 402, 402, "", false, 402},
	{"tok_insufficient_funds", 402, 402, "insufficient_funds", false, 402},
	{"tok_slow", 202, 201, "", true, 201},
	{"tok_timeout_charged", 202, 201, "", true, 201},
	{"tok_timeout_lost", 202, 201, "", true, 201},
	{"tok_error_charged", 202, 201, "", true, 201},
	{"tok_reset_charged", 202, 201, "", true, 201},
	{"tok_garbage_charged", 202, 201, "", true, 201},
	{"tok_busy", 202, 201, "", true, 201},
}

// proof is how a token ends that is never charged: by two lists that lack it,
// past the key window and the grace.
var proof = fate{"tok_error_lost", 202, 402, "not_executed", false, 402}

// Every token of the sandbox, over the real server: the first answer, the last
// one, and what the provider's ledger says.
func TestEveryFateOfACharge(t *testing.T) {
	t.Parallel()
	h := newInProcessHouse(t)
	s := h.serve()
	var want []string
	var wg sync.WaitGroup
	for i, f := range fates {
		amount := 1000 + i
		if f.moves {
			want = append(want, fmt.Sprintf("charge %d", amount))
		}
		wg.Go(func() { s.charge(f, amount) })
	}
	wg.Wait()
	h.moved(want...)
	h.checkClaims()
}

// A token that is never charged ends as failed by proof of absence alone.
func TestChargeThatNeverWas(t *testing.T) {
	t.Parallel()
	h := newInProcessHouse(t)
	s := h.serve("--sandbox-key-window", "4s")
	s.charge(proof, 1000)
	h.moved()
	// Not a moment before the window and the grace, 4 s each, are over.
	if late := h.db.one(`SELECT updated_at - first_sent_at >= 8000000, absences
		FROM payments JOIN dispatches ON resource_id = id`); late != "1 2" {
		t.Errorf("absence was taken for proved too early: %q", late)
	}
	again := s.must(payment("k-again", "o-"+proof.token, "tok_ok"))
	again.is(t, http.StatusCreated, "") // the order is free
}

// charge is a client that pays with the token, and checks what it is told.
func (c client) charge(f fate, amount int) {
	r := paymentOf("k-"+f.token, "o-"+f.token, f.token, amount)
	first, err := c.send(r)
	if err != nil {
		c.t.Errorf("%s: %v", f.token, err)
		return
	}
	if first.status != f.first {
		c.t.Errorf("%s: the first answer is %d, want %d: %s", f.token, first.status, f.first, first.body)
	}
	began := time.Now()
	last := c.last(r)
	c.t.Logf("%s: final after %v", f.token, time.Since(began).Round(10*time.Millisecond))
	if last.status != f.final {
		c.t.Errorf("%s: the last answer is %d, want %d: %s", f.token, last.status, f.final, last.body)
	}
	id := last.named("id", "paymentId")
	if first.named("id", "paymentId") != id {
		c.t.Errorf("%s: two answers name two payments: %s and %s", f.token, first.body, last.body)
	}
	if code := last.named("declineCode"); f.code != "" && code != f.code || (code == "") != (f.final == 201) {
		c.t.Errorf("%s: the decline code is %q, want %q", f.token, code, f.code)
	}
	if again := c.last(r); string(again.body) != string(last.body) || !again.replayed() {
		c.t.Errorf("%s: the replay differs:\n%s\n%s", f.token, last.body, again.body)
	}
}

// last is final for use beside the test's own goroutine.
func (c client) last(r request) reply {
	var got reply
	for deadline := time.Now().Add(young); time.Now().Before(deadline); time.Sleep(clientPause) {
		var err error
		if got, err = c.send(r); err != nil {
			c.t.Errorf("key %s: %v", r.key, err)
			break
		}
		if !got.open() {
			break
		}
	}
	return got
}

// The same fates for refunds: the token tok_refund_X is charged well, and its
// refund meets the fate of tok_X.
func TestEveryFateOfARefund(t *testing.T) {
	t.Parallel()
	h := newInProcessHouse(t)
	s := h.serve()
	var want []string
	var wg sync.WaitGroup
	for i, f := range fates {
		if f.refund == 0 {
			continue
		}
		amount := 1000 + i
		want = append(want, fmt.Sprintf("charge %d", amount))
		if f.moves {
			want = append(want, fmt.Sprintf("refund %d", amount))
		}
		wg.Go(func() { s.giveBack(f, amount) })
	}
	wg.Wait()
	h.moved(want...)
	h.checkClaims()
}

// A refund that never was ends as failed, and its room comes back.
func TestRefundThatNeverWas(t *testing.T) {
	t.Parallel()
	h := newInProcessHouse(t)
	s := h.serve("--sandbox-key-window", "4s")
	s.giveBack(proof, 1000)
	h.moved("charge 1000")
}

// giveBack is a client that pays well, and whose refund meets the fate.
func (c client) giveBack(f fate, amount int) {
	token := "tok_refund_" + f.token[len("tok_"):]
	paid := c.last(paymentOf("k-"+token, "", token, amount))
	id := paid.named("id")
	r := refund(id, "k-back-"+token, amount)
	last := c.last(r)
	if last.status != f.refund {
		c.t.Errorf("%s: the refund ended with %d, want %d: %s", token, last.status, f.refund, last.body)
	}
	p, err := c.read("/payments/" + id)
	if err != nil {
		c.t.Errorf("%s: %v", token, err)
		return
	}
	refunded, refundable := 0.0, float64(amount)
	if f.refund == http.StatusCreated {
		refunded, refundable = refundable, 0
	}
	if p["refunded"] != refunded || p["refundable"] != refundable {
		c.t.Errorf("%s: refunded %v, refundable %v, want %v and %v",
			token, p["refunded"], p["refundable"], refunded, refundable)
	}
}
