package flow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// TestTheWaitForTheWriterCostsNoTimeToSend: the lease begins when the
// transaction does, and so does the time to send. A queue before it is no pause.
func TestTheWaitForTheWriterCostsNoTimeToSend(t *testing.T) {
	onSome(t, testTheWaitForTheWriterCostsNoTimeToSend)
}

func testTheWaitForTheWriterCostsNoTimeToSend(t *testing.T, b *bed) {
	const lease = 40 * time.Second
	w := b.world(t, setup{
		engine: onlyonce.Options{Lease: lease},
		flow:   flow.Options{ProviderTimeout: 7 * time.Second, CommitWait: 9 * time.Second},
	})
	w.faults.watch = func(query string) {
		if begins(query) {
			w.faults.watch = nil
			w.clock.advance(lease)
		}
	}
	a, err := w.pay("queued")
	if got := show(a, err); !strings.HasPrefix(got, "201 ") || len(w.fake.made(w.record("queued").Resource)) != 1 {
		t.Errorf("after a wait in the queue the answer is %s", got)
	}
}

// TestLookingForWorkTakesNoLock: a server that stands still while it only looks
// must not keep the others from writing.
func TestLookingForWorkTakesNoLock(t *testing.T) { onSome(t, testLookingForWorkTakesNoLock) }

func testLookingForWorkTakesNoLock(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	writes := 0
	w.faults.watch = func(query string) {
		if begins(query) {
			writes++
		}
	}
	completer := w.completer()
	completer.View = w.store.View
	reaper := &onlyonce.Reaper{Engine: w.engine, Tx: w.store, View: w.store.View}
	if _, err := completer.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := reaper.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := w.resolver().Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if writes != 0 {
		t.Errorf("three idle sweeps took the write lock %d times", writes)
	}
}
