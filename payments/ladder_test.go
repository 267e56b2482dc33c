package payments_test

import (
	"slices"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

func TestTheNextStep(t *testing.T) {
	windowEnd := sent.Add(facts.KeyWindow)
	for name, row := range map[string]struct {
		id        string
		readsOnly bool
		at        time.Time
		want      payments.Step
	}{
		"young":                 {"", false, sent.Add(time.Second), payments.StepResend},
		"last moment":           {"", false, windowEnd.Add(-time.Microsecond), payments.StepResend},
		"window over":           {"", false, windowEnd, payments.StepFind},
		"long ago":              {"", false, windowEnd.Add(1000 * time.Hour), payments.StepFind},
		"pinned":                {"", true, sent.Add(time.Second), payments.StepFind},
		"id known":              {"pi_1", false, sent.Add(time.Second), payments.StepRead},
		"id known, window over": {"pi_1", true, windowEnd, payments.StepRead},
	} {
		d := unsettled()
		d.ProviderID, d.ReadsOnly = row.id, row.readsOnly
		if got := d.NextStep(row.at, facts); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// The window counts from the first send. A last send that moved it would
// charge anew once the provider forgot the key.
func TestNoReSendMovesTheWindow(t *testing.T) {
	d := unsettled()
	for range 5 {
		d = d.Plan(payments.StepResend, sent.Add(23*time.Hour), facts)
	}
	if d.Sends != 6 || !d.FirstSentAt.Equal(sent) || d.NextStep(sent.Add(facts.KeyWindow), facts) != payments.StepFind {
		t.Errorf("after five re-sends: %+v", d)
	}
	if d = d.Plan(payments.StepRead, sent, facts); d.Sends != 6 || d.Checks != 6 {
		t.Errorf("a read counts as %d sends, %d checks", d.Sends-6, d.Checks-5)
	}
}

// look plays the ladder from the first doubt on, every answer the same, and
// returns when each look happened after the first send.
func look(kind payments.AnswerKind, f payments.Facts, most int) (at []time.Duration, end payments.State) {
	d, ruling := unsettled().Rule(payments.Answer{Kind: payments.AnswerMaybe}, sent, f)
	for range most {
		if ruling.State != unknown {
			break
		}
		now := d.NextCheckAt
		at = append(at, now.Sub(sent))
		d = d.Plan(d.NextStep(now, f), now, f)
		d, ruling = d.Rule(payments.Answer{Kind: kind}, now, f)
	}
	return at, ruling.State
}

func TestTheScheduleOfLooks(t *testing.T) {
	at, end := look(payments.AnswerUnread, facts, 1000)
	s, h := time.Second, time.Hour
	want := []time.Duration{1 * s, 3 * s, 7 * s, 15 * s, 30 * s, 60 * s, 120 * s, 420 * s, 1320 * s, 4920 * s}
	if len(at) < len(want) || !slices.Equal(at[:len(want)], want) {
		t.Fatalf("the first looks are at %v", at[:min(len(at), len(want))])
	}
	for i := len(want); i < len(at); i++ {
		switch gap := at[i] - at[i-1]; {
		case at[i-1] < 24*h && gap != 3*h:
			t.Errorf("after %v the next look is in %v", at[i-1], gap)
		case at[i-1] >= 24*h && gap != 24*h && at[i] != 48*h:
			t.Errorf("after %v, past the window, the next look is in %v", at[i-1], gap)
		}
	}
	if !slices.Contains(at, 48*h) {
		t.Errorf("no look at the first moment that proves absence: %v", at)
	}
	if last := at[len(at)-1]; end != review || last < 168*h || last >= 168*h+24*h {
		t.Errorf("it ends as %s after %v", end, last)
	}
}

// http-api.md: once the provider is honest again, a young unknown is final
// within 40 s.
func TestAYoungUnknownIsLookedAtWithinFortySeconds(t *testing.T) {
	at, _ := look(payments.AnswerMaybe, facts, 7)
	for i := 1; i < len(at); i++ {
		if at[i] <= 60*time.Second && at[i]-at[i-1] > 40*time.Second {
			t.Errorf("nobody looks between %v and %v", at[i-1], at[i])
		}
	}
}

// The second list that proves absence comes soon after the first, and not in
// the same breath.
func TestAbsenceEndsAnUnknown(t *testing.T) {
	for _, f := range []payments.Facts{facts, {KeyWindow: time.Minute, AbsenceGrace: time.Minute}} {
		at, end := look(payments.AnswerNotFound, f, 1000)
		first := f.KeyWindow + f.AbsenceGrace
		if end != failed || len(at) < 2 {
			t.Errorf("%+v: it ends as %s after %v", f, end, at)
			continue
		}
		n := len(at)
		if at[n-2] != first || at[n-1] <= first || at[n-1] > first+f.AbsenceGrace/24+time.Second {
			t.Errorf("%+v: the last two looks are at %v and %v", f, at[n-2], at[n-1])
		}
	}
}

func TestAnAbandonedAttemptMayHaveActedAndIsLookedAtNow(t *testing.T) {
	now := sent.Add(time.Minute)
	d := unsettled().Abandoned(now, facts)
	if !d.Ambiguous || !d.NextCheckAt.Equal(now) || !d.UnknownSince.Equal(now) || d.Request.Body == nil {
		t.Errorf("got %+v", d)
	}
}
