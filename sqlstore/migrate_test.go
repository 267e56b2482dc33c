package sqlstore_test

import (
	"cmp"
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

	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// release makes migrations of a set "shop": each text is the Up part of one.
func release(ups ...string) sqlstore.Migrations {
	files := fstest.MapFS{}
	for i, up := range ups {
		files[fmt.Sprintf("sqlite/%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + up)}
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
			db := bare(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
			if err := db.CheckSchema(t.Context(), old); !errors.Is(err, sqlstore.ErrSchemaOld) {
				t.Errorf("an empty file: %v, want ErrSchemaOld", err)
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
	db := bare(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
	broken := release(makeOrders, makeItems+"INSERT INTO nothing (id) VALUES (1);\n")
	if n, err := db.Migrate(t.Context(), broken); n != 1 || err == nil {
		t.Errorf("applied %d, error %v; want 1 and an error", n, err)
	}
	corrected := release(makeOrders, "CREATE TABLE items (id TEXT NOT NULL);\n")
	if n, err := db.Migrate(t.Context(), corrected); n != 1 || err != nil {
		t.Errorf("corrected: applied %d, error %v; half of the broken one may have been kept", n, err)
	}
}

// TestMigrateAfterADeadOne finds the lease of a process that died. It is left
// alone while it runs and taken over when it has lapsed.
func TestMigrateAfterADeadOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	var skew atomic.Int64
	db := open(t, path, sqlstore.Options{Skew: func() time.Duration { return time.Duration(skew.Load()) }})
	_, err := pool(t, path, "").Exec(`INSERT INTO migration_lease (name, owner, lease_until)
		VALUES ('migrate', 'dead', (CAST(unixepoch('subsec') AS INTEGER) + 60) * 1000000)`)
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
}

// TestMigrateLosesItsLease stops between two migrations when another process
// has taken the lease, as it may from one that was paused for too long.
func TestMigrateLosesItsLease(t *testing.T) {
	db := bare(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{})
	set := release(makeOrders+"UPDATE migration_lease SET owner = 'another';\n", makeItems)
	if n, err := db.Migrate(t.Context(), set); n != 1 || err == nil {
		t.Errorf("applied %d, error %v; want 1 and an error", n, err)
	}
}

// TestMigrateTogether lets many handles and several processes make the same
// tables in a new file at the same moment.
func TestMigrateTogether(t *testing.T) {
	const processes, handles = 3, 4
	path := filepath.Join(t.TempDir(), "keys.db")
	var wg sync.WaitGroup
	var applied atomic.Int64
	for range processes {
		wg.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrateChild$", "-test.v")
			child.Env = append(os.Environ(), childFile+"="+path)
			out, err := child.CombinedOutput()
			found := regexp.MustCompile(`applied (\d)`).FindSubmatch(out)
			if err != nil || found == nil {
				t.Errorf("a process: %v\n%s", err, out)
				return
			}
			applied.Add(int64(found[1][0] - '0'))
		})
	}
	for range handles {
		db := bare(t, path, sqlstore.Options{})
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
	db := bare(t, path, sqlstore.Options{})
	id, err := db.Installation(t.Context())
	again, _ := db.Installation(t.Context())
	if err != nil || id != again || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("installation %q, then %q: %v", id, again, err)
	}
	other := open(t, filepath.Join(t.TempDir(), "other.db"), sqlstore.Options{})
	if strange, _ := other.Installation(t.Context()); strange == id {
		t.Errorf("two files have the same installation %q", id)
	}
}

// childFile names the file that a process of TestMigrateTogether migrates.
const childFile = "ONLYONCE_TEST_MIGRATE"

// TestMigrateChild is such a process; run by itself it migrates a file of its own.
func TestMigrateChild(t *testing.T) {
	path := cmp.Or(os.Getenv(childFile), filepath.Join(t.TempDir(), "keys.db"))
	n, err := bare(t, path, sqlstore.Options{}).
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
