// Package pgxstore runs effects through pgx, in one transaction with their
// key. It is [sqlstore.Do] for services that speak to PostgreSQL through a
// pgxpool and not through database/sql:
//
//	cfg, err := pgxpool.ParseConfig(url)
//	pgxstore.WatchCommits(cfg.ConnConfig)
//	pool, err := pgxpool.NewWithConfig(ctx, cfg)
//	...
//	store := sqlstore.New(sqlstore.Postgres(), sqlstore.Options{})
//	once, err := onlyonce.New(onlyonce.Options{Store: store})
//	...
//	res, err := pgxstore.Do(ctx, once, pool, intent, func(tx pgx.Tx) (onlyonce.Outcome, error) {
//		_, err := tx.Exec(ctx, "INSERT INTO orders ...")
//		return onlyonce.Outcome{Status: 201, Body: body}, err
//	})
//
// Behind a pooler that gives each transaction another session, such as
// pgbouncer in transaction mode, the pool's default_query_exec_mode must be
// exec or cache_describe: pgx's own default prepares statements on one session
// and runs them on another.
package pgxstore
