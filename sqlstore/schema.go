package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
)

// CheckSchema compares the database's tables with what this program knows of
// these sets. It only reads. ErrSchemaOld: Migrate has work to do.
// ErrSchemaNew: a newer release has changed them, and not every change since
// is marked as compatible (see Migrations).
func (d *DB) CheckSchema(ctx context.Context, sets ...Migrations) error {
	return d.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		for _, m := range sets {
			err := d.checkSet(ctx, tx, m)
			if err == nil {
				err = d.checkTables(ctx, tx, m)
			}
			if err != nil {
				return fmt.Errorf("check the schema of %s: %w", m.Name, err)
			}
		}
		return nil
	})
}

func (d *DB) checkSet(ctx context.Context, tx onlyonce.Tx, m Migrations) error {
	p, err := d.provider(m)
	if err != nil {
		return err
	}
	sources := p.ListSources()
	known := sources[len(sources)-1].Version // in ascending order, and never empty
	stored, err := d.storedVersion(ctx, tx, m)
	switch {
	case err != nil:
		return err
	case stored < known:
		return fmt.Errorf("%w (version %d, needs %d)", ErrSchemaOld, stored, known)
	case stored == known:
		return nil
	}
	var incompatible int64
	text := fmt.Sprintf(d.store.d.schema.incompatible, m.table())
	if _, err := scalar(ctx, tx, &incompatible, text, m.Name, known); err != nil {
		return err
	}
	if incompatible > 0 {
		return fmt.Errorf("%w (version %d, knows %d)", ErrSchemaNew, stored, known)
	}
	return nil
}

// checkTables looks for tables that a server keeps in a storage engine without
// transactions, in place of the one that was asked for.
func (d *DB) checkTables(ctx context.Context, tx onlyonce.Tx, m Migrations) error {
	q := d.store.d.schema
	if q.tableFault == "" {
		return nil
	}
	tables, err := m.tables(d.store.d)
	if err != nil {
		return err
	}
	for _, table := range tables {
		var fault string
		if _, err := scalar(ctx, tx, &fault, q.tableFault, table); err != nil {
			return err
		}
		if fault != "" {
			return fmt.Errorf("%w: %s", ErrUnsafeSettings, fault)
		}
	}
	return nil
}

// storedVersion returns the version of the set's tables, 0 if there are none.
func (d *DB) storedVersion(ctx context.Context, tx onlyonce.Tx, m Migrations) (int64, error) {
	var n int64
	if _, err := scalar(ctx, tx, &n, d.store.d.schema.tableExists, m.table()); err != nil || n == 0 {
		return 0, err
	}
	_, err := scalar(ctx, tx, &n, fmt.Sprintf(d.store.d.schema.version, m.table()))
	return n, err
}

// Installation returns the random name of this installation: 32 hexadecimal
// digits that the first migration wrote and that every backup carries.
func (d *DB) Installation(ctx context.Context) (string, error) {
	var id string
	err := d.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		found, err := scalar(ctx, tx, &id, d.store.d.schema.installation)
		if err == nil && !found {
			err = errors.New("the table is empty")
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the installation's name: %w", err)
	}
	return id, nil
}
