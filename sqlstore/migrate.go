package sqlstore

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/onlyonce-go/onlyonce"
)

const (
	// migrationLease outlives any one migration on a table of ordinary size; it
	// is renewed before each.
	migrationLease = 30 * time.Second
	migrationWait  = 3 * time.Minute        // for other processes' migrations: a dead one's lease and then its work
	saidAfter      = 10                     // looks, about a second
	migrationPause = 100 * time.Millisecond // between looks at another process's lease
)

//go:embed migrations
var engineFiles embed.FS

// Migrations are one set of tables that is brought up to date on its own: its
// versions are counted in a table of their own.
//
// A migration only adds, can be run twice, and leaves tables that the release
// before it can go on using; one that does so says it, in its own SQL, with
//
//	INSERT INTO schema_compatible (name, version) VALUES ('engine', 2);
//
// which lets that release start on them (see CheckSchema).
type Migrations struct {
	Name string // lower-case letters, digits and _
	FS   fs.FS  // "sqlite/0001_name.sql", in goose's format; one folder per dialect
}

// EngineMigrations makes the tables of the keys.
func EngineMigrations() Migrations {
	files, err := fs.Sub(engineFiles, "migrations")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return Migrations{Name: "engine", FS: files}
}

var setName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

var createTable = regexp.MustCompile(`(?i)\bCREATE TABLE (?:IF NOT EXISTS )?(\w+)`)

// tables returns the names of the tables that the set makes.
func (m Migrations) tables(d Dialect) (names []string, err error) {
	files, err := fs.Glob(m.FS, d.Name+"/*.sql")
	if err != nil {
		return nil, fmt.Errorf("migrations %s: %w", m.Name, err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(m.FS, file)
		if err != nil {
			return nil, fmt.Errorf("migrations %s: %w", m.Name, err)
		}
		for _, found := range createTable.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names, nil
}

// table is where the set's versions are counted.
func (m Migrations) table() string { return "schema_" + m.Name }

// provider reads the set's files for a database's dialect.
func (d *DB) provider(m Migrations) (*goose.Provider, error) {
	if !setName.MatchString(m.Name) {
		return nil, fmt.Errorf("migrations %q: the name must match %v", m.Name, setName)
	}
	files, err := fs.Sub(m.FS, d.store.d.Name)
	if err != nil {
		return nil, fmt.Errorf("migrations %s: %w", m.Name, err)
	}
	p, err := goose.NewProvider(d.store.d.goose, d.writer, files,
		goose.WithTableName(m.table()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("migrations %s for %s: %w", m.Name, d.store.d.Name, err)
	}
	return p, nil
}

// Migrate brings the tables of these sets up to date, in this order, and
// returns how many migrations it applied. Several processes may call it at
// once: one works, under a lease that is a row in a table, and the others wait
// and find nothing left to do. ErrSchemaNew: nothing was changed.
func (d *DB) Migrate(ctx context.Context, sets ...Migrations) (applied int, err error) {
	// Most starts find nothing to do, and a start must not wait for the lease of
	// another one that was killed.
	if err := d.CheckSchema(ctx, sets...); !errors.Is(err, ErrSchemaOld) {
		return 0, err
	}
	for _, text := range d.store.d.schema.create {
		err := d.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
			_, err := tx.Exec(ctx, text)
			if err != nil && d.store.d.IsDuplicate(err) {
				// PostgreSQL's IF NOT EXISTS does not see a table that another
				// session is just making.
				return fmt.Errorf("%w: %w", ErrRaced, err)
			}
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("make the tables that guard migrations: %w", err)
		}
	}
	owner := rand.Text()
	if err := d.waitLease(ctx, owner); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.dropLease(ctx, owner)) }()
	if err := d.CheckSchema(ctx, sets...); err != nil && !errors.Is(err, ErrSchemaOld) {
		return 0, err
	}
	for _, m := range sets {
		n, err := d.migrateSet(ctx, m, owner)
		applied += n
		if err != nil {
			return applied, fmt.Errorf("migrate %s: %w", m.Name, err)
		}
	}
	return applied, nil
}

// migrateSet applies one migration after another, each under a fresh lease.
func (d *DB) migrateSet(ctx context.Context, m Migrations, owner string) (applied int, err error) {
	p, err := d.provider(m)
	if err != nil {
		return 0, err
	}
	if err := d.dropUnbegun(ctx, m); err != nil {
		return 0, err
	}
	for {
		switch held, err := d.takeLease(ctx, owner); {
		case err != nil:
			return applied, err
		case !held:
			return applied, errors.New("another process has taken the migrations over: run it again")
		}
		_, err := p.UpByOne(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return applied, nil
		}
		if err != nil {
			return applied, d.store.d.classed(err)
		}
		applied++
	}
}

// dropUnbegun removes a table of versions that holds none: goose makes the
// table and its first row one after the other, and where a table is no part of
// a transaction a process can die in between.
func (d *DB) dropUnbegun(ctx context.Context, m Migrations) error {
	err := d.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		q := d.store.d.schema
		var tables, rows int64
		if _, err := scalar(ctx, tx, &tables, q.tableExists, m.table()); err != nil || tables == 0 {
			return err
		}
		if _, err := scalar(ctx, tx, &rows, "SELECT count(*) FROM "+m.table()); err != nil || rows > 0 {
			return err
		}
		_, err := tx.Exec(ctx, "DROP TABLE "+m.table())
		return err
	})
	if err != nil {
		return fmt.Errorf("look for versions: %w", err)
	}
	return nil
}

func (d *DB) waitLease(ctx context.Context, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, migrationWait)
	defer cancel()
	for looks := 0; ; looks++ {
		if looks == saidAfter {
			d.store.o.Log.WarnContext(ctx, "waiting for another process that migrates the database, or for its lease to lapse",
				"lease", migrationLease)
		}
		held, err := d.takeLease(ctx, owner)
		if held || err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another process's migrations: %w", context.Cause(ctx))
		case <-time.After(migrationPause):
		}
	}
}

// takeLease takes or renews the lease and reports whether it is owner's.
func (d *DB) takeLease(ctx context.Context, owner string) (held bool, err error) {
	err = d.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		q, skew, lease := d.store.d.schema, d.store.skew(), migrationLease.Microseconds()
		if _, err := tx.Exec(ctx, q.insertLease, owner, skew, lease); err != nil && !d.store.d.IsDuplicate(err) {
			return err
		}
		if _, err := tx.Exec(ctx, q.takeLease, owner, skew, lease, owner, skew); err != nil {
			return err
		}
		var holder string
		_, err := scalar(ctx, tx, &holder, q.leaseOwner)
		held = holder == owner
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take the lease on migrations: %w", err)
	}
	return held, nil
}

func (d *DB) dropLease(ctx context.Context, owner string) error {
	err := d.InTx(context.WithoutCancel(ctx), func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := tx.Exec(ctx, d.store.d.schema.dropLease, owner)
		return err
	})
	if err != nil {
		return fmt.Errorf("give the lease on migrations back: %w", err)
	}
	return nil
}
