package onlyonce

import (
	"fmt"
	"slices"
	"time"
)

// Status is where a key stands in its life. The zero value means that there is
// no row: the key is free.
type Status string

const (
	InProgress Status = "in_progress" // claimed, not finished; never expires
	Completed  Status = "completed"   // finished, its outcome is kept for the retention
	Tombstone  Status = "tombstone"   // its outcome is gone, what it made is still named
)

// transitions is the whole life of a key. The conformance suite plays every
// pair of statuses against a real store and compares with it.
var transitions = map[Status][]Status{
	"":         {InProgress},                // claim
	InProgress: {InProgress, Completed, ""}, // takeover, advance; finish; release
	Completed:  {Tombstone},                 // retention is over
	Tombstone:  {""},                        // the tombstone's time is over
}

// CanBecome reports whether a key may go from s to next in one step.
func (s Status) CanBecome(next Status) bool {
	return slices.Contains(transitions[s], next)
}

// Point is a recovery point: the named place from which an unfinished key is
// resumed. Callers may use names of their own, at most 64 bytes; these three
// mean something to the engine.
type Point string

const (
	// Started: nothing has left this process. The claim may be released, and
	// whoever takes it over runs the work from its beginning.
	Started Point = "started"
	// Dispatched: the intent to act outside is durable, so the effect may have
	// happened. Nothing releases the key any more, and whoever takes it over
	// asks instead of acting.
	Dispatched Point = "dispatched"
	// Unknown: the effect was dispatched and no proof of its result has been
	// seen. Requests get [ErrUnknown]; only the caller's resolver takes it over.
	Unknown Point = "unknown"
)

// Token says whose a claim is. It is random, so that a stale owner can never
// be taken for the present one; every write of an owner is fenced by it.
type Token string

// Record is a key's row as it was read.
type Record struct {
	Intent
	Status      Status
	Owner       Token
	Attempt     int // of the last claim, counted from 1
	LeaseUntil  time.Time
	Point       Point
	Resource    string   // what the intent made, for example a payment's id; at most 255 bytes
	Outcome     *Outcome // non-nil exactly when Status is Completed
	CreatedAt   time.Time
	CompletedAt time.Time // zero while in progress
	ExpiresAt   time.Time // zero while in progress; for a tombstone the end of its own time
	Now         time.Time // the database's clock when the row was read
}

// Lapsed reports whether an unfinished claim has outlived its lease, judged by
// the database's clock alone.
func (r Record) Lapsed() bool {
	return r.Status == InProgress && !r.Now.Before(r.LeaseUntil)
}

// Expired reports whether a finished key's outcome is past its retention,
// whether or not the reaper has come by.
func (r Record) Expired() bool {
	return r.Status == Tombstone || r.Status == Completed && !r.Now.Before(r.ExpiresAt)
}

// Claim is the right to work on a key now, and all that a write under it says.
type Claim struct {
	Intent
	Owner    Token
	Attempt  int
	Lease    time.Duration // how long it is left alone, from the database's now at each write
	Point    Point
	Resource string
}

// validate returns why what the claim says of itself can't be stored, or nil.
func (c Claim) validate() error {
	if err := checkText("recovery point", string(c.Point), maxPointBytes); err != nil {
		return fmt.Errorf("key %v: %w", c.Key, err)
	}
	if err := checkText("resource", c.Resource, maxResourceBytes); err != nil {
		return fmt.Errorf("key %v: %w", c.Key, err)
	}
	return nil
}
