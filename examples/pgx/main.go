// Command pgx charges a wallet through pgx, without database/sql, once per
// key. It needs PostgreSQL: --db postgres://HOST/NAME.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/examples/internal/story"
	"github.com/onlyonce-go/onlyonce/pgxstore"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

func main() { story.Main(open) }

// wallets is a service with a database of its own, in which the keys live too.
type wallets struct {
	once *onlyonce.Engine
	pool *pgxpool.Pool
}

// open is what a service does once, at start.
func open(ctx context.Context, url string) (story.Wallets, error) {
	if scheme, _, _ := strings.Cut(url, ":"); scheme != "postgres" && scheme != "postgresql" {
		return nil, errors.New("pgx needs PostgreSQL: name an empty database with --db postgres://HOST/NAME")
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	pgxstore.WatchCommits(cfg.ConnConfig)
	keys, err := sqlstore.Open(ctx, url, sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	defer keys.Close()
	if _, err := keys.Migrate(ctx, sqlstore.EngineMigrations()); err != nil {
		return nil, err
	}
	once, err := onlyonce.New(onlyonce.Options{Store: sqlstore.New(sqlstore.Postgres(), sqlstore.Options{})})
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &wallets{once, pool}, nil
}

// Charge is what it does for each request. Key, wallet and outcome commit in
// one transaction.
func (w *wallets) Charge(ctx context.Context, key, user string, units int64) (sqlstore.Result, error) {
	if units <= 0 {
		return sqlstore.Result{}, fmt.Errorf("charge at least 1 unit, not %d", units)
	}
	intent := onlyonce.Intent{
		Key:         onlyonce.Key{Account: user, Name: key},
		Operation:   "wallets.charge",
		Fingerprint: onlyonce.NewFingerprint(strconv.AppendInt(nil, units, 10)), // another amount is refused
	}
	return pgxstore.Do(ctx, w.once, w.pool, intent, func(tx pgx.Tx) (onlyonce.Outcome, error) {
		return take(ctx, tx, user, units)
	})
}

// take is the effect. It touches nothing but tx.
func take(ctx context.Context, tx pgx.Tx, user string, units int64) (onlyonce.Outcome, error) {
	taken, err := tx.Exec(ctx,
		"UPDATE wallets SET balance = balance - $1 WHERE owner = $2 AND balance >= $1", units, user)
	if err != nil {
		return onlyonce.Outcome{}, fmt.Errorf("take %d units: %w", units, err)
	}
	var balance int64
	err = tx.QueryRow(ctx, "SELECT balance FROM wallets WHERE owner = $1", user).Scan(&balance)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return onlyonce.Outcome{}, fmt.Errorf("%s has no wallet", user) // all is rolled back: a retry may run
	case err != nil:
		return onlyonce.Outcome{}, fmt.Errorf("read the balance: %w", err)
	case taken.RowsAffected() == 0:
		return onlyonce.Outcome{Status: 402, Body: []byte(`{"error":"insufficient funds"}`)}, nil // final
	}
	return onlyonce.Outcome{Status: 201, Body: fmt.Appendf(nil, `{"balance":%d}`, balance)}, nil
}

// Close ends the connections.
func (w *wallets) Close() { w.pool.Close() }
