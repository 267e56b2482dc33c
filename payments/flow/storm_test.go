package flow_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// clockError is how far a server's own clock is off, one way or the other.
const clockError = time.Minute

// wrongClock is the world's provider as a server sees it whose clock is off:
// the adapter reads that clock, too.
type wrongClock struct {
	*fake
	off time.Duration
}

func (p wrongClock) Execute(ctx context.Context, d payments.Dispatch, sendBy time.Time) payments.Answer {
	return p.fake.Execute(ctx, d, sendBy.Add(-p.off))
}

// pair is two servers on one database, one's clock fast and the other's slow.
func (b *bed) pair(t *testing.T) (servers [2]*world) {
	t.Helper()
	g := b.take(t)
	shared := newFake(t, g.clock)
	for i, off := range []time.Duration{clockError, -clockError} {
		ground := g
		if i > 0 {
			ground = g.again(t)
		}
		servers[i] = b.world(t, setup{
			ground: ground, fake: shared, provider: wrongClock{shared, off},
			flow: flow.Options{Now: func() time.Time { return g.clock.now().Add(off) }},
		})
	}
	return servers
}

// roll is a die that falls alike for the same words in every run.
func roll(sides int, words ...any) int {
	h := fnv.New32a()
	fmt.Fprint(h, words...)
	return int(h.Sum32() % uint32(sides))
}

// moody makes the provider answer with all kinds of trouble, so that each
// resource has a fate of its own.
func (f *fake) moody() {
	f.decide = func(op string, d payments.Dispatch) (reply, bool) {
		acted := len(f.made(d.Resource)) > 0
		switch fate := roll(10, d.ProviderKey); {
		case fate == 0 && !acted:
			return declines, true
		case fate <= 2 && !acted: // acts, and the answer is lost
			return reply{kind: payments.AnswerMaybe, acts: op == "execute"}, true
		case fate == 3 && len(f.seenOf(d.Resource)) < 2: // lost on its way
			return maybe, true
		case fate == 4 && len(f.seenOf(d.Resource)) < 2:
			return reply{kind: payments.AnswerRateLimited}, true
		}
		return succeeds, true
	}
}

// seenOf lists the calls for one resource.
func (f *fake) seenOf(resource string) (calls []call) {
	for _, c := range f.seen("") {
		if c.d.Resource == resource {
			calls = append(calls, c)
		}
	}
	return calls
}

// storm sends each of n requests several times at once, over both servers.
// Nothing but the outcome, an unknown or "it runs" may come back.
func storm(t *testing.T, servers [2]*world, n int, send func(w *world, i int) (flow.Answer, error)) {
	t.Helper()
	const times = 4
	var wg sync.WaitGroup
	for i := range n * times {
		wg.Go(func() {
			a, err := send(servers[i%2], i/times)
			if err != nil && !isKeyError(err, onlyonce.ErrInFlight) {
				t.Errorf("request %d got %s", i/times, show(a, err))
			}
		})
	}
	wg.Wait()
}

// calm lets both servers' duties work side by side until nothing is open.
func calm(t *testing.T, servers [2]*world) {
	t.Helper()
	const rounds = 40
	for range rounds {
		if servers[0].count("SELECT COUNT(*) FROM idempotency_keys WHERE status = 'in_progress'") == 0 {
			return
		}
		servers[0].clock.advance(servers[0].engine.Lease() + time.Second)
		sweepBoth(t, servers)
	}
	t.Fatalf("not everything is settled after %d rounds", rounds)
}

// sweepBoth makes one pass of every duty on both servers at the same time.
func sweepBoth(t *testing.T, servers [2]*world) {
	t.Helper()
	var wg sync.WaitGroup
	for _, w := range servers {
		reap := func(ctx context.Context) (int, error) {
			n, err := (&onlyonce.Reaper{Engine: w.engine, Tx: w.store, View: w.store.View}).Sweep(ctx)
			return int(n), err
		}
		for _, sweep := range []func(context.Context) (int, error){w.resolver().Sweep, w.completer().Sweep, reap} {
			wg.Go(func() {
				if _, err := sweep(t.Context()); err != nil {
					t.Errorf("sweep: %v", err)
				}
			})
		}
	}
	wg.Wait()
}

// TestTwoServersInAStorm: duplicates, one order under many keys and refunds
// beyond the capture, on two servers whose clocks are off, with a provider that
// loses answers. One charge for an intent, one paid payment for an order,
// refunds within the capture, and no deadlock reaches a caller.
func TestTwoServersInAStorm(t *testing.T) { onEach(t, testTwoServersInAStorm) }

func testTwoServersInAStorm(t *testing.T, b *bed) {
	const orders, keysOfAnOrder, refundsOfAPayment = 6, 5, 4
	servers := b.pair(t)
	w := servers[0]
	w.fake.moody()
	pay := func(w *world, i int) (flow.Answer, error) {
		return w.payOrder(fmt.Sprint("k", i), fmt.Sprint("order", i%orders))
	}
	storm(t, servers, orders*keysOfAnOrder, pay)
	calm(t, servers)
	var paid []string
	for i := range orders * keysOfAnOrder {
		w.checkSettled(fmt.Sprint("k", i), func() (flow.Answer, error) { return pay(servers[i%2], i) })
		if id := w.record(fmt.Sprint("k", i)).Resource; id != "" && w.payment(id).State == payments.Succeeded {
			paid = append(paid, id)
		}
	}
	if n := w.count("SELECT COUNT(DISTINCT order_id) FROM payments WHERE state = 'succeeded'"); int(n) != len(paid) {
		t.Errorf("%d payments succeeded for %d orders", len(paid), n)
	}
	refund := func(w *world, i int) (flow.Answer, error) {
		return w.refund(fmt.Sprint("r", i), paid[i%len(paid)], 4000)
	}
	storm(t, servers, len(paid)*refundsOfAPayment, refund)
	calm(t, servers)
	var moved int64
	for _, id := range paid {
		moved += w.checkBooks(id)
	}
	if len(paid) < orders/2 || moved < 4000 {
		t.Errorf("%d orders were paid and %d refunded: no storm", len(paid), moved)
	}
	for i := range len(paid) * refundsOfAPayment {
		key := fmt.Sprint("r", i)
		if w.record(key).Status != "" { // else it hung on an unknown and was not stored
			w.checkSettled(key, func() (flow.Answer, error) { return refund(servers[i%2], i) })
		}
	}
}

// checkBooks compares a payment's refunds with what the provider has moved.
func (w *world) checkBooks(id string) (moved int64) {
	w.t.Helper()
	p := w.payment(id)
	refunds, _, err := w.db.Refunds(w.t.Context(), account, id, pageOf100)
	must(w.t, err)
	for _, r := range refunds {
		for _, e := range w.fake.made(r.ID) {
			moved += e.amount
		}
	}
	if p.Refundable() < 0 || p.Refunded != moved || p.Reserved != p.Refunded || moved > p.Captured {
		w.t.Errorf("%s: captured %d, reserved %d, refunded %d, the provider moved %d",
			id, p.Captured, p.Reserved, p.Refunded, moved)
	}
	w.timeline(id)
	return moved
}

// TestTwoServersShareTheWork: in each round every unknown is looked at once, by
// one of the two, and never by both at a time; what a dead server left is taken
// over once; what has expired is reaped once.
func TestTwoServersShareTheWork(t *testing.T) { onEach(t, testTwoServersShareTheWork) }

func testTwoServersShareTheWork(t *testing.T, b *bed) {
	const unknowns, dead = 12, 4
	servers := b.pair(t)
	w := servers[0]
	w.always(maybe, unread)
	for i := range unknowns {
		w.unknown(fmt.Sprint("u", i))
	}
	for i := range dead {
		key := fmt.Sprint("d", i)
		servers[i%2].sendAndDie(key, func() (flow.Answer, error) { return servers[i%2].pay(key) })
	}
	w.clock.advance(w.engine.Lease() + time.Second)
	w.lookOnce(servers, unknowns) // and the completers make the dead ones unknown
	for range 3 {
		w.clock.advance(time.Minute)
		w.lookOnce(servers, unknowns+dead)
	}
	// The database's clock decides what is due: to the slow server it is, though
	// its own clock says no, and to the fast one it is not any more.
	w.clock.advance(time.Minute)
	if slow, fast := servers[1].sweep(), servers[0].sweep(); slow != unknowns+dead || fast != 0 {
		t.Errorf("the slow server looked at %d, the fast one after it at %d", slow, fast)
	}
	w.fake.decide = nil
	calm(t, servers)
	for i := range unknowns {
		w.checkSettled(fmt.Sprint("u", i), func() (flow.Answer, error) { return servers[i%2].pay(fmt.Sprint("u", i)) })
	}
	for i := range dead {
		key := fmt.Sprint("d", i)
		w.checkSettled(key, func() (flow.Answer, error) { return servers[i%2].pay(key) })
		if n := strings.Count(types(w.timeline(w.record(key).Resource)), "taken_over"); n != 1 {
			t.Errorf("%s was taken over %d times", key, n)
		}
	}
	w.clock.advance(31 * 24 * time.Hour)
	sweepBoth(t, servers)
	if n := w.count("SELECT COUNT(*) FROM idempotency_keys WHERE status = 'tombstone'"); n != unknowns+dead {
		t.Errorf("%d keys have expired, want %d", n, unknowns+dead)
	}
}

// lookOnce makes one pass on both servers, which must look at each of the
// unknowns that are due once.
func (w *world) lookOnce(servers [2]*world, due int) {
	w.t.Helper()
	var mu sync.Mutex
	looks, now := map[string]int{}, map[string]int{}
	w.fake.before = func(_ string, d payments.Dispatch) {
		mu.Lock()
		defer mu.Unlock()
		looks[d.Resource]++
		now[d.Resource]++
		if now[d.Resource] > 1 {
			w.t.Errorf("two looks at %s at a time", d.Resource)
		}
	}
	after := w.fake.decide
	w.fake.decide = func(op string, d payments.Dispatch) (reply, bool) {
		mu.Lock()
		defer mu.Unlock()
		now[d.Resource]--
		return after(op, d)
	}
	sweepBoth(w.t.(*testing.T), servers)
	w.fake.before, w.fake.decide = nil, after
	for id, n := range looks {
		if n != 1 {
			w.t.Errorf("%s was looked at %d times in one round", id, n)
		}
	}
	if len(looks) < due {
		w.t.Errorf("%d unknowns were looked at, want at least %d", len(looks), due)
	}
}
