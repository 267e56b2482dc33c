// Package moneyops is the function money_ops, which many services have in one
// form or another: charge or refund a user's units under a key, do some work
// beside it, and give every retry the id that the work made. It needs a table
// wallets (owner, balance) in the database that holds the keys.
package moneyops

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// Kind says which way the units go.
type Kind string

const (
	// Charge takes units out of the wallet.
	Charge Kind = "charge"
	// Refund puts them back.
	Refund Kind = "refund"
)

// ErrInsufficientFunds: the wallet holds less than was to be charged. That is
// final for the key, whatever is in the wallet later; another try is a new
// intent with a new key.
var ErrInsufficientFunds = errors.New("insufficient funds")

// Ops runs operations on the wallets of one database.
type Ops struct {
	Once *onlyonce.Engine
	DB   *sql.DB
	// Rebind is sqlstore.Dialect.Rebind of the database.
	Rebind func(query string) string
}

// Work is what goes with the units, for example an order. It does all that it
// does through tx and returns the id of what it made, at most 1 MiB.
type Work func(tx *sql.Tx) (id string, err error)

// Run moves the units and runs the work, once for a user's key, in one
// transaction. A retry runs nothing and gets replayed and the id of the first
// run. An error of the work undoes everything, and the same key may be tried
// again. onlyonce.ErrMismatch: the key stands for another kind or other units.
// ErrInsufficientFunds, replayed or not: the work has not run and never will.
// Else see sqlstore.Do.
func (o Ops) Run(ctx context.Context, key string, kind Kind, user string, units int64, work Work) (
	replayed bool, id string, err error) {
	change, err := kind.change(units)
	if err != nil {
		return false, "", err
	}
	intent := onlyonce.Intent{
		Key:         onlyonce.Key{Account: user, Name: key},
		Operation:   "money_ops",
		Fingerprint: onlyonce.NewFingerprint([]byte(kind), strconv.AppendInt(nil, units, 10)),
	}
	res, err := sqlstore.Do(ctx, o.Once, o.DB, intent, func(tx *sql.Tx) (onlyonce.Outcome, error) {
		enough, err := o.move(ctx, tx, user, change)
		if err != nil || !enough {
			return onlyonce.Outcome{Status: http.StatusPaymentRequired}, err
		}
		id, err := work(tx)
		return onlyonce.Outcome{Status: http.StatusCreated, Body: []byte(id)}, err
	})
	switch {
	case err != nil:
		return false, "", fmt.Errorf("%s %d units of %s under %s: %w", kind, units, user, key, err)
	case res.Outcome.Status == http.StatusPaymentRequired:
		return res.Replayed, "", fmt.Errorf("%s %d units of %s under %s: %w", kind, units, user, key, ErrInsufficientFunds)
	}
	return res.Replayed, string(res.Outcome.Body), nil
}

// change is what is added to the balance.
func (k Kind) change(units int64) (int64, error) {
	switch {
	case units <= 0:
		return 0, fmt.Errorf("%s at least 1 unit, not %d", k, units)
	case k == Charge:
		return -units, nil
	case k == Refund:
		return units, nil
	}
	return 0, fmt.Errorf("the kind %q is neither %s nor %s", k, Charge, Refund)
}

// move changes the balance unless it would fall below zero. The condition is
// in the statement: a balance that was read before may be another one by then.
func (o Ops) move(ctx context.Context, tx *sql.Tx, user string, change int64) (enough bool, err error) {
	res, err := tx.ExecContext(ctx, o.Rebind(
		"UPDATE wallets SET balance = balance + ? WHERE owner = ? AND balance + ? >= 0"), change, user, change)
	if err != nil {
		return false, fmt.Errorf("change the balance: %w", err)
	}
	moved, err := res.RowsAffected()
	if err != nil || moved == 1 {
		return moved == 1, err
	}
	var balance int64
	err = tx.QueryRowContext(ctx, o.Rebind("SELECT balance FROM wallets WHERE owner = ?"), user).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		return false, errors.New("there is no wallet")
	}
	return false, err
}
