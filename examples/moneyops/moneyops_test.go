package moneyops_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/examples/internal/story"
	"github.com/onlyonce-go/onlyonce/examples/internal/storytest"
	"github.com/onlyonce-go/onlyonce/examples/moneyops"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// open makes a database in which Alice has 100 units and orders can be kept.
func open(t *testing.T, e engines.Engine) moneyops.Ops {
	t.Helper()
	url := storytest.URL(t, e)
	keys, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	if _, err := keys.Migrate(t.Context(), sqlstore.EngineMigrations()); err != nil {
		t.Fatal(err)
	}
	db, dialect, err := sqlstore.OpenSQL(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	once, err := onlyonce.New(onlyonce.Options{Store: sqlstore.New(dialect, sqlstore.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	storytest.Exec(t, db, story.Wallet)
	storytest.Exec(t, db, "INSERT INTO wallets (owner, balance) VALUES ('alice', 100)")
	storytest.Exec(t, db, "CREATE TABLE orders (id VARCHAR(64) PRIMARY KEY)")
	return moneyops.Ops{Once: once, DB: db, Rebind: dialect.Rebind}
}

// order is a work that makes an order with the given id, and then fails or not.
func order(t *testing.T, ops moneyops.Ops, id string, failure error) moneyops.Work {
	return func(tx *sql.Tx) (string, error) {
		if _, err := tx.ExecContext(t.Context(), ops.Rebind("INSERT INTO orders (id) VALUES (?)"), id); err != nil {
			return "", err
		}
		return id, failure
	}
}

// What each operation of a day returns, and what is in the database after it.
func TestRun(t *testing.T) {
	errNoTea := errors.New("there is no tea")
	for _, e := range engines.Named(t, engines.Names()...) {
		t.Run(e.Name, func(t *testing.T) {
			ops := open(t, e)
			for i, op := range []struct {
				key     string
				kind    moneyops.Kind
				units   int64
				id      string // of the order that the work would make
				failure error  // of the work

				replayed bool
				want     string // the id
				err      error
				balance  int64
				orders   string
			}{
				{"a", moneyops.Charge, 30, "o1", nil, false, "o1", nil, 70, "o1"},
				{"a", moneyops.Charge, 30, "o2", nil, true, "o1", nil, 70, "o1"},
				{"a", moneyops.Charge, 31, "o2", nil, false, "", onlyonce.ErrMismatch, 70, "o1"},
				{"a", moneyops.Refund, 30, "o2", nil, false, "", onlyonce.ErrMismatch, 70, "o1"},
				// The work fails: nothing of it is left, and a retry runs.
				{"b", moneyops.Charge, 30, "o2", errNoTea, false, "", errNoTea, 70, "o1"},
				{"b", moneyops.Charge, 30, "o3", nil, false, "o3", nil, 40, "o1 o3"},
				// Too few units are final, even when there are enough later.
				{"c", moneyops.Charge, 41, "o4", nil, false, "", moneyops.ErrInsufficientFunds, 40, "o1 o3"},
				{"d", moneyops.Refund, 30, "r1", nil, false, "r1", nil, 70, "o1 o3 r1"},
				{"c", moneyops.Charge, 41, "o4", nil, true, "", moneyops.ErrInsufficientFunds, 70, "o1 o3 r1"},
				{"d", moneyops.Refund, 30, "r2", nil, true, "r1", nil, 70, "o1 o3 r1"},
				// All of it may go.
				{"e", moneyops.Charge, 70, "o5", nil, false, "o5", nil, 0, "o1 o3 o5 r1"},
			} {
				replayed, id, err := ops.Run(t.Context(), op.key, op.kind, "alice", op.units, order(t, ops, op.id, op.failure))
				if replayed != op.replayed || id != op.want || !errors.Is(err, op.err) {
					t.Errorf("operation %d: %v, %q, %v; want %v, %q, %v", i, replayed, id, err, op.replayed, op.want, op.err)
				}
				if balance, orders := left(t, ops.DB); balance != op.balance || orders != op.orders {
					t.Errorf("operation %d leaves %d units and orders %q; want %d and %q",
						i, balance, orders, op.balance, op.orders)
				}
			}
		})
	}
}

// What can't be an operation is refused before the key is claimed or any unit moved.
func TestRefused(t *testing.T) {
	for _, e := range engines.Named(t, engines.SQLite) {
		ops := open(t, e)
		for _, op := range []struct {
			kind  moneyops.Kind
			user  string
			units int64
			says  string
		}{
			{moneyops.Charge, "alice", 0, "at least 1 unit"},
			{moneyops.Charge, "alice", -30, "at least 1 unit"},
			{"gift", "alice", 30, "neither charge nor refund"},
			{moneyops.Refund, "bob", 30, "there is no wallet"},
		} {
			_, _, err := ops.Run(t.Context(), "a", op.kind, op.user, op.units, order(t, ops, "o1", nil))
			if err == nil || !strings.Contains(err.Error(), op.says) {
				t.Errorf("%s %d of %s: %v; want one that says %q", op.kind, op.units, op.user, err, op.says)
			}
		}
		if replayed, id, err := ops.Run(t.Context(), "a", moneyops.Charge, "alice", 30, order(t, ops, "o1", nil)); replayed ||
			id != "o1" || err != nil {
			t.Errorf("after the refusals: %v, %q, %v", replayed, id, err)
		}
	}
}

// left is what the database holds: Alice's units, and the orders' ids.
func left(t *testing.T, db *sql.DB) (balance int64, orders string) {
	t.Helper()
	balance = storytest.Balance(t, db)
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM orders ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return balance, strings.Join(ids, " ")
}
