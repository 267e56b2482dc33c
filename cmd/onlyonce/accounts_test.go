package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

const ownKey = "a_key_of_our_own_making"

func addedKey(t *testing.T, r result) string {
	t.Helper()
	var line newKeyLine
	if err := json.Unmarshal([]byte(r.must(t, exitOK).stdout), &line); err != nil {
		t.Fatal(err)
	}
	return line.APIKey
}

func TestLifeOfAnAccount(t *testing.T) {
	file := migrated(t)
	first := addedKey(t, command(t, "accounts", "add", "shop", "--db", file, "--json"))
	if !strings.HasPrefix(first, testKeyPrefix) || len(first) != len(testKeyPrefix)+2*apiKeyBytes {
		t.Errorf("the key %q is not prefix and 256 bits", first)
	}
	says(t, command(t, "accounts", "add", "shop", "--db", file).must(t, exitUsage).stderr, "accounts rotate shop")

	second := addedKey(t, command(t, "accounts", "rotate", "shop", "--db", file, "--live", "--json"))
	if !strings.HasPrefix(second, liveKeyPrefix) || second[len(liveKeyPrefix):] == first[len(testKeyPrefix):] {
		t.Errorf("the second key is %q", second)
	}
	third := addedKey(t,
		command(t, "accounts", "rotate", "shop", "--db", file, "--overlap", "0s", "--key", ownKey, "--json"))
	if third != ownKey {
		t.Errorf("the given key became %q", third)
	}

	listed := command(t, "accounts", "list", "--db", file).must(t, exitOK).stdout
	if strings.Contains(listed, first) || strings.Contains(listed, ownKey) {
		t.Errorf("a key is shown again:\n%s", listed)
	}
	if strings.Count(listed, "expired") != 2 || strings.Count(listed, "works") != 1 {
		t.Errorf("two expired and one working key are wanted:\n%s", listed)
	}

	s := serving(t, file)
	for key, want := range map[string]int{first: 401, second: 401, third: 201} {
		if got, _ := charge(t, s.base, key, "k", "tok_ok"); got != want {
			t.Errorf("the key %.8s… gets %d, want %d", key, got, want)
		}
	}
	says(t, command(t, "accounts", "revoke", "shop", "--db", file).must(t, exitOK).stdout, "revoked")
	if got, _ := charge(t, s.base, third, "k", "tok_ok"); got != http.StatusUnauthorized {
		t.Errorf("a revoked key gets %d", got)
	}
	says(t, command(t, "accounts", "rotate", "other", "--db", file).must(t, exitUsage).stderr, "no account other")
	says(t, command(t, "accounts", "revoke", "other", "--db", file).must(t, exitUsage).stderr, "no account other")
}

func TestRotationOverlaps(t *testing.T) {
	file := migrated(t)
	first := addedKey(t, command(t, "accounts", "add", "shop", "--db", file, "--json"))
	r := command(t, "accounts", "rotate", "shop", "--db", file).must(t, exitOK)
	says(t, r.stdout, testKeyPrefix, "1 older key works until")
	s := serving(t, file)
	if got, _ := charge(t, s.base, first, "k", "tok_ok"); got != http.StatusCreated {
		t.Errorf("during the overlap the old key gets %d", got)
	}
	says(t, command(t, "accounts", "list", "--db", file, "--json").stdout, `"state":"ends"`, `"state":"works"`)
}

func TestKeysThatAreRefused(t *testing.T) {
	file := migrated(t)
	command(t, "accounts", "add", "one", "--db", file, "--key", ownKey).must(t, exitOK)
	for _, test := range []struct{ args, words []string }{
		{[]string{"add", "two", "--key", "short"}, []string{"has 5 characters", "20"}},
		{[]string{"add", "two", "--key", "with a space in the middle"}, []string{"may not hold"}},
		{[]string{"add", "two", "--key", ownKey}, []string{"--key", "another one"}},
		{[]string{"add", "two", "--key", ownKey + "2", "--live"}, []string{"--live", "--key"}},
		{[]string{"add", "a,b"}, []string{"account's name", "comma"}},
		{[]string{"add", strings.Repeat("x", 65)}, []string{"65 bytes", "1 to 64"}},
		{[]string{"rotate", "one", "--overlap=-1s"}, []string{"--overlap", "0s"}},
	} {
		args := append(append([]string{"accounts"}, test.args...), "--db", file)
		r := command(t, args...).must(t, exitUsage)
		says(t, r.stderr, test.words...)
		if strings.Contains(r.stderr, ownKey) {
			t.Errorf("the key is repeated: %s", r.stderr)
		}
	}
}

// ring is a database's keys in memory, with a rival that may be quicker.
type ring struct {
	keys  []db.APIKey
	rival func(*ring)
}

func (r *ring) APIKeys(context.Context, string) ([]db.APIKey, error) { return r.keys, nil }

func (r *ring) AddAPIKey(_ context.Context, k db.APIKey) error {
	if r.rival != nil {
		r.rival(r)
		return db.ErrConflict
	}
	r.keys = append(r.keys, k)
	return nil
}

func TestAccountsOfTheFlag(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	earlier, later := now.Add(-time.Hour), now.Add(time.Hour)
	key := func(account, secret string) db.APIKey { return db.APIKey{Account: account, Hash: db.HashKey(secret)} }
	revoked, expired, ending := key("a", "k"), key("a", "k"), key("a", "k")
	revoked.RevokedAt, expired.ExpiresAt, ending.ExpiresAt = earlier, earlier, later
	tests := []struct {
		name    string
		ring    *ring
		refused string // the cure, "" when it is fine
		stored  int
	}{
		{"absent", &ring{}, "", 1},
		{"present", &ring{keys: []db.APIKey{key("a", "k")}}, "", 1},
		{"present beside a dead one", &ring{keys: []db.APIKey{{Account: "a", RevokedAt: earlier}, key("a", "k")}}, "", 2},
		{"ending", &ring{keys: []db.APIKey{ending}}, "", 1},
		{"another key", &ring{keys: []db.APIKey{key("a", "x")}}, "accounts rotate a --key", 1},
		{"revoked", &ring{keys: []db.APIKey{revoked}}, "was revoked: leave it out", 1},
		{"expired", &ring{keys: []db.APIKey{expired}}, "has expired: leave it out", 1},
		{"another account's key", &ring{keys: []db.APIKey{key("b", "k")}}, "take another key", 1},
		{"a rival adds the same", &ring{rival: func(r *ring) { r.keys = []db.APIKey{key("a", "k")} }}, "", 1},
		{"a rival adds another", &ring{rival: func(r *ring) { r.keys = []db.APIKey{key("a", "x")} }}, "accounts rotate a", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := ensureAccount(t.Context(), test.ring, accountSetting{"a", "k"}, now)
			var usage usageError
			switch {
			case test.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.refused != "" && !errors.As(err, &usage):
				t.Errorf("not refused, but %v", err)
			case test.refused != "":
				says(t, err.Error(), test.refused)
			}
			if len(test.ring.keys) != test.stored {
				t.Errorf("%d keys are stored, want %d", len(test.ring.keys), test.stored)
			}
		})
	}
}
