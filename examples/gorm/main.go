// Command gorm charges a wallet through GORM, once per key.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/libtnb/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/examples/internal/story"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

func main() { story.Main(open) }

// wallet is the model.
type wallet struct {
	Owner   string `gorm:"primaryKey"`
	Balance int64
}

// wallets is a service with a database of its own, in which the keys live too.
type wallets struct {
	once *onlyonce.Engine
	db   *sql.DB
	orm  *gorm.DB // on db
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
	orm, err := gorm.Open(dialector(dialect.Name, db), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	return &wallets{once, db, orm}, nil
}

// dialector puts GORM on a pool that is there already.
func dialector(name string, db *sql.DB) gorm.Dialector {
	switch name {
	case "postgres":
		return postgres.New(postgres.Config{Conn: db})
	case "mysql":
		return mysql.New(mysql.Config{Conn: db})
	}
	return sqlite.New(sqlite.Config{Conn: db})
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
		return take(within(ctx, w.orm, tx), user, units)
	})
}

// within is GORM in a transaction that it did not begin. Do ends it: never
// call Commit or Rollback on what this returns. Its Transaction method is
// fine, because that makes a savepoint there.
func within(ctx context.Context, orm *gorm.DB, tx *sql.Tx) *gorm.DB {
	orm = orm.Session(&gorm.Session{NewDB: true, Context: ctx})
	orm.Statement.ConnPool = tx
	return orm
}

// take is the effect. It touches nothing but tx.
func take(tx *gorm.DB, user string, units int64) (onlyonce.Outcome, error) {
	taken := tx.Model(&wallet{}).Where("owner = ? AND balance >= ?", user, units).
		Update("balance", gorm.Expr("balance - ?", units))
	if taken.Error != nil {
		return onlyonce.Outcome{}, fmt.Errorf("take %d units: %w", units, taken.Error)
	}
	var left wallet
	err := tx.Take(&left, "owner = ?", user).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return onlyonce.Outcome{}, fmt.Errorf("%s has no wallet", user) // all is rolled back: a retry may run
	case err != nil:
		return onlyonce.Outcome{}, fmt.Errorf("read the balance: %w", err)
	case taken.RowsAffected == 0:
		return onlyonce.Outcome{Status: 402, Body: []byte(`{"error":"insufficient funds"}`)}, nil // final
	}
	return onlyonce.Outcome{Status: 201, Body: fmt.Appendf(nil, `{"balance":%d}`, left.Balance)}, nil
}

// Close ends the connections.
func (w *wallets) Close() { _ = w.db.Close() }
