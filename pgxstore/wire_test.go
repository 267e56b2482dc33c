package pgxstore_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/pgxstore"
	"github.com/onlyonce-go/onlyonce/sqlstore"
	"github.com/onlyonce-go/onlyonce/storetest/wire"
)

// TestLostCommits loses the answer to COMMIT, and COMMIT itself, with a pool
// of one connection: the same key finds out, and there is one order.
func TestLostCommits(t *testing.T) {
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		link := database(t, e)
		outside := e.SQL(t, link)
		if _, err := outside.Exec("CREATE TABLE orders (id TEXT NOT NULL)"); err != nil {
			t.Fatal(err)
		}
		p := wire.Listen(t, link)
		db := connect(t, p.URL, execMode(e), func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
		once := engine(t, sqlstore.Options{})
		order := func(id string) (bool, error) {
			res, err := pgxstore.Do(t.Context(), once, db, intent(id), func(tx pgx.Tx) (onlyonce.Outcome, error) {
				_, err := tx.Exec(t.Context(), "INSERT INTO orders (id) VALUES ($1)", id)
				return onlyonce.Outcome{Status: 201}, err
			})
			return res.Replayed, err
		}
		for id, act := range map[string]wire.Act{"answer": wire.LoseAnswer, "request": wire.LoseRequest} {
			p.Commits(act)
			if _, err := order(id); !errors.Is(err, onlyonce.ErrCommitUnknown) {
				t.Errorf("%s lost: %v, want ErrCommitUnknown", id, err)
			}
			p.Commits(wire.Pass)
			replayed, err := order(id)
			if err != nil || replayed != (act == wire.LoseAnswer) {
				t.Errorf("%s lost, the retry: replayed %v, error %v", id, replayed, err)
			}
			var n int
			if err := outside.QueryRow("SELECT count(*) FROM orders WHERE id = $1", id).Scan(&n); err != nil || n != 1 {
				t.Errorf("%s lost: %d orders, error %v", id, n, err)
			}
		}
	})
}

// engine returns an engine for PostgreSQL.
func engine(t *testing.T, o sqlstore.Options) *onlyonce.Engine {
	t.Helper()
	once, err := onlyonce.New(onlyonce.Options{Store: sqlstore.New(sqlstore.Postgres(), o)})
	if err != nil {
		t.Fatal(err)
	}
	return once
}

// intent names a request.
func intent(key string) onlyonce.Intent {
	return onlyonce.Intent{
		Key:         onlyonce.Key{Account: "acct_1", Name: key},
		Operation:   "test.effect",
		Fingerprint: onlyonce.NewFingerprint([]byte("body")),
	}
}
