package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const (
	// madeTable lists the tables that scenarios made in a database, itself
	// left out, so that they can tell theirs from somebody else's.
	madeTable = tablePrefix + "made"

	// keysTable is the one by which a database with the engine's own tables is
	// known.
	keysTable = "idempotency_keys"
)

// ErrNotOurs: the database holds tables that a scenario would use and did not
// make. Nothing was changed. The message names them; play on an empty database.
var ErrNotOurs = errors.New("the database holds tables that no scenario made")

// clear makes an empty place for a script's tables, and refuses where it can't.
func (n *node) clear(ctx context.Context) error {
	if err := n.clean(ctx); err != nil {
		return err
	}
	found, err := n.list(ctx)
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(found, func(name string) bool {
		return !strings.HasPrefix(name, tablePrefix) && name != keysTable
	})
	if len(foreign) > 0 {
		slices.Sort(foreign)
		return fmt.Errorf("%w: %s: name an empty database with --db, or remove them if nobody needs them",
			ErrNotOurs, strings.Join(foreign, ", "))
	}
	return nil
}

// prepare begins to write down which tables of a script are ours.
func (n *node) prepare(ctx context.Context, tables []string) error {
	if err := n.clear(ctx); err != nil {
		return err
	}
	err := n.exec(ctx, "CREATE TABLE "+madeTable+" (place BIGINT PRIMARY KEY, name VARCHAR(64) NOT NULL)")
	if err != nil {
		return err
	}
	return n.own(ctx, tables)
}

// own writes down that tables are ours, before they are there where that is
// possible: then nothing is left behind by a run that was killed.
func (n *node) own(ctx context.Context, tables []string) error {
	place, err := numbers(ctx, n.pool, "SELECT COUNT(name) FROM "+madeTable)
	if err != nil {
		return fmt.Errorf("count the scenario's tables: %w", err)
	}
	for i, name := range tables {
		text := n.dialect.Rebind("INSERT INTO " + madeTable + " (place, name) VALUES (?, ?)")
		if _, err := n.pool.ExecContext(ctx, text, place[0]+int64(i), name); err != nil {
			return fmt.Errorf("write down that %s is the scenario's: %w", name, err)
		}
	}
	return nil
}

// clean removes every table that a scenario made, the last first.
func (n *node) clean(ctx context.Context) error {
	found, err := n.list(ctx)
	if err != nil || !slices.Contains(found, madeTable) {
		return err
	}
	rows, err := n.pool.QueryContext(ctx, "SELECT name FROM "+madeTable+" ORDER BY place DESC")
	if err != nil {
		return fmt.Errorf("read which tables scenarios made: %w", err)
	}
	defer rows.Close()
	made, err := table(rows)
	if err != nil {
		return fmt.Errorf("read which tables scenarios made: %w", err)
	}
	if err := n.unused(ctx, found); err != nil {
		return err
	}
	for i, row := range made.cells {
		if i == 0 || !slices.Contains(found, row[0]) { // the column's name; never made
			continue
		}
		if err := n.exec(ctx, "DROP TABLE "+row[0]); err != nil {
			return err
		}
	}
	return n.exec(ctx, "DROP TABLE "+madeTable)
}

// unused refuses to remove kept tables in which somebody else has begun to keep
// keys.
func (n *node) unused(ctx context.Context, found []string) error {
	if !slices.Contains(found, keysTable) {
		return nil
	}
	text := n.dialect.Rebind("SELECT COUNT(operation) FROM " + keysTable + " WHERE operation <> ?")
	keys, err := numbers(ctx, n.pool, text, doOperation)
	if err != nil {
		return fmt.Errorf("look whose keys there are: %w", err)
	}
	if keys[0] > 0 {
		return fmt.Errorf("%w: a scenario made %s, but by now it holds %d keys of others: name an empty database "+
			"with --db", ErrNotOurs, keysTable, keys[0])
	}
	return nil
}

// migrate makes the engine's own tables, for do.
func (n *node) migrate(ctx context.Context) error {
	before, err := n.list(ctx)
	if err != nil {
		return err
	}
	db, err := sqlstore.Open(ctx, n.url, sqlstore.Options{})
	if err != nil {
		return err
	}
	_, err = db.Migrate(ctx, sqlstore.EngineMigrations())
	err = errors.Join(err, db.Close())
	after, errList := n.list(ctx)
	if errList != nil {
		return errors.Join(err, errList)
	}
	made := slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
	return errors.Join(err, n.own(ctx, made))
}

// list returns the names of all tables.
func (n *node) list(ctx context.Context) ([]string, error) {
	rows, err := n.pool.QueryContext(ctx, n.tables)
	if err != nil {
		return nil, fmt.Errorf("list the database's tables: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list the database's tables: %w", err)
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func (n *node) exec(ctx context.Context, text string) error {
	if _, err := n.pool.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}
