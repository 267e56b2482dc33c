package onlyonce_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// The two functions whose bodies stand in README.md; internal/tidy compares.

// openOnce makes the tables of the keys in the service's own database, and opens
// the service's pool on it.
func openOnce(ctx context.Context, url string) (*onlyonce.Engine, *sql.DB, error) {
	keys, err := sqlstore.Open(ctx, url, sqlstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer keys.Close()
	if _, err := keys.Migrate(ctx, sqlstore.EngineMigrations()); err != nil {
		return nil, nil, err
	}
	db, dialect, err := sqlstore.OpenSQL(url)
	if err != nil {
		return nil, nil, err
	}
	once, err := onlyonce.New(onlyonce.Options{Store: sqlstore.New(dialect, sqlstore.Options{})})
	return once, db, err
}

// placeOrder is the effect that must happen once.
func placeOrder(ctx context.Context, once *onlyonce.Engine, db *sql.DB) (sqlstore.Result, error) {
	intent := onlyonce.Intent{
		Key:         onlyonce.Key{Account: "17", Name: "order-42"}, // the client's name for what it wants
		Operation:   "orders.create",
		Fingerprint: onlyonce.NewFingerprint([]byte(`{"item":"tea"}`)), // another body under this key is refused
	}
	return sqlstore.Do(ctx, once, db, intent, func(tx *sql.Tx) (onlyonce.Outcome, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES (?)", "tea")
		return onlyonce.Outcome{Status: 201, Body: []byte(`{"ordered":"tea"}`)}, err
	})
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "onlyonce-example")
	exampleMust(err)
	defer os.RemoveAll(dir)

	once, db, err := openOnce(ctx, "sqlite:"+filepath.Join(dir, "shop.db"))
	exampleMust(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE TABLE orders (item TEXT NOT NULL)")
	exampleMust(err)

	for range 3 {
		res, err := placeOrder(ctx, once, db)
		exampleMust(err)
		fmt.Printf("%s, replayed: %v\n", res.Outcome.Body, res.Replayed)
	}
	var orders int
	exampleMust(db.QueryRowContext(ctx, "SELECT count(item) FROM orders").Scan(&orders))
	fmt.Println("orders:", orders)
	// Output:
	// {"ordered":"tea"}, replayed: false
	// {"ordered":"tea"}, replayed: true
	// {"ordered":"tea"}, replayed: true
	// orders: 1
}

func exampleMust(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
