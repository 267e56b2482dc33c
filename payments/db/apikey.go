package db

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// APIKey is one way for an account to sign in. Several may live at once. Only
// the hash of its secret is kept.
type APIKey struct {
	Account   string
	Hash      [sha256.Size]byte
	Role      string    // "account"
	CreatedAt time.Time // the database's clock; AddAPIKey sets it
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: not
}

// RoleAccount is the role of a key that an API customer signs in with.
const RoleAccount = "account"

// HashKey is what is stored of a secret. API keys are long and random, so a
// plain hash is enough.
func HashKey(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// Live reports whether the key signs in at now.
func (k APIKey) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

func scanAPIKey(rows onlyonce.Rows, k *APIKey) error {
	var hash []byte
	var created, expires, revoked int64
	if err := rows.Scan(&k.Account, &hash, &k.Role, &created, &expires, &revoked); err != nil {
		return fmt.Errorf("scan API key: %w", err)
	}
	copy(k.Hash[:], hash)
	k.CreatedAt, k.ExpiresAt, k.RevokedAt = fromMicros(created), fromMicros(expires), fromMicros(revoked)
	return nil
}

// Authenticate returns the live key with this secret. ErrNotFound: it is
// unknown, revoked or expired.
func (d *DB) Authenticate(ctx context.Context, secret string) (APIKey, error) {
	hash := HashKey(secret)
	var found []APIKey
	var now time.Time
	err := d.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) (err error) {
		found = nil
		if now, err = d.store.Store().Now(ctx, tx); err != nil {
			return err
		}
		return each(ctx, tx, func(rows onlyonce.Rows) error {
			found = append(found, APIKey{})
			return scanAPIKey(rows, &found[len(found)-1])
		}, d.q.apiKeyByHash, hash[:])
	})
	if err != nil {
		return APIKey{}, fmt.Errorf("look up the API key: %w", err)
	}
	if len(found) == 0 || !found[0].Live(now) {
		return APIKey{}, fmt.Errorf("API key: %w", ErrNotFound)
	}
	return found[0], nil
}

// APIKeys lists an account's keys, dead ones included, or all with "".
func (d *DB) APIKeys(ctx context.Context, account string) ([]APIKey, error) {
	return listRows(ctx, d, scanAPIKey, d.q.apiKeys, []any{account})
}

// AddAPIKey stores a key. ErrConflict: some account has this very key already;
// choose another.
func (d *DB) AddAPIKey(ctx context.Context, k APIKey) error {
	err := d.store.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		now, err := d.store.Store().Now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, d.q.insertAPIKey, k.Account, k.Hash[:], k.Role, micros(now), micros(k.ExpiresAt),
			micros(k.RevokedAt))
		return err
	})
	if err != nil && d.store.Dialect().IsDuplicate(err) {
		return fmt.Errorf("add an API key to account %q: %w", k.Account, ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("add an API key to account %q: %w", k.Account, err)
	}
	return nil
}

// RevokeAPIKeys ends all of an account's keys at once, expired ones too in case
// a clock goes back, and returns how many had not been revoked before.
func (d *DB) RevokeAPIKeys(ctx context.Context, account string) (int, error) {
	return d.endAPIKeys(ctx, account, func(now time.Time) (string, []any) {
		return d.q.revokeAPIKeys, []any{micros(now), account}
	})
}

// ExpireAPIKeys lets all of an account's keys but one end after a while, and
// returns how many that concerns.
func (d *DB) ExpireAPIKeys(ctx context.Context, account string, after time.Duration, except [sha256.Size]byte) (
	int, error) {
	return d.endAPIKeys(ctx, account, func(now time.Time) (string, []any) {
		at := micros(now.Add(after))
		return d.q.expireAPIKeys, []any{at, account, except[:], at}
	})
}

func (d *DB) endAPIKeys(ctx context.Context, account string, statement func(now time.Time) (string, []any)) (
	int, error) {
	var n int64
	err := d.store.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		now, err := d.store.Store().Now(ctx, tx)
		if err != nil {
			return err
		}
		query, args := statement(now)
		n, err = tx.Exec(ctx, query, args...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("end API keys of account %q: %w", account, err)
	}
	return int(n), nil
}
