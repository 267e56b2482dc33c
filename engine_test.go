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
