// Command sqlc charges a wallet through queries that sqlc generated, once per
// key. After a change of queries.sql run go generate.
package main

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/examples/internal/story"
	"github.com/onlyonce-go/onlyonce/examples/sqlc/mysql"
	"github.com/onlyonce-go/onlyonce/examples/sqlc/postgres"
	"github.com/onlyonce-go/onlyonce/examples/sqlc/sqlite"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

func main() { story.Main(open) }

// wallets is a service with a database of its own, in which the keys live too.
type wallets struct {
	once    *onlyonce.Engine
	db      *sql.DB
	dialect string
}

// queries is what sqlc has generated. A service that knows its engine needs
// nothing down to open: it calls New of the generated package.
type queries interface {
	Take(ctx context.Context, units int64, owner string) (int64, error)
	Balance(ctx context.Context, owner string) (int64, error)
}

// onMySQL makes up for MySQL's placeholders: they have no numbers, so that
// sqlc asks for a struct where it counts the units twice.
type onMySQL struct{ *mysql.Queries }

// Take hits no row if there are too few units.
func (q onMySQL) Take(ctx context.Context, units int64, owner string) (int64, error) {
	return q.Queries.Take(ctx, mysql.TakeParams{Units: units, Owner: owner})
}

// in puts the generated queries into a transaction.
func (w *wallets) in(tx *sql.Tx) queries {
	switch w.dialect {
	case "postgres":
		return postgres.New(tx)
	case "mysql":
		return onMySQL{mysql.New(tx)}
	}
	return sqlite.New(tx)
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
	return &wallets{once, db, dialect.Name}, nil
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
		return take(ctx, w.in(tx), user, units)
	})
}

// take is the effect. It touches nothing but the transaction behind q.
func take(ctx context.Context, q queries, user string, units int64) (onlyonce.Outcome, error) {
	taken, err := q.Take(ctx, units, user)
	if err != nil {
		return onlyonce.Outcome{}, fmt.Errorf("take %d units: %w", units, err)
	}
	balance, err := q.Balance(ctx, user)
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
