package main

import (
	"errors"
	"fmt"

	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// migrateCmd brings the schema up to date.
type migrateCmd struct {
	storeFlags
	Check bool
	JSON  bool `name:"json"`
}

func (migrateCmd) example() string {
	return "onlyonce migrate --db sqlite:/var/lib/onlyonce/onlyonce.db\n" +
		"onlyonce migrate --db postgres://onlyonce@db.internal/onlyonce\n" +
		"onlyonce migrate --check   # exit status 1: there is work"
}

// Run migrates, or with --check only compares.
func (c migrateCmd) Run(p *program) error {
	if c.Check {
		return c.check(p)
	}
	store, err := c.open(p.ctx, sqlstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	n, err := store.Migrate(p.ctx, schema()...)
	if err != nil {
		return c.migrateFailed(err)
	}
	if c.JSON {
		return writeJSON(p.stdout, map[string]any{"database": c.shown(), "applied": n})
	}
	if n == 0 {
		fmt.Fprintf(p.stdout, "%s is up to date.\n", c.shown())
		return nil
	}
	fmt.Fprintf(p.stdout, "%s: %s applied, it is up to date.\n", c.shown(), plural(n, "migration", "migrations"))
	return nil
}

func (c migrateCmd) check(p *program) error {
	o, err := p.openExisting(c.storeFlags)
	state := "up to date"
	switch {
	case errors.Is(err, sqlstore.ErrSchemaOld):
		state = "old"
	case errors.Is(err, sqlstore.ErrSchemaNew):
		state = "newer than this program"
	case err != nil:
		return err
	default:
		o.close()
	}
	if c.JSON {
		if err := writeJSON(p.stdout, map[string]any{"database": c.shown(), "schema": state}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.stdout, "%s: the schema is %s.\n", c.shown(), state)
	}
	if err != nil {
		return finding{state}
	}
	return nil
}
