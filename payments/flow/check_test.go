package flow_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// dispatchRow is a dispatch as it stands in the table.
type dispatchRow struct {
	sends, checks, absences        int
	ambiguous, readsOnly, accepted bool
	hasRequest                     bool
	providerID                     string
	firstSent, unknownSince, next  time.Time
}

func (w *world) dispatch(resource string) (d dispatchRow) {
	w.t.Helper()
	var first, since, next int64
	row := w.raw.QueryRowContext(w.t.Context(), w.rebind(`SELECT sends, checks, absences, ambiguous, reads_only, accepted,
		request IS NOT NULL, provider_id, first_sent_at, unknown_since, next_check_at
		FROM dispatches WHERE resource_id = ?`), resource)
	must(w.t, row.Scan(&d.sends, &d.checks, &d.absences, &d.ambiguous, &d.readsOnly, &d.accepted, &d.hasRequest,
		&d.providerID, &first, &since, &next))
	for at, us := range map[*time.Time]int64{&d.firstSent: first, &d.unknownSince: since, &d.next: next} {
		if us != 0 {
			*at = time.UnixMicro(us).UTC()
		}
	}
	return d
}

// state reads a payment's or refund's state and version.
func (w *world) state(resource string) (s payments.State, version int) {
	w.t.Helper()
	if payments.KindOf(resource) == payments.KindRefund {
		r, err := w.db.Refund(w.t.Context(), account, resource)
		must(w.t, err)
		return r.State, r.Version
	}
	p := w.payment(resource)
	return p.State, p.Version
}

// timeline reads a resource's events and checks that they have no gap and end
// where the resource stands.
func (w *world) timeline(resource string) []payments.Event {
	w.t.Helper()
	events, more, err := w.db.Events(w.t.Context(), account, resource, 0, 1000)
	must(w.t, err)
	state, version := w.state(resource)
	if more || len(events) != version || len(events) == 0 {
		w.t.Fatalf("%s has %d events (more %v) and version %d", resource, len(events), more, version)
	}
	for i, e := range events {
		if e.Version != i+1 {
			w.t.Fatalf("event %d of %s has version %d", i, resource, e.Version)
		}
		if strings.Contains(e.Detail, "pm_secret") {
			w.t.Errorf("event %d of %s shows the secret", i, resource)
		}
	}
	if last := events[len(events)-1]; last.State != state {
		w.t.Errorf("the last event of %s says %s, the row %s", resource, last.State, state)
	}
	return events
}

func types(events []payments.Event) string {
	var words []string
	for _, e := range events {
		words = append(words, string(e.Type))
	}
	return strings.Join(words, " ")
}

// checkSettled asserts what must hold of every intent that ended: its money
// moved once or not at all as its outcome says, and every further request gets
// the same bytes.
func (w *world) checkSettled(key string, send func() (flow.Answer, error)) {
	w.t.Helper()
	rec := w.record(key)
	if rec.Status != onlyonce.Completed || rec.Outcome == nil {
		w.t.Fatalf("key %s is %s at %s, want completed", key, rec.Status, rec.Point)
	}
	for range 2 {
		a, err := send()
		if err != nil || a.Outcome == nil || !a.Replayed || !sameOutcome(*a.Outcome, *rec.Outcome) {
			w.t.Fatalf("key %s: replay is %s, stored is %s", key, show(a, err), rec.Outcome.Body)
		}
	}
	if rec.Resource == "" {
		return
	}
	w.timeline(rec.Resource)
	state, _ := w.state(rec.Resource)
	want := 0
	if state == payments.Succeeded {
		want = 1
	}
	if (rec.Outcome.Status == 201) != (want == 1) || !state.Final() {
		w.t.Errorf("key %s: outcome %d, state %s", key, rec.Outcome.Status, state)
	}
	if made := w.fake.made(rec.Resource); len(made) != want {
		w.t.Errorf("key %s: state %s and %d effects at the provider: %v", key, state, len(made), made)
	}
	if d := w.dispatch(rec.Resource); d.hasRequest || !d.next.IsZero() || !d.unknownSince.IsZero() {
		w.t.Errorf("key %s: the dispatch of a final resource is %+v", key, d)
	}
}

func sameOutcome(a, b onlyonce.Outcome) bool {
	return a.Status == b.Status && bytes.Equal(a.Body, b.Body) &&
		maps.EqualFunc(a.Header, b.Header, slices.Equal)
}

// checkBytes asserts that all sends of a resource had one key and one body.
func (w *world) checkBytes(resource string) (sends int) {
	w.t.Helper()
	var first *call
	for _, c := range w.fake.seen("execute") {
		if c.d.Resource != resource {
			continue
		}
		sends++
		if first == nil {
			first = &c
		}
		if c.d.ProviderKey != first.d.ProviderKey || !bytes.Equal(c.d.Request.Body, first.d.Request.Body) ||
			len(c.d.Request.Body) == 0 {
			w.t.Errorf("send %d of %s has another key or body: %q %q", sends, resource, c.d.ProviderKey, c.d.Request.Body)
		}
	}
	return sends
}

// finish lets everything that finishes an intent work until it is over: the
// client's retries, if it comes back, the completer and the resolver.
func (w *world) finish(key string, send func() (flow.Answer, error)) {
	w.t.Helper()
	const rounds = 40 // the ladder inside the key window has fewer steps
	for range rounds {
		if w.record(key).Status == onlyonce.Completed {
			return
		}
		w.clock.advance(w.engine.Lease() + time.Second)
		if send != nil {
			if a, err := send(); err != nil {
				w.t.Fatalf("retry of %s: %s", key, show(a, err))
			}
		}
		_, err := w.completer().Sweep(w.t.Context())
		must(w.t, err)
		w.sweep()
	}
	w.t.Fatalf("key %s is not settled after %d rounds: %+v", key, rounds, w.record(key))
}
