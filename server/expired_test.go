package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// TestExpiredKey: once its answer is no longer kept, a key is refused and names
// what it made (case 63); when its tombstone is gone too, it is a new intent.
func TestExpiredKey(t *testing.T) {
	w := newWorld(t, setup{engine: onlyonce.Options{
		Retention: time.Hour, UnsafeRetention: true, Tombstones: 2 * time.Hour,
	}})
	first := w.send(pay("K", body1))
	p := first.want(http.StatusCreated)
	back := w.send(refund(p.ID, "R", `{"amount":1}`)).want(http.StatusCreated)
	w.skew.Add(int64(time.Hour - time.Minute))
	w.send(pay("K", body1)).wantReplayOf(first)
	w.skew.Add(int64(2 * time.Minute))
	reaper := onlyonce.Reaper{Engine: w.engine, Tx: w.store}
	for range 2 { // before and after the reaper has come by
		if v := w.send(pay("K", body1)).want(http.StatusConflict, "key-expired", "new-key"); v.PaymentID != p.ID {
			t.Errorf("the problem names %q, want %q", v.PaymentID, p.ID)
		}
		v := w.send(refund(p.ID, "R", `{"amount":1}`)).want(http.StatusConflict, "key-expired", "new-key")
		if v.RefundID != back.ID {
			t.Errorf("the problem names %q, want %q", v.RefundID, back.ID)
		}
		w.send(pay("K", body2)).want(http.StatusUnprocessableEntity, "key-reuse", "new-key")
		must(reaper.Sweep(t.Context()))(t)
	}
	w.wantMoved("charge 1000 usd", "refund 1 usd")
	w.skew.Add(int64(3 * time.Hour))
	again := w.send(pay("K", body1))
	if v := again.want(http.StatusCreated); v.ID == p.ID || again.replayed() {
		t.Error("the key is still the old intent's")
	}
	w.wantMoved("charge 1000 usd", "refund 1 usd", "charge 1000 usd")
}
