package sqlstore_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

func context20ms(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), 20*time.Millisecond)
}

// TestSource reads this package for what it must not hold: statements that
// turn errors into nothing (case 42), the process's clock beside the
// database's, native types that differ between engines.
func TestSource(t *testing.T) {
	const types = `(?i)\b(jsonb?|enum|timestamptz?|datetime|autoincrement|serial)\s*(not null|,|\()`
	forbidden := map[string]*regexp.Regexp{
		"an error turned into nothing": regexp.MustCompile(`(?i)\b(insert\s+(or\s+)?ignore|or\s+(ignore|replace))\b`),
		"the process's clock":          regexp.MustCompile(`time\.(Now|Since|Until)\(`),
		"columns that are not listed":  regexp.MustCompile(`(?i)select\s+\*|returning\s+\*`),
		"a type of one engine":         regexp.MustCompile(types),
	}
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for what, pattern := range forbidden {
			if found := pattern.Find(text); found != nil {
				t.Errorf("%s holds %s: %q", path, what, found)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Fatalf("%d files were read: %v", files, err)
	}
}

// TestNowIsUTC reads the clock on sessions in odd time zones.
func TestNowIsUTC(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		for _, v := range variants(e) {
			db := reach(t, with(t, e.Database(t), v.parameters), sqlstore.Options{})
			var now time.Time
			err := db.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) (err error) {
				now, err = db.Store().Now(ctx, tx)
				return err
			})
			// No zone is that near to UTC, and no test takes that long.
			if off := time.Until(now); err != nil || off.Abs() > 10*time.Minute {
				t.Errorf("%s: the clock is %v off: %v", v.name, off, err)
			}
		}
	})
}

// TestList pages through an account's keys, newest first, with two that were
// made in the same instant, and never another account's.
func TestList(t *testing.T) {
	var skew time.Duration
	db := open(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{Skew: func() time.Duration { return skew }})
	once := engine(t, db.Store())
	const keys = 7
	for i := range keys {
		skew = time.Duration(i/2) * time.Hour
		if err := begin(db, once, fmt.Sprintf("k%d", i))(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := db.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		var got []string
		after := ""
		for range keys {
			page, err := db.Store().List(ctx, tx, "acct_1", after, 3)
			if err != nil {
				return err
			}
			for _, rec := range page {
				got = append(got, rec.Key.Name)
			}
			if len(page) < 3 {
				break
			}
			after = got[len(got)-1]
		}
		if want := "k6 k5 k4 k3 k2 k1 k0"; strings.Join(got, " ") != want {
			t.Errorf("listed %v, want %s", got, want)
		}
		if page, err := db.Store().List(ctx, tx, "acct_2", "", 3); err != nil || len(page) > 0 {
			t.Errorf("another account: %v %v", page, err)
		}
		if _, err := db.Store().List(ctx, tx, "acct_1", "reaped", 3); err == nil {
			t.Error("a page after a key that is gone ended silently")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
