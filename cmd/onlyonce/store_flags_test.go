package main

import (
	"strings"
	"testing"
)

// Where a database is may be shown, who signs in to it with what may not.
func TestNoPasswordIsShown(t *testing.T) {
	const secret = "hunter2"
	for _, test := range []struct{ db, shown, flag string }{
		{"sqlite:onlyonce.db", "sqlite:onlyonce.db", ""},
		{"sqlite:my files.db", "sqlite:my files.db", " --db 'sqlite:my files.db'"},
		{"postgres://me@db:5433/x", "postgres://db:5433/x", " --db postgres://me@db:5433/x"},
		{"postgres://me:hunter2@db/x", "postgres://db/x", ` --db "$ONLYONCE_DB"`},
		{"postgres://db/x?password=hunter2", "postgres://db/x", ` --db "$ONLYONCE_DB"`},
		{"mysql://me:hunter2@a:3307,b:3308/x", "mysql://a:3307,b:3308/x", ` --db "$ONLYONCE_DB"`},
		{"mysql://me:hunter2%40%2F@a/x", "mysql://a/x", ` --db "$ONLYONCE_DB"`},
	} {
		f := storeFlags{DB: test.db}
		if err := f.check(); err != nil || f.shown() != test.shown || f.dbFlag() != test.flag {
			t.Errorf("%s: %v, shown as %q and %q, want %q and %q", test.db, err, f.shown(), f.dbFlag(), test.shown, test.flag)
		}
	}
	// A password that was not escaped, in which a URL's other parts seem to begin.
	for _, db := range []string{
		"postgres://me:hunter2%zz@db/x", "postgres://me:hunter2/7@db/x", "postgres://me:12/hunter2@db/x",
		"mysql://me:12?hunter2@db/x", "mysql://me:12#hunter2@db/x", "mysql://me:hunter2",
		"postgres://me:a@hunter2/7@db/x", "mysql://me:a@hunter2/7@db/x", "postgres://me:a@hunter2#7@db/x",
		"mysql://me:a@hunter2?7@db/x", "postgres://me:a@hunter2@db/x", "mysql://me:hunter2@@db/x",
		"postgres://me@db/x?password=a@hunter2", "postgres://db/x?password=a#hunter2",
		"postgres://me:hunter2@db", "postgres://me:hunter2@/x", "mongodb://me:hunter2@db/x", "me:hunter2@tcp(db)/x",
	} {
		for _, args := range [][]string{{"serve"}, {"migrate"}, {"scenario", "run", "charge-and-retry"}} {
			r := command(t, append(args, "--db", db)...).must(t, exitUsage)
			says(t, r.stderr, "--db ", "://USER:PASSWORD@HOST:PORT/NAME")
			if strings.Contains(r.stderr+r.stdout, secret) {
				t.Errorf("%s: the password is shown: %s", db, r.stderr)
			}
		}
	}
	for _, db := range []string{
		"postgres://me:hunter2@127.0.0.1:1/x", "postgres://127.0.0.1:1/x?password=hunter2",
		"postgres://127.0.0.1:1/x?password=hunter2&connect_timeout=soon", "mysql://me:hunter2@127.0.0.1:1/x",
	} {
		r := command(t, "keys", "list", "--db", db).must(t, exitFailed)
		says(t, r.stderr, "127.0.0.1:1/x", "correct")
		if strings.Contains(r.stderr+r.stdout, secret) {
			t.Errorf("%s: the password is shown: %s", db, r.stderr)
		}
	}
}

func TestConnectionsAreShared(t *testing.T) {
	for conns, readers := range map[int]int{2: 1, 5: 1, 10: 2, 20: 4, 100: 20} {
		o, err := poolFlags{DBConns: conns}.options()
		if err != nil || o.Readers != readers || o.Readers+o.Writers != conns {
			t.Errorf("%d connections: %d read and %d write, %v", conns, o.Readers, o.Writers, err)
		}
	}
	r := command(t, "serve", "--db", newDB(t), "--db-conns", "1").must(t, exitUsage)
	says(t, r.stderr, "--db-conns is 1", "2 or more")
}
