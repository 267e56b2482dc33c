package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestReplay: the stored status, bytes and headers come back, and say that
// they do (cases 70, 79).
func TestReplay(t *testing.T) {
	w := newWorld(t, setup{})
	first := w.send(pay("K", body1))
	p := first.want(http.StatusCreated)
	for range 3 {
		w.send(pay("K", body1)).wantReplayOf(first)
	}
	back := w.send(refund(p.ID, "R", `{}`))
	back.want(http.StatusCreated)
	w.send(refund(p.ID, "R", `{}`)).wantReplayOf(back)
	// The world has changed, the key's last word has not.
	w.send(pay("K", body1)).wantReplayOf(first)
	w.wantMoved("charge 1000 usd", "refund 1000 usd")
	for _, name := range []string{"Idempotent-Replayed", "Original-Request", "Request-Id", "Location", "Retry-After"} {
		if !strings.Contains(first.header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("a browser can't read %s", name)
		}
	}
}

// TestReplayHasNothingOfTheFirstConnection (case 71).
func TestReplayHasNothingOfTheFirstConnection(t *testing.T) {
	w := newWorld(t, setup{})
	c := pay("K", body1).with("Cookie", "session=1").with("X-Request-Id", "theirs")
	first := w.send(c)
	first.want(http.StatusCreated)
	again := w.send(pay("K", body1).with("X-Request-Id", "other"))
	again.wantReplayOf(first)
	for _, name := range []string{"Set-Cookie", "X-Request-Id", "WWW-Authenticate", "Retry-After", "Preference-Applied"} {
		if again.header.Get(name) != "" {
			t.Errorf("the replay has %s: %s", name, again.header.Get(name))
		}
	}
	if again.header.Get("Request-Id") == "theirs" || first.header.Get("Request-Id") == "theirs" {
		t.Error("the client chose the Request-Id")
	}
}

type timeline struct {
	Data []struct {
		At, Type, Detail string
		Attempt          int
	}
	Next           *string
	Replays        int64
	LastReplayedAt string
}

func (w *world) timeline(id string) timeline {
	w.t.Helper()
	r := w.send(get("/payments/" + id + "/events"))
	r.want(http.StatusOK)
	var v timeline
	if err := json.Unmarshal(r.body, &v); err != nil {
		w.t.Fatal(err)
	}
	return v
}

// TestReplaysAreCounted beside the timeline, before and after they are stored.
func TestReplaysAreCounted(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("K", body1)).want(http.StatusCreated)
	if v := w.timeline(p.ID); v.Replays != 0 || v.LastReplayedAt != "" {
		t.Errorf("%d replays, the last at %q", v.Replays, v.LastReplayedAt)
	}
	events := len(w.timeline(p.ID).Data)
	w.send(pay("K", body1))
	w.send(pay("K", body1))
	if v := w.timeline(p.ID); v.Replays != 2 || v.LastReplayedAt == "" {
		t.Errorf("%d replays, the last at %q", v.Replays, v.LastReplayedAt)
	}
	if n, _, err := w.db.Replays(t.Context(), "A", p.ID); n != 0 || err != nil {
		t.Errorf("a replay wrote: %d, %v", n, err)
	}
	if err := w.replays.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.send(pay("K", body1))
	if v := w.timeline(p.ID); v.Replays != 3 || len(v.Data) != events {
		t.Errorf("%d replays, %d events, at first %d", v.Replays, len(v.Data), events)
	}
	// A decline is counted on its payment, a refusal on nothing.
	d := w.send(pay("D", bodyWith("tok_declined"))).want(http.StatusPaymentRequired)
	w.send(pay("D", bodyWith("tok_declined")))
	if v := w.timeline(d.PaymentID); v.Replays != 1 {
		t.Errorf("%d replays of the decline", v.Replays)
	}
	w.send(refund(p.ID, "O", `{"amount":1001}`)).want(http.StatusUnprocessableEntity, "over-refund", "new-key")
	w.send(refund(p.ID, "O", `{"amount":1001}`)).want(http.StatusUnprocessableEntity, "over-refund", "new-key")
	if v := w.timeline(p.ID); v.Replays != 3 {
		t.Errorf("%d replays after a refund's refusal", v.Replays)
	}
}

// TestTimeline: what happened, in order.
func TestTimeline(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("K", body1)).want(http.StatusCreated)
	w.send(refund(p.ID, "R", `{"amount":400}`)).want(http.StatusCreated)
	var types []string
	last := ""
	for _, e := range w.timeline(p.ID).Data {
		types = append(types, e.Type)
		if e.At < last || e.Attempt != 1 {
			t.Errorf("the event %+v comes after %s", e, last)
		}
		last = e.At
	}
	if got := strings.Join(types, " "); got != "claimed sent answered completed reserved refunded" {
		t.Errorf("the timeline is %s", got)
	}
}

// TestClientHangsUp: the work goes on without the client, and its retry gets
// the answer (case 58).
func TestClientHangsUp(t *testing.T) {
	w := newWorld(t, setup{})
	g := w.hold()
	ctx, hangUp := context.WithCancel(t.Context())
	request := must(pay("K", body1).request(ctx, w.url))(t)
	gone := make(chan error, 1)
	go func() {
		resp, err := client.Do(request)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	within(t, g.arrived)
	hangUp()
	if err := within(t, gone); err == nil {
		t.Fatal("the client did not hang up")
	}
	retry := w.later(pay("K", body1).with("Prefer", "wait=15"))
	w.open(g)
	r := within(t, retry)
	if r.want(http.StatusCreated); !r.replayed() {
		t.Error("the retry ran again")
	}
	w.wantMoved("charge 1000 usd")
}
