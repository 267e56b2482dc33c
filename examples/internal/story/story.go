// Package story plays the same few requests on every example and prints what
// each of them got.
package story

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// Wallets is what an example makes out of its library.
type Wallets interface {
	// Charge takes units out of a user's wallet, once per key. Too few units are
	// a declined outcome, which is final. An error keeps nothing, so that the
	// same key may be tried again.
	Charge(ctx context.Context, key, user string, units int64) (sqlstore.Result, error)
	// Close ends the example's connections.
	Close()
}

// Open opens an example on the database that url names, and makes the tables
// of the keys there if they are missing. The story makes the wallets.
type Open func(ctx context.Context, url string) (Wallets, error)

// Wallet is the statement that makes the table that the examples change.
const Wallet = "CREATE TABLE wallets (owner VARCHAR(64) PRIMARY KEY, balance BIGINT NOT NULL)"

// request is one charge, and the statement that comes before it, if any.
type request struct {
	asked     string
	first     string
	key, user string
	units     int64
}

func requests() []request {
	const alice = "INSERT INTO wallets (owner, balance) VALUES ('alice', 100)"
	const bob = "INSERT INTO wallets (owner, balance) VALUES ('bob', 100)"
	return []request{
		{"charge Alice 30 under req-42", alice, "req-42", "alice", 30},
		{"the same again", "", "req-42", "alice", 30},
		{"31 under the same key", "", "req-42", "alice", 31},
		{"charge Bob, who has no wallet", "", "req-43", "bob", 30},
		{"the same, now that he has one", bob, "req-43", "bob", 30},
	}
}

// Main is the main function of an example: it plays the story on the database
// that --db names, else on an SQLite file in a folder that goes afterwards.
func Main(open Open) {
	url := flag.String("db", "", "an empty database: sqlite:PATH, postgres://HOST/NAME or mysql://HOST/NAME\n"+
		"(default: an SQLite file in a temporary folder)")
	flag.Parse()
	if err := run(context.Background(), *url, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, open Open) error {
	if url == "" {
		dir, err := os.MkdirTemp("", "onlyonce-example-")
		if err != nil {
			return fmt.Errorf("make a temporary folder: %w", err)
		}
		defer os.RemoveAll(dir)
		url = "sqlite:" + filepath.Join(dir, "wallets.db")
	}
	return Play(ctx, os.Stdout, url, open)
}

// Play opens the example on an empty database and plays the requests. It
// prints one line for each: what was asked, what came back, who has how much.
func Play(ctx context.Context, out io.Writer, url string, open Open) error {
	wallets, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer wallets.Close()
	db, _, err := sqlstore.OpenSQL(url)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, Wallet); err != nil {
		return fmt.Errorf("make the table of the wallets; the database must be empty: %w", err)
	}
	for _, r := range requests() {
		if r.first != "" {
			if _, err := db.ExecContext(ctx, r.first); err != nil {
				return fmt.Errorf("make a wallet: %w", err)
			}
		}
		got := told(wallets.Charge(ctx, r.key, r.user, r.units))
		left, err := balances(ctx, db)
		if err != nil {
			return fmt.Errorf("read the wallets: %w", err)
		}
		fmt.Fprintf(out, "%-30s  %-52s  %s\n", r.asked, got, left)
	}
	return nil
}

func told(res sqlstore.Result, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case res.Replayed:
		return string(res.Outcome.Body) + ", replayed"
	}
	return string(res.Outcome.Body)
}

// balances says what is in the wallets, past the library that changed them.
func balances(ctx context.Context, db *sql.DB) (string, error) {
	rows, err := db.QueryContext(ctx, "SELECT owner, balance FROM wallets ORDER BY owner")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var owner string
		var balance int64
		if err := rows.Scan(&owner, &balance); err != nil {
			return "", err
		}
		all = append(all, fmt.Sprintf("%s: %d", owner, balance))
	}
	return strings.Join(all, ", "), rows.Err()
}
