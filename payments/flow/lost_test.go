package flow_test

import (
	"context"
	"testing"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// rivalError makes the engine say in its own words that a transaction lost
// against a rival and was rolled back.
func (w *world) rivalError() (err error) {
	w.t.Helper()
	switch w.bed.e.Dialect {
	case "postgres":
		_, err = w.raw.ExecContext(w.t.Context(), `DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$`)
	case "mysql":
		_, err = w.raw.ExecContext(w.t.Context(), `SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'lost'`)
	default:
		conn, connErr := w.raw.Conn(w.t.Context())
		must(w.t, connErr)
		defer conn.Close()
		_, beginErr := conn.ExecContext(w.t.Context(), "BEGIN IMMEDIATE")
		must(w.t, beginErr)
		impatient, connErr := w.raw.Conn(w.t.Context())
		must(w.t, connErr)
		defer impatient.Close()
		_, err = impatient.ExecContext(w.t.Context(), "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE")
		_, rollbackErr := conn.ExecContext(context.Background(), "ROLLBACK")
		must(w.t, rollbackErr)
	}
	if !w.store.Dialect().Retryable(err) {
		w.t.Fatalf("the engine says %v", err)
	}
	return err
}

// TestARivalAtCommitLosesNothing is case 51 of the reports: the engine rolls
// phase 2 back at its COMMIT, when the charge has been made, or phase 1, when
// nothing has. The phase runs again, and the provider is called once.
func TestARivalAtCommitLosesNothing(t *testing.T) { onEach(t, testARivalAtCommitLosesNothing) }

func testARivalAtCommitLosesNothing(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	rival := w.rivalError()
	w.faults.lose(3, rival)
	w.paid("phase 1", "order")
	for name, losses := range map[string]int{"once": 1, "often": 4} {
		w.fake.before = func(string, payments.Dispatch) { w.faults.lose(losses, rival) }
		id := w.paid(name, name)
		w.refunded("refund of "+name, id, 6000)
		if got := types(w.timeline(id)); got != "claimed sent answered completed reserved refunded" {
			t.Errorf("%s: the timeline is %q", name, got)
		}
	}
	calls := len(w.fake.seen(""))
	if made := len(w.fake.made("")); calls != 5 || made != 5 {
		t.Errorf("%d calls and %d effects, want 5", calls, made)
	}
}

// TestARivalThatWinsForEver: the answer is not stored, and the charge not lost.
func TestARivalThatWinsForEver(t *testing.T) { onSQLite(t, testARivalThatWinsForEver) }

func testARivalThatWinsForEver(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	rival := w.rivalError()
	w.fake.before = func(string, payments.Dispatch) { w.faults.lose(1<<20, rival) }
	if a, err := w.pay("k"); show(a, err) != "payment pending_unknown" {
		t.Errorf("the answer can't be stored, and the client got %s", show(a, err))
	}
	w.fake.before = nil
	w.faults.lose(0, nil)
	w.finish("k", nil)
	w.checkSettled("k", func() (flow.Answer, error) { return w.pay("k") })
}
