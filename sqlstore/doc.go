// Package sqlstore keeps the engine's keys in an SQL database and runs effects
// in one transaction with them.
//
// There are two ways in. A service that has a database of its own gives it to
// [Do], which puts claim, effect and outcome into one transaction:
//
//	store := sqlstore.New(sqlstore.SQLite(), sqlstore.Options{})
//	once, err := onlyonce.New(onlyonce.Options{Store: store})
//	...
//	res, err := sqlstore.Do(ctx, once, db, intent, func(tx *sql.Tx) (onlyonce.Outcome, error) {
//		_, err := tx.ExecContext(ctx, "INSERT INTO orders ...")
//		return onlyonce.Outcome{Status: 201, Body: body}, err
//	})
//
// A program that leaves the database to this package calls [Open] and works
// through [DB.InTx] and [DB.View]. Both need the tables of [EngineMigrations],
// which [DB.Migrate] brings up to date.
//
// What differs between database engines is data in a [Dialect]; nothing else
// in this package knows which one it talks to.
package sqlstore
