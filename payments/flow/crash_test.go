package flow_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// crashCase is some work whose every statement fails in turn. Whatever came of
// it, the intent under key "k" must end once.
type crashCase struct {
	name string
	kind payments.Kind
	// ready brings the world to where the work begins.
	ready func(w *world, send func() (flow.Answer, error))
	work  func(w *world, send func() (flow.Answer, error))
	reply reply // of the provider during the work
	want  payments.State
	// always: on every engine. The others run on one of each dialect.
	always bool
}

var (
	succeeds = reply{kind: payments.AnswerSucceeded, acts: true, withID: true}
	declines = reply{kind: payments.AnswerFailed, code: "card_declined"}
)

func crashCases() []crashCase {
	fresh := func(*world, func() (flow.Answer, error)) {}
	sending := func(_ *world, send func() (flow.Answer, error)) { _, _ = send() }
	sweeping := func(w *world, _ func() (flow.Answer, error)) { _, _ = w.resolver().Sweep(w.t.Context()) }
	completing := func(w *world, _ func() (flow.Answer, error)) { _, _ = w.completer().Sweep(w.t.Context()) }
	unknown := func(acts bool) func(*world, func() (flow.Answer, error)) {
		return func(w *world, send func() (flow.Answer, error)) {
			w.fake.script(reply{kind: payments.AnswerMaybe, acts: acts})
			_, err := send()
			must(w.t, err)
			w.clock.reach(w.dispatch(w.record("k").Resource).next)
		}
	}
	abandoned := func(w *world, send func() (flow.Answer, error)) {
		w.sendAndDie("k", send)
		w.clock.advance(w.engine.Lease() + time.Second)
	}
	var all []crashCase
	for _, kind := range []payments.Kind{payments.KindPayment, payments.KindRefund} {
		all = append(all,
			crashCase{"succeeds", kind, fresh, sending, succeeds, payments.Succeeded, true},
			crashCase{"declined", kind, fresh, sending, declines, payments.Failed, false},
			crashCase{"check", kind, unknown(false), sweeping, succeeds, payments.Succeeded, false},
			crashCase{"check of what acted", kind, unknown(true), sweeping, succeeds, payments.Succeeded, true},
			crashCase{"check declines", kind, unknown(false), sweeping, declines, payments.Failed, false},
			crashCase{"completer", kind, abandoned, completing, succeeds, payments.Succeeded, false},
			crashCase{"retry takes over", kind, abandoned, sending, succeeds, payments.Succeeded, true},
		)
	}
	return all
}

// sendAndDie ends the process at the COMMIT of phase 2.
func (w *world) sendAndDie(key string, send func() (flow.Answer, error)) {
	w.t.Helper()
	w.fake.before = func(string, payments.Dispatch) { w.faults.arm(1, failFrom) }
	a, err := send()
	w.fake.before = nil
	if failed, _ := w.faults.disarm(); failed == "" || err != nil || a.Outcome != nil {
		w.t.Fatalf("the answer could not be stored and the client got %s; want an unknown", show(a, err))
	}
	if d := w.record(key); d.Point != onlyonce.Dispatched {
		w.t.Fatalf("the key is at %s", d.Point)
	}
}

func TestCrashAtEveryStatement(t *testing.T) { onEach(t, testCrashAtEveryStatement) }

func testCrashAtEveryStatement(t *testing.T, b *bed) {
	whole := slices.Contains(some, b.e.Name)
	for _, c := range crashCases() {
		for _, m := range []mode{failBefore, failAfter, failFrom} {
			if !whole && (!c.always || m == failBefore) {
				continue // another engine of this dialect has it
			}
			t.Run(fmt.Sprintf("%s/%s/%s", c.kind, c.name, m), func(t *testing.T) {
				t.Parallel()
				statements := 0
				for n, more := 1, true; more && n <= 200; n++ {
					statements = n - 1
					t.Run(strconv.Itoa(n), func(t *testing.T) { more = crashAt(t, b, c, m, n, n%2 == 0) })
				}
				if statements < 6 || statements == 200 {
					t.Errorf("%d statements were broken", statements)
				}
			})
		}
	}
}

// crashAt breaks the n-th statement and reports whether there was one. Then
// the client comes back, or leaves it to the server.
func crashAt(t *testing.T, b *bed, c crashCase, m mode, n int, clientReturns bool) bool {
	w := b.world(t, setup{})
	send := w.subject(c.kind)
	c.ready(w, send)
	w.fake.decide = func(op string, _ payments.Dispatch) (reply, bool) { return c.reply, true }
	// The work is cut off at the end of its own calls: what it did before the
	// crash is all that the provider saw.
	w.faults.arm(n, m)
	c.work(w, send)
	failed, _ := w.faults.disarm()
	if w.faults.busy() {
		t.Errorf("%s statement %d (%s): a transaction is still open", m, n, failed)
	}
	retry := send
	if w.record("k").Status == "" {
		if calls := len(w.fake.seen("")); calls != 0 && c.kind == payments.KindPayment {
			t.Errorf("%s statement %d (%s): %d calls and no key", m, n, failed, calls)
		}
	} else if !clientReturns {
		retry = nil
	}
	w.finish("k", retry)
	w.checkSettled("k", send)
	id := w.record("k").Resource
	w.checkBytes(id)
	if state, _ := w.state(id); state != c.want {
		t.Errorf("%s statement %d (%s): the end is %s, want %s; %q", m, n, failed, state, c.want, types(w.timeline(id)))
	}
	if t.Failed() {
		t.Logf("%s statement %d (%s)\n%s", m, n, failed, w.log)
	}
	return failed != "" && !t.Failed()
}

// TestCrashedCheckTaints: a re-send whose answer was lost with the process may
// have acted, so a later "that attempt never ran" proves nothing.
func TestCrashedCheckTaints(t *testing.T) { onSome(t, testCrashedCheckTaints) }

func testCrashedCheckTaints(t *testing.T, b *bed) {
	for _, acts := range []bool{false, true} {
		w := b.world(t, setup{})
		send := func() (flow.Answer, error) { return w.pay("k") }
		w.fake.script(reply{kind: payments.AnswerNotSent}, reply{kind: payments.AnswerMaybe, acts: acts},
			reply{kind: payments.AnswerRejected, code: "parameter_invalid"})
		_, err := send()
		must(t, err)
		id := w.record("k").Resource
		w.clock.reach(w.dispatch(id).next)
		w.fake.before = func(string, payments.Dispatch) { w.faults.arm(1, failFrom) }
		w.sweep()
		w.fake.before = nil
		w.faults.disarm()
		w.clock.advance(w.engine.Lease() + time.Second)
		if n := w.sweep(); n != 1 {
			t.Fatalf("the sweep after the crash looked at %d", n)
		}
		if state, _ := w.state(id); state != payments.PendingUnknown {
			t.Errorf("a send was cut off by a crash, the next was rejected, and the payment is %s; %d charges",
				state, len(w.fake.made(id)))
		}
	}
}

// TestCheckNotSentDoesNotTaint: only what may have acted taints.
func TestCheckNotSentDoesNotTaint(t *testing.T) { onSome(t, testCheckNotSentDoesNotTaint) }

func testCheckNotSentDoesNotTaint(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.fake.script(reply{kind: payments.AnswerNotSent}, reply{kind: payments.AnswerRateLimited},
		reply{kind: payments.AnswerRejected, code: "parameter_invalid"})
	_, err := w.pay("k")
	must(t, err)
	id := w.record("k").Resource
	for range 2 {
		w.clock.reach(w.dispatch(id).next)
		w.sweep()
	}
	if state, _ := w.state(id); state != payments.Failed {
		t.Errorf("no attempt was ambiguous, the last was rejected, and the payment is %s", state)
	}
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}

// TestStoreDownDuringTheWholeRequest: nothing is run, and the answer says so.
func TestStoreDownDuringTheWholeRequest(t *testing.T) { onSome(t, testStoreDownDuringTheWholeRequest) }

func testStoreDownDuringTheWholeRequest(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.faults.arm(1, failFrom)
	a, err := w.pay("k")
	w.faults.disarm()
	var key *flow.KeyError
	if err == nil || errors.As(err, &key) || len(w.fake.seen("")) != 0 {
		t.Errorf("with the store down: %s, %d calls", show(a, err), len(w.fake.seen("")))
	}
	w.paid("k", "")
}

// TestALostCommitOfATakeoverIsNoFailure: the earlier attempt may have charged,
// so the client is told unknown, never that nothing was run.
func TestALostCommitOfATakeoverIsNoFailure(t *testing.T) {
	onSome(t, testALostCommitOfATakeoverIsNoFailure)
}

func testALostCommitOfATakeoverIsNoFailure(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.fake.script(reply{kind: payments.AnswerSucceeded, acts: true})
	w.sendAndDie("k", func() (flow.Answer, error) { return w.pay("k") })
	w.clock.advance(w.engine.Lease())
	w.faults.armCommit(failAfter)
	a, err := w.pay("k")
	if failed, _ := w.faults.disarm(); failed != "COMMIT" {
		t.Fatalf("the takeover's COMMIT was never reached: %q", failed)
	}
	if err != nil || a.Payment == nil || a.Payment.State != payments.PendingUnknown {
		t.Errorf("the answer to COMMIT was lost, and the client got %s", show(a, err))
	}
}
