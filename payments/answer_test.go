package payments_test

import (
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

var (
	sent  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	facts = payments.Facts{KeyWindow: 24 * time.Hour, AbsenceGrace: 24 * time.Hour}
)

// unsettled is a dispatch whose first send is out.
func unsettled() payments.Dispatch {
	return payments.Dispatch{
		Account: "17", Resource: "pay_1", Kind: payments.KindPayment, FirstSentAt: sent, Sends: 1,
		Request: payments.Request{Body: []byte("secret"), Version: "v"},
	}
}

const (
	unknown = payments.PendingUnknown
	review  = payments.Review
	failed  = payments.Failed
	ok      = payments.Succeeded
)

// The table "what the provider's answer means", for each kind after nothing
// and after an ambiguous attempt.
var answers = []struct {
	kind      payments.AnswerKind
	first     payments.State
	tainted   payments.State
	taints    bool
	readsOnly bool
	alarm     bool
	event     payments.EventType
}{
	{payments.AnswerNotSent, unknown, unknown, false, false, false, payments.EventNotSent},
	{payments.AnswerSucceeded, ok, ok, false, false, false, payments.EventAnswered},
	{payments.AnswerProcessing, unknown, unknown, true, true, false, payments.EventAnswered},
	{payments.AnswerFailed, failed, failed, false, false, false, payments.EventAnswered},
	{payments.AnswerConflict, review, review, true, true, true, payments.EventAnswered},
	{payments.AnswerUnauthorized, unknown, unknown, false, false, true, payments.EventAnswered},
	{payments.AnswerRejected, failed, unknown, false, false, false, payments.EventAnswered},
	{payments.AnswerKeyMisused, review, review, true, true, true, payments.EventAnswered},
	{payments.AnswerKeyInUse, unknown, unknown, true, false, false, payments.EventAnswered},
	{payments.AnswerRateLimited, unknown, unknown, false, false, false, payments.EventAnswered},
	{payments.AnswerMaybe, unknown, unknown, true, false, false, payments.EventTimedOut},
	{payments.AnswerPinned, unknown, unknown, true, true, false, payments.EventAnswered},
	{payments.AnswerNotFound, unknown, unknown, false, false, false, payments.EventChecked},
	{payments.AnswerUnread, unknown, unknown, false, false, false, payments.EventChecked},
	{"never heard of", review, review, true, true, true, payments.EventAnswered},
}

func TestWhatEachAnswerDoes(t *testing.T) {
	for _, row := range answers {
		for _, tainted := range []bool{false, true} {
			d := unsettled()
			d.Ambiguous = tainted
			want := row.first
			if tainted {
				want = row.tainted
			}
			got, ruling := d.Rule(payments.Answer{Kind: row.kind, Code: "a_code"}, sent.Add(time.Second), facts)
			if ruling.State != want || ruling.Event != row.event || ruling.Alarm != row.alarm {
				t.Errorf("%s, tainted %t: %+v, want %s, %s, alarm %t", row.kind, tainted, ruling, want, row.event, row.alarm)
			}
			if got.Ambiguous != (tainted || row.taints) || got.ReadsOnly != row.readsOnly {
				t.Errorf("%s, tainted %t: ambiguous %t, reads only %t", row.kind, tainted, got.Ambiguous, got.ReadsOnly)
			}
			if code := map[bool]string{true: "a_code"}[want == failed]; ruling.DeclineCode != code {
				t.Errorf("%s, tainted %t: decline code %q, want %q", row.kind, tainted, ruling.DeclineCode, code)
			}
			settled(t, string(row.kind), got, want)
		}
	}
}

// settled checks what belongs to a state: the secret lives only as long as it
// may have to be sent, and only an unknown is looked at again.
func settled(t *testing.T, name string, d payments.Dispatch, state payments.State) {
	t.Helper()
	switch {
	case state.Final() && (d.Request.Body != nil || !d.UnknownSince.IsZero() || !d.NextCheckAt.IsZero()):
		t.Errorf("%s: a final dispatch is %+v", name, d)
	case state == unknown && (d.UnknownSince.IsZero() || d.NextCheckAt.IsZero() || d.Request.Body == nil):
		t.Errorf("%s: an unknown dispatch is %+v", name, d)
	case state == review && (!d.NextCheckAt.IsZero() || d.Request.Body == nil):
		t.Errorf("%s: a dispatch in review is %+v", name, d)
	}
	if d.Request.Version != "v" {
		t.Errorf("%s: the version is gone", name)
	}
}

// P3: once an attempt may have acted, no refusal of a later one is a failure.
func TestNothingButProofFailsATaintedDispatch(t *testing.T) {
	for _, taint := range answers {
		if !taint.taints || taint.first != unknown {
			continue
		}
		d, _ := unsettled().Rule(payments.Answer{Kind: taint.kind}, sent.Add(time.Second), facts)
		for _, later := range answers {
			if _, ruling := d.Rule(payments.Answer{Kind: later.kind}, sent.Add(2*time.Second), facts); ruling.State == failed &&
				later.kind != payments.AnswerFailed {
				t.Errorf("%s, then %s: failed", taint.kind, later.kind)
			}
		}
	}
}

func TestAnIDOnceKnownIsKept(t *testing.T) {
	d, _ := unsettled().Rule(payments.Answer{Kind: payments.AnswerProcessing, ProviderID: "pi_1"}, sent, facts)
	d, _ = d.Rule(payments.Answer{Kind: payments.AnswerUnread}, sent.Add(time.Minute), facts)
	if d.ProviderID != "pi_1" {
		t.Errorf("the id is %q", d.ProviderID)
	}
}

func TestUnknownSinceIsTheFirstDoubt(t *testing.T) {
	d, _ := unsettled().Rule(payments.Answer{Kind: payments.AnswerMaybe}, sent.Add(time.Second), facts)
	d, _ = d.Rule(payments.Answer{Kind: payments.AnswerMaybe}, sent.Add(time.Hour), facts)
	if !d.UnknownSince.Equal(sent.Add(time.Second)) {
		t.Errorf("unknown since %v", d.UnknownSince)
	}
}

// Absence is proved by two whole lists past the key window and its grace, and
// by nothing less.
func TestAbsence(t *testing.T) {
	from := sent.Add(facts.KeyWindow + facts.AbsenceGrace)
	notFound := payments.Answer{Kind: payments.AnswerNotFound}
	type look struct {
		at     time.Time
		answer payments.Answer
		want   payments.State
	}
	for name, row := range map[string]struct {
		id    string
		looks []look
	}{
		"twice, in time": {"", []look{{from, notFound, unknown}, {from.Add(time.Hour), notFound, failed}}},
		"too early": {"", []look{
			{sent.Add(time.Second), notFound, unknown}, {from.Add(-time.Microsecond), notFound, unknown},
			{from, notFound, unknown},
		}},
		"once and an unread list": {"", []look{
			{from, notFound, unknown}, {from.Add(time.Hour), payments.Answer{Kind: payments.AnswerUnread}, unknown},
			{from.Add(2 * time.Hour), notFound, failed},
		}},
		"the provider gave an id": {"pi_1", []look{
			{from, notFound, unknown}, {from.Add(time.Hour), notFound, unknown}, {from.Add(2 * time.Hour), notFound, unknown},
		}},
		"found after all": {"", []look{
			{from, notFound, unknown}, {from.Add(time.Hour), payments.Answer{Kind: payments.AnswerSucceeded}, ok},
		}},
	} {
		d := unsettled()
		d.ProviderID, d.Ambiguous = row.id, true
		for i, l := range row.looks {
			var ruling payments.Ruling
			d, ruling = d.Rule(l.answer, l.at, facts)
			if ruling.State != l.want {
				t.Errorf("%s: look %d: %s, want %s", name, i+1, ruling.State, l.want)
			}
			if ruling.State == failed && ruling.DeclineCode != "not_executed" {
				t.Errorf("%s: decline code %q", name, ruling.DeclineCode)
			}
			settled(t, name, d, l.want)
		}
	}
}

// On day 7 an unknown goes to a person, unless the provider has said that it
// is at work; no timer ever makes it a failure.
func TestDaySeven(t *testing.T) {
	day7 := sent.Add(7 * 24 * time.Hour)
	for _, row := range answers {
		if row.first != unknown {
			continue
		}
		d := unsettled()
		d.ProviderID = "pi_1" // absence is another test
		_, before := d.Rule(payments.Answer{Kind: row.kind}, day7.Add(-time.Microsecond), facts)
		after, at := d.Rule(payments.Answer{Kind: row.kind}, day7, facts)
		if before.State != unknown {
			t.Errorf("%s before day 7: %s", row.kind, before.State)
		}
		if row.kind == payments.AnswerProcessing {
			if at.State != unknown || at.Alarm {
				t.Errorf("the provider is at work: %+v", at)
			}
			continue
		}
		if at.State != review || !at.Alarm {
			t.Errorf("%s on day 7: %+v", row.kind, at)
		}
		settled(t, string(row.kind), after, review)
	}
}

func TestDaySevenSparesWhatTheProviderIsWorkingOn(t *testing.T) {
	d, _ := unsettled().Rule(payments.Answer{Kind: payments.AnswerProcessing, ProviderID: "pi_1"}, sent, facts)
	late := sent.Add(30 * 24 * time.Hour)
	d, ruling := d.Rule(payments.Answer{Kind: payments.AnswerUnread}, late, facts)
	if ruling.State != unknown || !d.Accepted {
		t.Errorf("an unread look: %+v", ruling)
	}
	if _, ruling = d.Rule(payments.Answer{Kind: payments.AnswerNotFound}, late, facts); ruling.State != review {
		t.Errorf("it is gone from the provider: %+v", ruling)
	}
}
