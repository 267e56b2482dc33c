package onlyonce_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// anyStore is a store that no test of this file reaches.
type anyStore struct{ onlyonce.Store }

func TestNewRefusesWhatCouldLoseAnEffect(t *testing.T) {
	for name, c := range map[string]struct {
		options onlyonce.Options
		says    string // "" when it is accepted
	}{
		"defaults":             {onlyonce.Options{Store: anyStore{}}, ""},
		"no store":             {onlyonce.Options{}, "Options.Store"},
		"negative lease":       {onlyonce.Options{Store: anyStore{}, Lease: -1}, "Options.Lease"},
		"retention of an hour": {onlyonce.Options{Store: anyStore{}, Retention: time.Hour}, "UnsafeRetention"},
		"an hour, and meant":   {onlyonce.Options{Store: anyStore{}, Retention: time.Hour, UnsafeRetention: true}, ""},
		"retention of a day":   {onlyonce.Options{Store: anyStore{}, Retention: 24 * time.Hour}, ""},
		"negative retention":   {onlyonce.Options{Store: anyStore{}, Retention: -1, UnsafeRetention: true}, "negative"},
		"no tombstones at all": {onlyonce.Options{Store: anyStore{}, Tombstones: -1}, ""},
	} {
		_, err := onlyonce.New(c.options)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: got %v, want an error that says %q", name, err, c.says)
		}
	}
}

// What an engine could cut or refuse is refused before any statement: the
// store of this test panics when it is asked.
func TestTextsThatEnginesWouldTreatDifferently(t *testing.T) {
	once, err := onlyonce.New(onlyonce.Options{Store: anyStore{}})
	if err != nil {
		t.Fatal(err)
	}
	key := onlyonce.Key{Account: "17", Name: "k"}
	for _, bad := range []string{strings.Repeat("x", 256), "\xff", "a\x00b"} {
		in := onlyonce.Intent{Key: key, Operation: bad}
		if _, err := once.Begin(t.Context(), nil, in); err == nil {
			t.Errorf("the operation %.10q was taken", bad)
		}
		if _, err := once.Look(t.Context(), nil, in); err == nil {
			t.Errorf("the operation %.10q was looked for", bad)
		}
		for _, c := range []onlyonce.Claim{{Point: onlyonce.Point(bad)}, {Resource: bad}} {
			c.Key = key
			if err := once.Advance(t.Context(), nil, c); err == nil {
				t.Errorf("%+v was advanced", c)
			}
			if err := once.Finish(t.Context(), nil, c, onlyonce.Outcome{}); err == nil {
				t.Errorf("%+v was finished", c)
			}
		}
	}
}

func TestLifeOfAKey(t *testing.T) {
	for name, c := range map[string]struct {
		from, to onlyonce.Status
		ok       bool
	}{
		"claim":                             {"", onlyonce.InProgress, true},
		"a free key can't be finished":      {"", onlyonce.Completed, false},
		"takeover":                          {onlyonce.InProgress, onlyonce.InProgress, true},
		"finish":                            {onlyonce.InProgress, onlyonce.Completed, true},
		"release":                           {onlyonce.InProgress, "", true},
		"an unfinished key is never purged": {onlyonce.InProgress, onlyonce.Tombstone, false},
		"retention":                         {onlyonce.Completed, onlyonce.Tombstone, true},
		"no way back":                       {onlyonce.Completed, onlyonce.InProgress, false},
		"no shortcut past the tombstone":    {onlyonce.Completed, "", false},
		"the tombstone's end":               {onlyonce.Tombstone, "", true},
		"a tombstone stays dead":            {onlyonce.Tombstone, onlyonce.Completed, false},
	} {
		if got := c.from.CanBecome(c.to); got != c.ok {
			t.Errorf("%s: CanBecome is %v", name, got)
		}
	}
}
