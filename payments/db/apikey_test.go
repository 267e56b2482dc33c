package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

func (b *bench) signsIn(secret string) bool {
	b.t.Helper()
	k, err := b.db.Authenticate(b.t.Context(), secret)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		b.t.Fatal(err)
	}
	if err == nil && (k.Hash != db.HashKey(secret) || k.Role != db.RoleAccount) {
		b.t.Errorf("%s signs in as %+v", secret, k)
	}
	return err == nil
}

func (b *bench) addKey(account, secret string) {
	b.t.Helper()
	must(b.t, b.db.AddAPIKey(b.t.Context(), db.APIKey{Account: account, Hash: db.HashKey(secret), Role: db.RoleAccount}))
}

func TestAPIKeyLifecycle(t *testing.T) { onEach(t, testAPIKeyLifecycle) }

func testAPIKeyLifecycle(t *testing.T, b *bench) {
	if b.signsIn("one") {
		t.Error("an unknown secret signs in")
	}
	b.addKey("acct_1", "one")
	b.addKey("acct_2", "two")
	for _, account := range []string{"acct_1", "acct_2"} {
		err := b.db.AddAPIKey(t.Context(), db.APIKey{Account: account, Hash: db.HashKey("one"), Role: db.RoleAccount})
		if !errors.Is(err, db.ErrConflict) {
			t.Errorf("the same secret again for %s: %v", account, err)
		}
	}
	if k, err := b.db.Authenticate(t.Context(), "one"); err != nil || k.Account != "acct_1" || k.CreatedAt.IsZero() {
		t.Errorf("the first key is %+v, %v", k, err)
	}
	if n, err := b.db.RevokeAPIKeys(t.Context(), "acct_1"); n != 1 || err != nil || b.signsIn("one") || !b.signsIn("two") {
		t.Errorf("revoked %d, %v", n, err)
	}
	if n, err := b.db.RevokeAPIKeys(t.Context(), "acct_1"); n != 0 || err != nil {
		t.Errorf("revoked again: %d, %v", n, err)
	}
	b.addKey("acct_1", "three")
	for account, want := range map[string]int{"acct_1": 2, "acct_2": 1, "": 3, "acct_3": 0} {
		if list, err := b.db.APIKeys(t.Context(), account); len(list) != want || err != nil {
			t.Errorf("account %q has %d keys, %v; want %d", account, len(list), err, want)
		}
	}
}

// TestAPIKeysOverlap: after a rotation the old key works for a while.
func TestAPIKeysOverlap(t *testing.T) { onEach(t, testAPIKeysOverlap) }

func testAPIKeysOverlap(t *testing.T, b *bench) {
	b.addKey("acct_1", "old")
	b.addKey("acct_1", "new")
	b.addKey("acct_2", "other")
	rotate := func(after time.Duration) int {
		t.Helper()
		n, err := b.db.ExpireAPIKeys(t.Context(), "acct_1", after, db.HashKey("new"))
		must(t, err)
		return n
	}
	if n := rotate(time.Hour); n != 1 || !b.signsIn("old") {
		t.Errorf("%d keys will end", n)
	}
	if n := rotate(2 * time.Hour); n != 0 {
		t.Errorf("%d keys live longer than was said", n)
	}
	b.advance(time.Hour + time.Second)
	if b.signsIn("old") || !b.signsIn("new") || !b.signsIn("other") {
		t.Error("after the overlap the wrong keys sign in")
	}
	// An expired key is revoked as well: the clock may go back.
	if n, err := b.db.RevokeAPIKeys(t.Context(), "acct_1"); n != 2 || err != nil || b.signsIn("new") {
		t.Errorf("revoked %d keys, want 2; %v", n, err)
	}
	b.advance(-2 * time.Hour)
	if b.signsIn("old") || b.signsIn("new") {
		t.Error("a revoked key signs in once the clock went back")
	}
}

func TestReplays(t *testing.T) { onEach(t, testReplays) }

func testReplays(t *testing.T, b *bench) {
	at := b.now().Truncate(time.Microsecond)
	if n, last, err := b.db.Replays(t.Context(), account, "pay_k"); n != 0 || !last.IsZero() || err != nil {
		t.Errorf("none yet: %d, %v, %v", n, last, err)
	}
	must(t, b.db.AddReplays(t.Context(), []db.ReplayCount{{account, "pay_k", 3, at}, {"acct_2", "pay_k", 1, at}}))
	must(t, b.db.AddReplays(t.Context(), []db.ReplayCount{{account, "pay_k", 4, at.Add(time.Second)}}))
	if n, last, err := b.db.Replays(t.Context(), account, "pay_k"); n != 7 || err != nil ||
		!last.Equal(at.Add(time.Second)) {
		t.Errorf("%d replays, the last at %v, %v", n, last, err)
	}
}
