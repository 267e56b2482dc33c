package payments

import "time"

// Step is the next thing to do about an unknown.
type Step string

const (
	StepRead   Step = "read"   // ask for the object by the provider's id
	StepResend Step = "resend" // the same bytes under the same key
	StepFind   Step = "find"   // list what the send may have made and match our reference
)

// checkDelays are the waits between looks at an unknown; the last one repeats
// until the key window is over.
var checkDelays = []time.Duration{
	time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second,
	30 * time.Second, 60 * time.Second, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour,
}

// readEvery is the wait between looks once no send is allowed any more.
const readEvery = 24 * time.Hour

// NextStep says what to do about the unknown now. A re-send is "query or
// execute" and is allowed only while the provider absorbs it, counted from the
// first send and not from the last.
func (d Dispatch) NextStep(now time.Time, f Facts) Step {
	switch {
	case d.ProviderID != "":
		return StepRead
	case !d.ReadsOnly && d.WindowLeft(now, f) > 0:
		return StepResend
	default:
		return StepFind
	}
}

// WindowLeft is how long a re-send is still absorbed. Its first byte must go
// out within, however late after NextStep that is.
func (d Dispatch) WindowLeft(now time.Time, f Facts) time.Duration {
	return d.FirstSentAt.Add(f.KeyWindow).Sub(now)
}

// Plan returns the dispatch with one more check counted and the one after it
// planned, as it is stored before the check begins: a crash in the middle then
// costs one interval and nothing else. A re-send also counts as a send.
func (d Dispatch) Plan(step Step, now time.Time, f Facts) Dispatch {
	d.Checks++
	if step == StepResend {
		d.Sends++
	}
	d.settle(PendingUnknown, now, f)
	return d
}

// nextCheck is when to look again.
func (d Dispatch) nextCheck(now time.Time, f Facts) time.Time {
	delay := checkDelays[min(d.Checks, len(checkDelays)-1)]
	windowEnd, absentFrom := d.FirstSentAt.Add(f.KeyWindow), d.absentFrom(f)
	if d.Checks >= len(checkDelays) && !now.Before(windowEnd) {
		delay = readEvery
	}
	if d.Absences > 0 {
		// The second list that proves absence must not be the same glitch as the first.
		delay = min(delay, f.AbsenceGrace/24)
	}
	next := now.Add(max(delay, time.Second))
	if now.Before(absentFrom) && next.After(absentFrom) {
		next = absentFrom // the earliest moment at which a list proves something
	}
	return next
}

// Abandoned returns the dispatch of an attempt whose worker is gone: it may
// have acted, and is looked at at once.
func (d Dispatch) Abandoned(now time.Time, f Facts) Dispatch {
	d.Ambiguous = true
	d.settle(PendingUnknown, now, f)
	d.NextCheckAt = now
	return d
}
