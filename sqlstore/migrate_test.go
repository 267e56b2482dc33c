package sqlstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// release makes migrations of a set "shop": each text is the Up part of one.
func release(ups ...string) sqlstore.Migrations {
	files := fstest.MapFS{}
	for i, up := range ups {
		for _, dialect := range []string{"sqlite", "postgres", "mysql"} {
			files[fmt.Sprintf("%s/%04d_step.sql", dialect, i+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + up)}
		}
	}
	return sqlstore.Migrations{Name: "shop", FS: files}
}

const (
	makeOrders = "CREATE TABLE IF NOT EXISTS orders (id TEXT NOT NULL);\n"
	makeItems  = "CREATE TABLE IF NOT EXISTS items (id TEXT NOT NULL);\n"
	markSecond = "INSERT INTO schema_compatible (name, version) VALUES ('shop', 2);\n"
)

func bare(t *testing.T, path string, o sqlstore.Options) *sqlstore.DB {
	t.Helper()
	return reach(t, "sqlite:"+path, o)
}

// TestSchemaVersions walks through releases that meet each other's tables.
func TestSchemaVersions(t *testing.T) {
	engines.Each(t, testSchemaVersions)
}

func testSchemaVersions(t *testing.T, e engines.Engine) {
	old := release(makeOrders)
	for name, test := range map[string]struct {
		newer sqlstore.Migrations
		want  error
	}{
		"compatible":   {release(makeOrders, makeItems+markSecond), nil},
		"unmarked":     {release(makeOrders, makeItems), sqlstore.ErrSchemaNew},
		"one unmarked": {release(makeOrders, makeItems+markSecond, "DROP TABLE orders;\n"), sqlstore.ErrSchemaNew},
	} {
		t.Run(name, func(t *testing.T) {
			db := reach(t, e.Database(t), sqlstore.Options{})
			if err := db.CheckSchema(t.Context(), old); !errors.Is(err, sqlstore.ErrSchemaOld) {
				t.Errorf("an empty database: %v, want ErrSchemaOld", err)
			}
			if n, err := db.Migrate(t.Context(), old); n != 1 || err != nil {
				t.Errorf("the old release applied %d: %v", n, err)
			}
			if err := errors.Join(db.CheckSchema(t.Context(), old)); err != nil {
				t.Error(err)
			}
			if err := db.CheckSchema(t.Context(), test.newer); !errors.Is(err, sqlstore.ErrSchemaOld) {
				t.Errorf("the newer release on old tables: %v, want ErrSchemaOld", err)
			}
			if _, err := db.Migrate(t.Context(), sqlstore.EngineMigrations(), test.newer); err != nil {
				t.Errorf("the newer release: %v", err)
			}
			if err := db.CheckSchema(t.Context(), sqlstore.EngineMigrations(), test.newer); err != nil {
				t.Errorf("the newer release on its own tables: %v", err)
			}
			if err := db.CheckSchema(t.Context(), old); !errors.Is(err, test.want) {
				t.Errorf("the old release on new tables: %v, want %v", err, test.want)
			}
			if n, err := db.Migrate(t.Context(), old); n != 0 || !errors.Is(err, test.want) {
				t.Errorf("the old release migrates new tables: %d, %v, want %v", n, err, test.want)
			}
		})
	}
}

// TestMigrateFails leaves a broken migration unapplied, keeps those before it
// and gives the lease back.
func TestMigrateFails(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		db := reach(t, e.Database(t), sqlstore.Options{})
		broken := release(makeOrders, makeItems+"INSERT INTO nothing (id) VALUES (1);\n")
		if n, err := db.Migrate(t.Context(), broken); n != 1 || err == nil {
			t.Errorf("applied %d, error %v; want 1 and an error", n, err)
		}
		corrected := release(makeOrders, "CREATE TABLE items (id TEXT NOT NULL);\n")
		if e.Dialect == "mysql" {
			corrected = release(makeOrders, makeItems) // tables are no part of a transaction there
		}
		if n, err := db.Migrate(t.Context(), corrected); n != 1 || err != nil {
			t.Errorf("corrected: applied %d, error %v; half of the broken one may have been kept", n, err)
		}
	})
}

// TestMigrateAfterADeadOne finds the lease of a process that died. It is left
// alone while it runs and taken over when it has lapsed.
func TestMigrateAfterADeadOne(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		link := e.Database(t)
		var skew atomic.Int64
		db := migrated(t, link, sqlstore.Options{Skew: func() time.Duration { return time.Duration(skew.Load()) }})
		_, err := e.SQL(t, link).Exec(fmt.Sprintf(`INSERT INTO migration_lease (name, owner, lease_until)
			VALUES ('migrate', 'dead', %d)`, time.Now().Add(time.Minute).UnixMicro()))
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context20ms(t)
		defer cancel()
		if n, err := db.Migrate(gone, release(makeOrders)); n != 0 || err == nil {
			t.Errorf("under another's lease: applied %d, error %v", n, err)
		}
		skew.Store(int64(time.Minute))
		if n, err := db.Migrate(t.Context(), release(makeOrders)); n != 1 || err != nil {
			t.Errorf("after the lease: applied %d, error %v", n, err)
		}
	})
}

// TestMigrateLosesItsLease stops between two migrations when another process
// has taken the lease, as it may from one that was paused for too long.
func TestMigrateLosesItsLease(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		db := reach(t, e.Database(t), sqlstore.Options{})
		set := release(makeOrders+"UPDATE migration_lease SET owner = 'another';\n", makeItems)
		if n, err := db.Migrate(t.Context(), set); n != 1 || err == nil {
			t.Errorf("applied %d, error %v; want 1 and an error", n, err)
		}
	})
}

// TestMigrateAfterACrash cuts Migrate off after each of its statements and
// runs it again. On MySQL half of a migration then stands already.
func TestMigrateAfterACrash(t *testing.T) {
	const limit = 100
	later := sqlstore.Options{Skew: func() time.Duration { return time.Minute }} // when the dead one's lease is over
	for _, e := range engines.Named(t, engines.SQLite, engines.MariaDB) {
		t.Run(e.Name, func(t *testing.T) {
			for n := 1; ; n++ {
				if n > limit {
					t.Fatalf("more than %d statements", limit)
				}
				calls := 0
				ctx, die := context.WithCancel(t.Context())
				defer die()
				h := hook(func(_ string, run func() error) error {
					calls++
					err := run()
					if calls >= n {
						die()
						return errors.Join(err, errDisk)
					}
					return err
				})
				link := e.Database(t)
				db, err := sqlstore.Open(ctx, link, sqlstore.Options{Connect: h.connect})
				if err == nil {
					_, err = db.Migrate(ctx, sqlstore.EngineMigrations())
					_ = db.Close()
				}
				if (err != nil) != (calls >= n) {
					t.Errorf("cut off at statement %d of %d: %v", n, calls, err)
				}
				again := migrated(t, link, later)
				if err := again.CheckSchema(t.Context(), sqlstore.EngineMigrations()); err != nil {
					t.Errorf("cut off at statement %d, then again: %v", n, err)
				}
				if _, err := again.Installation(t.Context()); err != nil {
					t.Errorf("cut off at statement %d, then again: %v", n, err)
				}
				if calls < n {
					break
				}
			}
		})
	}
}

// TestMigrateTogether lets many handles and several processes make the same
// tables in a new database at the same moment.
func TestMigrateTogether(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		const processes, handles = 3, 4
		link := e.Database(t)
		var wg sync.WaitGroup
		var applied atomic.Int64
		for range processes {
			wg.Go(func() { applied.Add(migrateElsewhere(t, link)) })
		}
		for range handles {
			db := reach(t, link, sqlstore.Options{})
			wg.Go(func() {
				n, err := db.Migrate(t.Context(), sqlstore.EngineMigrations(), release(makeOrders, makeItems))
				if err != nil {
					t.Error(err)
				}
				applied.Add(int64(n))
			})
		}
		wg.Wait()
		if applied.Load() != 3 {
			t.Errorf("%d migrations were applied in all, want each of 3 once", applied.Load())
		}
		db := reach(t, link, sqlstore.Options{})
		id, err := db.Installation(t.Context())
		again, _ := db.Installation(t.Context())
		if err != nil || id != again || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
			t.Errorf("installation %q, then %q: %v", id, again, err)
		}
		other := migrated(t, e.Database(t), sqlstore.Options{})
		if strange, _ := other.Installation(t.Context()); strange == id {
			t.Errorf("two databases have the same installation %q", id)
		}
	})
}

// migrateElsewhere migrates in another process and returns how many migrations
// that applied.
func migrateElsewhere(t *testing.T, link string) int64 {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrateChild$", "-test.v")
	child.Env = append(os.Environ(), childLink+"="+link)
	out, err := child.CombinedOutput()
	found := regexp.MustCompile(`applied (\d)`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Errorf("a process: %v\n%s", err, out)
		return 0
	}
	return int64(found[1][0] - '0')
}

// TestUnmigrated uses a database that has no tables yet: what to do about it is
// said.
func TestUnmigrated(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		link := e.Database(t)
		db := reach(t, link, sqlstore.Options{})
		if err := db.CheckSchema(t.Context(), sqlstore.EngineMigrations()); !errors.Is(err, sqlstore.ErrSchemaOld) {
			t.Errorf("CheckSchema: %v, want ErrSchemaOld", err)
		}
		_, err := sqlstore.Do(t.Context(), engine(t, db.Store()), ownPool(t, link), intent("k"), succeed)
		if !errors.Is(err, sqlstore.ErrSchemaOld) {
			t.Errorf("Do: %v, want ErrSchemaOld", err)
		}
	})
}

// TestForeignTables puts the keys into a storage engine that can't roll back,
// as a server does that lacks the one that was asked for.
func TestForeignTables(t *testing.T) {
	for _, e := range engines.Named(t, engines.MariaDB, engines.MySQL) {
		link := e.Database(t)
		db := migrated(t, link, sqlstore.Options{})
		if _, err := e.SQL(t, link).Exec("ALTER TABLE idempotency_keys ENGINE = MyISAM"); err != nil {
			t.Fatal(err)
		}
		err := db.CheckSchema(t.Context(), sqlstore.EngineMigrations())
		if !errors.Is(err, sqlstore.ErrUnsafeSettings) || !strings.Contains(err.Error(), "idempotency_keys") {
			t.Errorf("%s: %v, want ErrUnsafeSettings that names the table", e.Name, err)
		}
	}
}

// childLink names the database that a process of TestMigrateTogether migrates.
const childLink = "ONLYONCE_TEST_MIGRATE"

// TestMigrateChild is such a process; run by itself it migrates a file of its own.
func TestMigrateChild(t *testing.T) {
	link := cmp.Or(os.Getenv(childLink), "sqlite:"+filepath.Join(t.TempDir(), "keys.db"))
	n, err := reach(t, link, sqlstore.Options{}).
		Migrate(t.Context(), sqlstore.EngineMigrations(), release(makeOrders, makeItems))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("applied %d\n", n)
}

// TestSetNames refuses names that would be SQL.
func TestSetNames(t *testing.T) {
	db := bare(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
	for _, name := range []string{"", "a b", "x;--", "É", strings.Repeat("a", 41)} {
		set := release(makeOrders)
		set.Name = name
		if err := db.CheckSchema(t.Context(), set); err == nil || errors.Is(err, sqlstore.ErrSchemaOld) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}
