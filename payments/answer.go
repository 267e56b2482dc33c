package payments

import "time"

// AnswerKind is what a provider's answer proves.
type AnswerKind string

const (
	AnswerNotSent      AnswerKind = "not_sent"     // no request byte was written
	AnswerSucceeded    AnswerKind = "succeeded"    // readable; amount, currency and reference as sent
	AnswerProcessing   AnswerKind = "processing"   // accepted, the provider itself waits
	AnswerFailed       AnswerKind = "failed"       // a definite decline, or an object in a failed state
	AnswerConflict     AnswerKind = "conflict"     // amount, currency, reference or status not as expected
	AnswerUnauthorized AnswerKind = "unauthorized" // 401, 403: our configuration
	AnswerRejected     AnswerKind = "rejected"     // 400, 404: this attempt never ran
	AnswerKeyMisused   AnswerKind = "key_misused"  // the key was used with other bytes: our bug
	AnswerKeyInUse     AnswerKind = "key_in_use"   // the first send still runs
	AnswerRateLimited  AnswerKind = "rate_limited" // not executed
	AnswerMaybe        AnswerKind = "maybe"        // timeout, reset, unreadable, 5xx
	AnswerPinned       AnswerKind = "pinned"       // a 5xx that the provider has bound to the key
	AnswerNotFound     AnswerKind = "not_found"    // a complete look-up did not show it
	AnswerUnread       AnswerKind = "unread"       // the look-up itself failed
)

// Answer is what came back from the provider, classified by its adapter.
type Answer struct {
	Kind       AnswerKind
	ProviderID string
	Code       string // the provider's decline or error code
	Detail     string // for the timeline and the log; no body, no secret
}

// Ruling is what an answer does to its resource.
type Ruling struct {
	State       State
	DeclineCode string
	Event       EventType
	Alarm       bool // a person must look: configuration or a bug
}

type ruleRow struct {
	first     State // when no earlier attempt is ambiguous
	tainted   State // when one is
	taints    bool  // this attempt may have acted
	readsOnly bool  // no further send
	alarm     bool
	event     EventType
}

// rules is the table "what the provider's answer means".
var rules = map[AnswerKind]ruleRow{
	AnswerNotSent:      {PendingUnknown, PendingUnknown, false, false, false, EventNotSent},
	AnswerSucceeded:    {Succeeded, Succeeded, false, false, false, EventAnswered},
	AnswerProcessing:   {PendingUnknown, PendingUnknown, true, true, false, EventAnswered},
	AnswerFailed:       {Failed, Failed, false, false, false, EventAnswered},
	AnswerConflict:     {Review, Review, true, true, true, EventAnswered},
	AnswerUnauthorized: {PendingUnknown, PendingUnknown, false, false, true, EventAnswered},
	AnswerRejected:     {Failed, PendingUnknown, false, false, false, EventAnswered},
	AnswerKeyMisused:   {Review, Review, true, true, true, EventAnswered},
	AnswerKeyInUse:     {PendingUnknown, PendingUnknown, true, false, false, EventAnswered},
	AnswerRateLimited:  {PendingUnknown, PendingUnknown, false, false, false, EventAnswered},
	AnswerMaybe:        {PendingUnknown, PendingUnknown, true, false, false, EventTimedOut},
	AnswerPinned:       {PendingUnknown, PendingUnknown, true, true, false, EventAnswered},
	AnswerNotFound:     {PendingUnknown, PendingUnknown, false, false, false, EventChecked},
	AnswerUnread:       {PendingUnknown, PendingUnknown, false, false, false, EventChecked},
}

// Facts are what a provider declares of itself.
type Facts struct {
	// KeyWindow is how long after the first send a re-send under the same key
	// is absorbed.
	KeyWindow time.Duration
	// AbsenceGrace is how long past the window an object may still turn up in
	// the provider's lists.
	AbsenceGrace time.Duration
}

const (
	// reviewAfter is the age at which an unknown goes to a person.
	reviewAfter = 7 * 24 * time.Hour
	// absencesNeeded is how many complete lists must lack an object before it
	// counts as never made.
	absencesNeeded = 2
	// CodeNotExecuted is the decline code of an effect whose absence is proved:
	// nobody declined it, it never ran.
	CodeNotExecuted = "not_executed"
)

// Rule applies an answer that came at now: it returns the dispatch as it is
// afterwards and what follows for the resource.
func (d Dispatch) Rule(a Answer, now time.Time, f Facts) (Dispatch, Ruling) {
	row, ok := rules[a.Kind]
	if !ok {
		row = rules[AnswerConflict] // an answer nobody has mapped is never guessed
	}
	ruling := Ruling{State: row.first, Event: row.event, Alarm: row.alarm}
	if d.Ambiguous {
		ruling.State = row.tainted
	}
	if a.ProviderID != "" {
		d.ProviderID = a.ProviderID
	}
	d.Ambiguous = d.Ambiguous || row.taints
	d.ReadsOnly = d.ReadsOnly || row.readsOnly
	d.Accepted = a.Kind == AnswerProcessing || d.Accepted && a.Kind == AnswerUnread
	if a.Kind == AnswerNotFound && d.provesAbsence(now, f) {
		d.Absences++
		if d.Absences >= absencesNeeded {
			ruling.State, a.Code = Failed, CodeNotExecuted
		}
	}
	if ruling.State == PendingUnknown && !d.Accepted && now.Sub(d.FirstSentAt) >= reviewAfter {
		ruling.State, ruling.Alarm = Review, true
	}
	if ruling.State == Failed {
		ruling.DeclineCode = a.Code
	}
	d.settle(ruling.State, now, f)
	return d, ruling
}

// provesAbsence reports whether a complete list that lacks the object counts.
// An object whose id the provider once gave us can't be absent.
func (d Dispatch) provesAbsence(now time.Time, f Facts) bool {
	return d.ProviderID == "" && !now.Before(d.absentFrom(f))
}

func (d Dispatch) absentFrom(f Facts) time.Time {
	return d.FirstSentAt.Add(f.KeyWindow + f.AbsenceGrace)
}

// settle blanks the secret and ends the checks of what is final, and plans
// the next check of what is not.
func (d *Dispatch) settle(state State, now time.Time, f Facts) {
	switch state {
	case Succeeded, Failed:
		d.Request.Body = nil
		d.UnknownSince, d.NextCheckAt = time.Time{}, time.Time{}
	case Review:
		d.NextCheckAt = time.Time{}
	case PendingUnknown:
		if d.UnknownSince.IsZero() {
			d.UnknownSince = now
		}
		d.NextCheckAt = d.nextCheck(now, f)
	}
}
