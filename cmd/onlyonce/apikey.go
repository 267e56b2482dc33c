package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

const (
	// The well-known names stand in the README. They open nothing but a sandbox
	// on a loopback address.
	wellKnownAccount  = "17"
	wellKnownKey      = "test_17"
	wellKnownOperator = "test_operator"

	apiKeyBytes     = 32 // 256 random bits: nobody guesses one, so a plain SHA-256 of it may be stored
	minAPIKeyLength = 20 // for keys made by others, outside the sandbox
	maxAPIKeyLength = 255
	maxAccountBytes = 64

	testKeyPrefix = "oo_test_"
	liveKeyPrefix = "oo_live_"
)

// newAPIKey makes a key that is shown once and stored as its hash.
func newAPIKey(live bool) string {
	var secret [apiKeyBytes]byte
	rand.Read(secret[:]) // never fails: crypto/rand ends the process first
	if live {
		return liveKeyPrefix + hex.EncodeToString(secret[:])
	}
	return testKeyPrefix + hex.EncodeToString(secret[:])
}

// checkAccountID refuses names that could not be written in --account or in a
// log line.
func checkAccountID(id string) error {
	if id == "" || len(id) > maxAccountBytes {
		return refuse("the account's name %q has %d bytes: it must have 1 to %d", id, len(id), maxAccountBytes)
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '=' || c == ',' {
			return refuse("the account's name %q may not hold %q: use visible ASCII characters but = and the comma", id, c)
		}
	}
	return nil
}

// checkAPIKey refuses keys that could not be sent as a bearer token, and those
// shorter than least, without ever repeating one.
func checkAPIKey(account, key string, least int) error {
	if len(key) < max(least, 1) || len(key) > maxAPIKeyLength {
		return refuse("the API key for account %s has %d characters: outside the sandbox it must have %d to %d, "+
			"or let `onlyonce accounts add %s` make one", account, len(key), least, maxAPIKeyLength, account)
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || c == ',' {
			return refuse("the API key for account %s may not hold %q: use visible ASCII characters but the comma", account, c)
		}
	}
	return nil
}

// accountSetting is one --account ID=APIKEY.
type accountSetting struct{ id, key string }

func parseAccounts(flags []string, sandbox bool) ([]accountSetting, error) {
	least := minAPIKeyLength
	if sandbox {
		least = 1
	}
	var parsed []accountSetting
	for _, text := range flags {
		id, key, ok := strings.Cut(strings.TrimSpace(text), "=")
		if !ok {
			// The text may be a key alone, so it is not repeated.
			return nil, refuse("--account must be written ID=APIKEY, for example --account 17=%s…", testKeyPrefix)
		}
		if err := checkAccountID(id); err != nil {
			return nil, err
		}
		if err := checkAPIKey(id, key, least); err != nil {
			return nil, err
		}
		if key == wellKnownKey && id != wellKnownAccount {
			return nil, refuse("--account gives account %s the well-known key of account %s: use another key",
				id, wellKnownAccount)
		}
		parsed = append(parsed, accountSetting{id, key})
	}
	return parsed, nil
}

// keyRing is the part of the database that holds API keys.
type keyRing interface {
	APIKeys(ctx context.Context, account string) ([]db.APIKey, error)
	AddAPIKey(ctx context.Context, key db.APIKey) error
}

// ensureAccount makes the account if it is absent. A key that no longer works,
// or another key for an account that exists, is refused: quietly adding it
// would undo a revocation.
func ensureAccount(ctx context.Context, ring keyRing, a accountSetting, now time.Time) error {
	if found, err := judgeAccount(ctx, ring, a, now); found || err != nil {
		return err
	}
	added := ring.AddAPIKey(ctx, db.APIKey{Account: a.id, Hash: db.HashKey(a.key), Role: db.RoleAccount})
	if added == nil {
		return nil
	}
	// Another server that starts at the same time may have been quicker.
	if found, err := judgeAccount(ctx, ring, a, now); found || err != nil {
		return err
	}
	return fmt.Errorf("add account %s: %w", a.id, added)
}

// judgeAccount reports whether the account exists with this key. The error
// also says why the key is refused.
func judgeAccount(ctx context.Context, ring keyRing, a accountSetting, now time.Time) (bool, error) {
	all, err := ring.APIKeys(ctx, "")
	if err != nil {
		return false, fmt.Errorf("read the API keys: %w", err)
	}
	hash, exists := db.HashKey(a.key), false
	for _, k := range all {
		exists = exists || k.Account == a.id
		if k.Hash != hash {
			continue
		}
		switch {
		case k.Account != a.id:
			return false, refuse("--account %s=… names an API key that belongs to account %s: take another key",
				a.id, k.Account)
		case !k.RevokedAt.IsZero():
			return false, refuse("--account %s=… names an API key that was revoked: leave it out, and make a new key "+
				"with `onlyonce accounts rotate %s`", a.id, a.id)
		case !k.Live(now):
			return false, refuse("--account %s=… names an API key that has expired: leave it out, and make a new key "+
				"with `onlyonce accounts rotate %s`", a.id, a.id)
		}
		return true, nil
	}
	if exists {
		return false, refuse("--account %s=… names another API key than the account has: leave it out, or change the "+
			"key with `onlyonce accounts rotate %s --key NEWKEY`", a.id, a.id)
	}
	return false, nil
}

func firstError(errs ...error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}
