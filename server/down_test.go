package server_test

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/server"
)

// TestStoreIsDown: without the store nothing is let through, and the answer
// says to come again (case 80).
func TestStoreIsDown(t *testing.T) {
	w := newWorld(t, setup{server: server.Options{Ledger: http.NotFoundHandler()}})
	p := w.send(pay("K", body1)).want(http.StatusCreated)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{
		pay("K", body1), pay("K2", body1), refund(p.ID, "R", `{}`), get("/payments"), get("/payments/" + p.ID),
		get("/payments/" + p.ID + "/events"), get("/payments/" + p.ID + "/refunds"), get("/refunds/re_x"), get("/readyz"),
	} {
		r := w.send(c)
		r.want(http.StatusServiceUnavailable, "unavailable", "same-key")
		if strings.Contains(string(r.body), "sql") || strings.Contains(string(r.body), w.dir) {
			t.Errorf("the answer tells of our insides: %s", r.body)
		}
	}
	w.send(get("/healthz")).wantStatus(http.StatusOK)
	w.wantMoved("charge 1000 usd")
}

// TestStoreIsLocked: reads and replays go on, what needs a write is 503, and
// runs once the lock is gone (case 66).
func TestStoreIsLocked(t *testing.T) {
	w := newWorld(t, setup{busyWait: time.Second})
	first := w.send(pay("K", body1))
	p := first.want(http.StatusCreated)
	rival := must(sql.Open("sqlite", "file:"+w.file()+"?_txlock=immediate"))(t)
	defer rival.Close()
	tx := must(rival.BeginTx(t.Context(), nil))(t)
	w.send(pay("K2", body1)).want(http.StatusServiceUnavailable, "unavailable", "same-key")
	w.send(refund(p.ID, "R", `{}`)).want(http.StatusServiceUnavailable, "unavailable", "same-key")
	w.send(pay("K", body1)).wantReplayOf(first)
	w.send(get("/payments/" + p.ID)).want(http.StatusOK)
	w.send(get("/readyz")).wantStatus(http.StatusOK)
	w.wantMoved("charge 1000 usd")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.send(pay("K2", body1)).want(http.StatusCreated)
	w.send(refund(p.ID, "R", `{}`)).want(http.StatusCreated)
	w.wantMoved("charge 1000 usd", "charge 1000 usd", "refund 1000 usd")
}

// TestSchemaIsOld: a server whose tables are missing is not ready.
func TestSchemaIsOld(t *testing.T) {
	w := newWorld(t, setup{})
	w.send(get("/readyz")).wantStatus(http.StatusOK)
	rival := must(sql.Open("sqlite", "file:"+w.file()))(t)
	defer rival.Close()
	must(rival.ExecContext(t.Context(), "DROP TABLE schema_payments"))(t)
	w.send(get("/readyz")).want(http.StatusServiceUnavailable, "unavailable", "same-key")
	w.send(get("/healthz")).wantStatus(http.StatusOK)
}
