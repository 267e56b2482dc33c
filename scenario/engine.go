package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// node is one database that sessions talk to.
type node struct {
	url     string
	pool    *sql.DB // of the player itself: it asks, makes tables and removes them
	dialect sqlstore.Dialect
	engine
}

// engine is what a scenario must know about a kind of database.
type engine struct {
	title   string   // "PostgreSQL 15.18"
	words   []string // what files call it
	tables  string   // a query for the names of all tables
	session string   // a query for the number of one's own session; empty: they have none

	// waits reports whether the database says that a session waits for a lock,
	// and, where it says so, the numbers of those that it waits for.
	waits func(ctx context.Context, n *node, w waiter) (yes bool, by []int64, err error)

	// judge returns the class of an error, and the engine's code for it.
	judge func(err error) (class, code string)

	// emptyCommit reports that a COMMIT on this connection will do nothing,
	// although the driver does not call that an error.
	emptyCommit func(conn *sql.Conn) bool
}

// waiter is a session whose statement has not returned.
type waiter struct {
	number int64  // what the database calls the session
	label  string // what the profiler of this process calls it
}

// openNode opens a database and asks what it is.
func openNode(ctx context.Context, url string) (*node, error) {
	pool, dialect, err := sqlstore.OpenSQL(url)
	if err != nil {
		return nil, err
	}
	n := &node{url: url, pool: pool, dialect: dialect}
	kinds := map[string]func(context.Context, *sql.DB) (engine, error){
		"sqlite": sqliteEngine, "postgres": postgresEngine, "mysql": mysqlEngine,
	}
	if n.engine, err = kinds[dialect.Name](ctx, pool); err != nil {
		return nil, fmt.Errorf("ask the database for its version: %w", errors.Join(err, pool.Close()))
	}
	return n, nil
}

// plays reports whether a list of engines in a file holds this one.
func (e engine) plays(words []string) bool {
	if len(words) == 0 || slices.Contains(words, "all") {
		return true
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(e.words, w) })
}

// catchUp waits until a node of a cluster has everything that was committed on
// another before.
func (n *node) catchUp(ctx context.Context) error {
	if !slices.Contains(n.words, wordGalera) {
		return nil
	}
	conn, err := n.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION wsrep_sync_wait = 7"); err != nil { // reads, updates, inserts
		return err
	}
	_, err = talk(ctx, conn, "SELECT COUNT(name) FROM "+madeTable)
	return err
}

// plain takes off what packagers append to a version: "15.18 (Debian …)".
func plain(version string) string {
	version, _, _ = strings.Cut(version, " ")
	version, _, _ = strings.Cut(version, "-")
	return version
}

// numbers reads a column of numbers.
func numbers(ctx context.Context, pool *sql.DB, query string, args ...any) (list []int64, err error) {
	rows, err := pool.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}
