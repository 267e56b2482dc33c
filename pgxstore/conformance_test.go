package pgxstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/pgxstore"
	"github.com/onlyonce-go/onlyonce/sqlstore"
	"github.com/onlyonce-go/onlyonce/storetest"
)

// TestConformance holds pgx, without database/sql, to the contract.
func TestConformance(t *testing.T) {
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		list := []variant{{mode: execMode(e)}}
		if os.Getenv("ONLYONCE_MATRIX") != "" {
			list = matrix(e)
		}
		for _, v := range list {
			t.Run(fmt.Sprint(v.mode, " ", v.level), func(t *testing.T) { conform(t, e, v) })
		}
	})
}

// variant is a way to use pgx that must make no difference.
type variant struct {
	mode  string
	level sql.IsolationLevel // of Do
}

// matrix leaves out the modes that pgbouncer breaks, as package sqlstore's does.
func matrix(e engines.Engine) (list []variant) {
	modes := []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}
	if e.Name == engines.PgBouncer {
		modes = []string{"cache_describe", "exec", "simple_protocol"}
	}
	for _, mode := range modes {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			list = append(list, variant{mode, level})
		}
	}
	return list
}

func conform(t *testing.T, e engines.Engine, v variant) {
	link := database(t, e)
	outside := e.SQL(t, link)
	storetest.Run(t, storetest.Harness{Keys: 300, Open: func(t *testing.T) storetest.Subject {
		for _, text := range storetest.Empty() {
			if _, err := outside.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		return subject(t, link, v)
	}})
}

// eachPostgres runs a test on what speaks PostgreSQL's protocol and is up.
func eachPostgres(t *testing.T, test func(t *testing.T, e engines.Engine)) {
	t.Helper()
	for _, e := range engines.Named(t, engines.Postgres15, engines.Postgres18, engines.PgBouncer) {
		t.Run(e.Name, func(t *testing.T) { test(t, e) })
	}
}

// execMode is pgx's default, and where a pooler breaks that one that works.
func execMode(e engines.Engine) string {
	if e.Name == engines.PgBouncer {
		return "cache_describe"
	}
	return "cache_statement"
}

// database makes a database with the tables of the keys.
func database(t *testing.T, e engines.Engine) string {
	t.Helper()
	link := e.Database(t)
	db, err := sqlstore.Open(t.Context(), link, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), sqlstore.EngineMigrations()); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return link
}

// connect makes a pool as a service would.
func connect(t *testing.T, link, mode string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", mode)
	u.RawQuery = q.Encode()
	cfg, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		t.Fatal(err)
	}
	pgxstore.WatchCommits(cfg.ConnConfig)
	if change != nil {
		change(cfg)
	}
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// subject opens a database as a process would. Its own transactions are those
// of a caller who uses Wrap.
func subject(t *testing.T, link string, v variant) storetest.Subject {
	var skew atomic.Int64
	store := sqlstore.New(sqlstore.Postgres(), sqlstore.Options{
		Skew: func() time.Duration { return time.Duration(skew.Load()) }, Isolation: v.level,
	})
	db := connect(t, link, v.mode, func(cfg *pgxpool.Config) { cfg.MaxConns = 32 }) // fewer than a crowd
	return storetest.Subject{
		Store: store, Tx: owner{db, store},
		Skew:  func(d time.Duration) { skew.Store(int64(d)) },
		Again: func(t *testing.T) storetest.Subject { return subject(t, link, v) },
		Do: func(ctx context.Context, once *onlyonce.Engine, in onlyonce.Intent, effect storetest.Effect) (
			onlyonce.Outcome, bool, error) {
			res, err := pgxstore.Do(ctx, once, db, in, func(tx pgx.Tx) (onlyonce.Outcome, error) {
				return effect(ctx, pgxstore.Wrap(tx))
			})
			return res.Outcome, res.Replayed, err
		},
	}
}

// owner is a caller who begins and commits by himself.
type owner struct {
	db    *pgxpool.Pool
	store *sqlstore.Store
}

// InTx runs the whole again after a lost race, a few times.
func (c owner) InTx(ctx context.Context, work func(ctx context.Context, tx onlyonce.Tx) error) (err error) {
	const tries = 20
	for range tries {
		err = pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error { return work(ctx, pgxstore.Wrap(tx)) })
		if !c.store.Dialect().Retryable(err) {
			return err
		}
	}
	return errors.Join(errors.New("lost too often"), err)
}
