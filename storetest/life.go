package storetest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

const (
	keep = 24 * time.Hour // retention, and tombstones' time, in the tests of this file
	dead = onlyonce.Token("stale")
	mine = onlyonce.Token("mine")
)

// state brings a fresh key to a place in its life.
type state struct {
	name   string
	status onlyonce.Status
	mine   bool // the row's owner is mine
	lapsed bool // unfinished and past its lease, or finished and past its time
	point  onlyonce.Point
}

func states() []state {
	return []state{
		{name: "absent"},
		{name: "running, mine", status: onlyonce.InProgress, mine: true, point: onlyonce.Started},
		{name: "running, another's", status: onlyonce.InProgress, point: onlyonce.Started},
		{name: "lapsed, mine", status: onlyonce.InProgress, mine: true, lapsed: true, point: onlyonce.Started},
		{name: "lapsed, another's", status: onlyonce.InProgress, lapsed: true, point: onlyonce.Started},
		{name: "dispatched, mine", status: onlyonce.InProgress, mine: true, point: onlyonce.Dispatched},
		{name: "unknown, mine", status: onlyonce.InProgress, mine: true, point: onlyonce.Unknown},
		{name: "unknown, lapsed", status: onlyonce.InProgress, lapsed: true, point: onlyonce.Unknown},
		{name: "completed", status: onlyonce.Completed, mine: true},
		{name: "completed, expired", status: onlyonce.Completed, mine: true, lapsed: true},
		{name: "tombstone", status: onlyonce.Tombstone, mine: true},
		{name: "tombstone, over", status: onlyonce.Tombstone, mine: true, lapsed: true},
	}
}

// expect says what a verb makes of a state: the status after it and whether
// the verb reported that it did something.
func expect(st state, verb string) (after onlyonce.Status, did bool) {
	open := st.status == onlyonce.InProgress
	switch {
	case verb == "claim" && st.status == "":
		return onlyonce.InProgress, true
	case verb == "takeover" && open && st.lapsed, verb == "advance" && open && st.mine:
		return onlyonce.InProgress, true
	case verb == "finish" && open && st.mine:
		return onlyonce.Completed, true
	case verb == "release" && open && st.mine && st.point == onlyonce.Started:
		return "", true
	case verb == "reap" && st.status == onlyonce.Completed && st.lapsed:
		return onlyonce.Tombstone, true
	case verb == "reap" && st.status == onlyonce.Tombstone && st.lapsed:
		return "", true
	}
	return st.status, false
}

// testMatrix plays every state against every verb and compares with the
// transition table of onlyonce.Status and with the contract of the verb.
func testMatrix(t *testing.T, s Subject) {
	clock := time.Duration(0)
	n := 0
	for _, st := range states() {
		for _, verb := range []string{"claim", "takeover", "advance", "finish", "release", "reap"} {
			n++
			key := fmt.Sprintf("k%02d", n)
			clock += prepare(t, s, st, key, clock)
			before := load(t, s, intent(key, "").Key)
			if before.Status != st.status {
				t.Fatalf("%s: the key could not be brought there, it is %q", st.name, before.Status)
			}
			did := act(t, s, verb, key, before)
			after := load(t, s, intent(key, "").Key)
			want, wantDid := expect(st, verb)
			if after.Status != want || did != wantDid {
				t.Errorf("%s × %s: became %q (did: %v), want %q (did: %v)", st.name, verb, after.Status, did, want, wantDid)
			}
			if did && !before.Status.CanBecome(after.Status) {
				t.Errorf("%s × %s: %q may not become %q", st.name, verb, before.Status, after.Status)
			}
			if !did {
				after.Now = before.Now
				if !reflect.DeepEqual(before, after) {
					t.Errorf("%s × %s changed the row though it did nothing:\n%+v\n%+v", st.name, verb, before, after)
				}
			}
		}
	}
}

// prepare brings a key into a state and returns by how much it moved the clock.
func prepare(t *testing.T, s Subject, st state, key string, clock time.Duration) (moved time.Duration) {
	owner := dead
	if st.mine {
		owner = mine
	}
	move := func(d time.Duration) {
		moved += d
		s.Skew(clock + moved)
	}
	c := []onlyonce.Claim{claim(key, owner)}
	if st.status == "" {
		return 0
	}
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		if st.point != "" {
			c[0].Point = st.point
		}
		if _, err := s.Store.Claim(ctx, tx, c); err != nil {
			return err
		}
		if st.status != onlyonce.InProgress {
			_, err := s.Store.Finish(ctx, tx, c, []onlyonce.Outcome{{Status: 200, Body: []byte("x")}}, keep)
			return err
		}
		return nil
	})
	switch {
	case st.status == onlyonce.InProgress && st.lapsed:
		move(c[0].Lease)
	case st.status == onlyonce.Completed && st.lapsed:
		move(keep)
	case st.status == onlyonce.Tombstone:
		move(keep)
		act(t, s, "reap", key, onlyonce.Record{})
		if st.lapsed {
			move(keep)
		}
	}
	return moved
}

// act runs a verb as mine and reports whether it said that it did something.
func act(t *testing.T, s Subject, verb, key string, rec onlyonce.Record) (did bool) {
	c := []onlyonce.Claim{claim(key, mine)}
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		var hit []bool
		var recs []onlyonce.Record
		var err error
		switch verb {
		case "claim":
			c[0].Owner = "new"
			recs, err = s.Store.Claim(ctx, tx, c)
		case "takeover":
			c[0].Owner, c[0].Attempt = "new", rec.Attempt
			recs, err = s.Store.TakeOver(ctx, tx, c)
		case "advance":
			c[0].Point = "half way"
			hit, err = s.Store.Advance(ctx, tx, c)
		case "finish":
			hit, err = s.Store.Finish(ctx, tx, c, []onlyonce.Outcome{{Status: 201}}, keep)
		case "release":
			hit, err = s.Store.Release(ctx, tx, c)
		case "reap":
			var n int64
			n, err = s.Store.Reap(ctx, tx, []onlyonce.Key{c[0].Key}, keep)
			did = n == 1
		}
		if len(recs) == 1 {
			did = recs[0].Owner == c[0].Owner
		}
		if len(hit) == 1 {
			did = hit[0]
		}
		return err
	})
	return did
}
