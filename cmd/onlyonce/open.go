package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// schema is every set of tables, in the order in which they are made.
func schema() []sqlstore.Migrations {
	return []sqlstore.Migrations{sqlstore.EngineMigrations(), db.Migrations()}
}

// opened is a database and what reads it.
type opened struct {
	store  *sqlstore.DB
	engine *onlyonce.Engine
	db     *db.DB // nil: this database has keys alone
}

func (o *opened) close() { o.store.Close() }

// openExisting opens a database that is there and fits this program. Commands
// that look or repair use it: none of them makes an empty database because of
// a mistyped path.
func (p *program) openExisting(f storeFlags) (*opened, error) { return p.openTables(f, schema()...) }

// openKeys is openExisting for those who look at keys: where the library is
// used alone the tables of the payments are missing, and so is opened.db.
func (p *program) openKeys(f storeFlags) (*opened, error) {
	o, err := p.openTables(f, sqlstore.EngineMigrations())
	if err != nil {
		return nil, err
	}
	switch err := o.store.CheckSchema(p.ctx, db.Migrations()); {
	case errors.Is(err, sqlstore.ErrSchemaOld):
		o.db = nil
	case err != nil:
		return nil, errors.Join(fmt.Errorf("--db %s: %w", f.shown(), err), o.store.Close())
	}
	return o, nil
}

// openTables opens a database that is there and has these tables.
func (p *program) openTables(f storeFlags, tables ...sqlstore.Migrations) (*opened, error) {
	if path := f.path(); path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, refuse("there is no database at %s: name it with --db, or make one with `onlyonce migrate`", path)
		}
	}
	store, err := f.open(p.ctx, sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	o, err := look(p.ctx, store, tables)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--db %s: %w", f.shown(), err), store.Close())
	}
	return o, nil
}

// fileCure says what to do about a file that could not be opened, "" if it is
// not a file.
func fileCure(flag, path string) string {
	if path == "" {
		return ""
	}
	info, err := os.Stat(path)
	_, errFolder := os.Stat(filepath.Dir(path))
	switch {
	case err == nil && info.IsDir():
		return ": it is a folder; name a file in it"
	case errFolder != nil:
		return ": its folder is not there; make it first, or name another file with " + flag
	}
	return ": it must be an SQLite file, or a new one, that this user may read and write; name another with " + flag
}

func look(ctx context.Context, store *sqlstore.DB, tables []sqlstore.Migrations) (*opened, error) {
	if err := store.CheckSchema(ctx, tables...); err != nil {
		return nil, err
	}
	engine, err := onlyonce.New(onlyonce.Options{Store: store.Store()})
	if err != nil {
		return nil, err
	}
	// Looking never opens a secret column.
	return &opened{store: store, engine: engine, db: db.New(store, engine, db.PlainSealer())}, nil
}
