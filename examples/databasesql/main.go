// Command databasesql charges a wallet through database/sql, once per key.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/examples/internal/story"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

func main() { story.Main(open) }

// wallets is a service with a database of its own, in which the keys live too.
type wallets struct {
	once   *onlyonce.Engine
	db     *sql.DB
	rebind func(query string) string // PostgreSQL writes $1 where the others write ?
}

// open is what a service does once, at start.
func open(ctx context.Context, url string) (story.Wallets, error) {
	keys, err := sqlstore.Open(ctx, url, sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	defer keys.Close()
	if _, err := keys.Migrate(ctx, sqlstore.EngineMigrations()); err != nil {
		return nil, err
	}
	db, dialect, err := sqlstore.OpenSQL(url)
	if err != nil {
		return nil, err
	}
	once, err := onlyonce.New(onlyonce.Options{Store: sqlstore.New(dialect, sqlstore.Options{})})
	if err != nil {
		return nil, err
	}
	return &wallets{once, db, dialect.Rebind}, nil
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
	return sqlstore.Do(ctx, w.once, w.db, intent, func(tx *sql.Tx) (onlyonce.Outcome, error) {
		return w.take(ctx, tx, user, units)
	})
}

// take is the effect. It touches nothing but tx.
func (w *wallets) take(ctx context.Context, tx *sql.Tx, user string, units int64) (onlyonce.Outcome, error) {
	res, err := tx.ExecContext(ctx, w.rebind(
		"UPDATE wallets SET balance = balance - ? WHERE owner = ? AND balance >= ?"), units, user, units)
	if err != nil {
		return onlyonce.Outcome{}, fmt.Errorf("take %d units: %w", units, err)
	}
	taken, err := res.RowsAffected()
	if err != nil {
		return onlyonce.Outcome{}, err
	}
	var balance int64
	err = tx.QueryRowContext(ctx, w.rebind("SELECT balance FROM wallets WHERE owner = ?"), user).Scan(&balance)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return onlyonce.Outcome{}, fmt.Errorf("%s has no wallet", user) // all is rolled back: a retry may run
	case err != nil:
		return onlyonce.Outcome{}, fmt.Errorf("read the balance: %w", err)
	case taken == 0:
		return onlyonce.Outcome{Status: 402, Body: []byte(`{"error":"insufficient funds"}`)}, nil // final
	}
	return onlyonce.Outcome{Status: 201, Body: fmt.Appendf(nil, `{"balance":%d}`, balance)}, nil
}

// Close ends the connections.
func (w *wallets) Close() { _ = w.db.Close() }
