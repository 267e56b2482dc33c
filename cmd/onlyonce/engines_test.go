package main

import (
	"context"
	"database/sql"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// Every command that has --db does its work on every engine.
func TestEveryCommandOnEveryEngine(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		db := e.Database(t)
		on := func(args ...string) result { return command(t, append(args, "--db", db)...) }
		if e.Name != engines.SQLite { // there is no file yet
			says(t, on("migrate", "--check").must(t, exitFailed).stdout, "the schema is old")
			says(t, on("keys", "list").must(t, exitFailed).stderr, "onlyonce migrate")
			says(t, on("serve", "--no-migrate", "--sandbox-db", newFile(t)).must(t, exitFailed).stderr, "onlyonce migrate")
		}
		says(t, on("migrate", "--json").must(t, exitOK).stdout, `"applied":2`)
		says(t, on("migrate", "--check").must(t, exitOK).stdout, "up to date")
		says(t, on("accounts", "add", "shop", "--key", "oo_test_0123456789abcdef").must(t, exitOK).stdout, "shop")
		s := serving(t, db, "--sandbox-db", newFile(t), "--no-migrate")
		status, paid := charge(t, s.base, "oo_test_0123456789abcdef", "a key", "tok_ok")
		if status != http.StatusCreated {
			t.Fatalf("%d: %v", status, paid)
		}
		again, replay := charge(t, s.base, "oo_test_0123456789abcdef", "a key", "tok_ok")
		id, _ := paid["id"].(string)
		if again != status || replay["id"] != id {
			t.Errorf("the replay is %d: %v, not %v", again, replay, paid)
		}
		says(t, on("keys", "list").must(t, exitOK).stdout, "a key", "completed")
		says(t, on("keys", "show", "shop", "a key").must(t, exitOK).stdout, id, "completed", "201", "timeline")
		says(t, on("payments", "show", id).must(t, exitOK).stdout, id, "succeeded", "25.00 USD")
		says(t, on("sweep", "--sandbox-db", newFile(t)).must(t, exitOK).stdout, "0 abandoned claims")
		says(t, on("accounts", "rotate", "shop").must(t, exitOK).stdout, "1 older key works")
		says(t, on("accounts", "list").must(t, exitOK).stdout, "ends")
		says(t, on("accounts", "revoke", "shop").must(t, exitOK).stdout, "2 keys revoked")
		says(t, s.out.String(), storeFlags{DB: db}.shown())
		if code := s.end(t); code != exitOK {
			t.Errorf("the server ended with %d:\n%s", code, s.log)
		}
	})
}

func newFile(t *testing.T) string { return strings.TrimPrefix(newDB(t), "sqlite:") }

// servers are the engines that can be reached over the network, without a
// pooler in front.
func servers(t *testing.T) []engines.Engine {
	return engines.Named(t, engines.Postgres15, engines.Postgres18, engines.MariaDB, engines.MySQL)
}

// changed is the URL with some of it replaced.
func changed(t *testing.T, text string, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// A server that refuses says in its own words what of the URL is wrong, and we
// say what to do about it. Settings that lose money are refused like a flag.
func TestServersThatRefuse(t *testing.T) {
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Database(t)
			refused := func(code int, db string, words ...string) {
				t.Helper()
				r := command(t, "serve", "--db", db, "--sandbox-db", newFile(t)).must(t, code)
				says(t, r.stderr, append(words, "--db "+storeFlags{DB: db}.shown())...)
				if strings.Count(r.stderr, "\n") != 1 || strings.Contains(r.stderr, "hunter2") {
					t.Errorf("not one line without the password: %s", r.stderr)
				}
			}
			refused(exitFailed, changed(t, db, func(u *url.URL) { u.Path = "/nosuch" }), "nosuch", "CREATE DATABASE")
			refused(exitFailed, changed(t, db, func(u *url.URL) { u.User = url.UserPassword("nobody", "hunter2") }),
				"nobody", "correct user")
			refused(exitFailed, changed(t, db, func(u *url.URL) { u.Host = freeAddress(t) }),
				"refused", "start the server", "host and port")
			if e.Dialect == "postgres" {
				refused(exitUsage, db+"?synchronous_commit=off", "set synchronous_commit = on")
				return
			}
			refused(exitFailed, changed(t, db, func(u *url.URL) { u.User = url.UserPassword("root", "hunter2") }),
				"using password: YES", "correct user, password")
			refused(exitUsage, db+"?sql_mode=%27%27", "sql_mode is not strict", "STRICT_TRANS_TABLES")
		})
	}
}

// Where a table of somebody else's has one of our names there is one line, with
// what to do.
func TestForeignTables(t *testing.T) {
	for _, e := range engines.Named(t, engines.SQLite, engines.Postgres15, engines.Postgres18) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Database(t)
			if _, err := e.SQL(t, db).Exec("CREATE TABLE payments (mine BIGINT)"); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"migrate"}, {"serve", "--sandbox-db", newFile(t)}} {
				r := command(t, append(args, "--db", db)...).must(t, exitFailed)
				says(t, r.stderr, "--db "+storeFlags{DB: db}.shown(), "the tables can't be made", "account_id",
					"a database of its own")
				if strings.Count(r.stderr, "\n") != 1 {
					t.Errorf("not one line: %s", r.stderr)
				}
			}
			if e.Dialect != "postgres" {
				return
			}
			if _, err := e.SQL(t, db).Exec("CREATE SCHEMA once"); err != nil {
				t.Fatal(err)
			}
			says(t, command(t, "migrate", "--db", db+"?search_path=once").must(t, exitOK).stdout, "up to date")
		})
	}
}

// Several hosts are an order of failover, and whatever is behind COMMIT on the
// first must be there on the next.
func TestHostsThatDoNotReplicateAreRefused(t *testing.T) {
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := changed(t, e.Database(t), func(u *url.URL) { u.Host = freeAddress(t) + "," + u.Host })
			says(t, command(t, "migrate", "--db", db).must(t, exitUsage).stderr,
				"several hosts", "can lose money", "--unsafe-async-failover")
			says(t, command(t, "migrate", "--db", db, "--unsafe-async-failover").must(t, exitOK).stdout, "up to date")
			env := map[string]string{"ONLYONCE_DB": db, "ONLYONCE_UNSAFE_ASYNC_FAILOVER": "true"}
			says(t, commandWith(t, env, "migrate").must(t, exitOK).stdout, "up to date")
		})
	}
}

// However many requests come, a server takes no more connections than it was
// given, and gets along with the fewest.
func TestConnectionsAreBounded(t *testing.T) {
	counts := map[string]string{
		"postgres": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
		"mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database() " +
			"AND id <> connection_id()",
	}
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Database(t)
			s := serving(t, db, "--sandbox-db", newFile(t), "--db-conns", "2")
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					if got, answer := charge(t, s.base, wellKnownKey, "k"+string(rune('a'+i)), "tok_ok"); got != http.StatusCreated {
						t.Errorf("%d: %v", got, answer)
					}
				})
			}
			all.Wait()
			var n int
			if err := e.SQL(t, db).QueryRow(counts[e.Dialect]).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n < 1 || n > 2 {
				t.Errorf("%d connections are open, want 1 or 2", n)
			}
		})
	}
}

// A service that uses the library alone has keys and none of the server's
// tables.
func TestKeysOfTheLibraryAlone(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		db := e.Database(t)
		order(t, db)
		on := func(args ...string) result { return command(t, append(args, "--db", db)...) }
		says(t, on("keys", "list", "--account", "17").must(t, exitOK).stdout, "order-42", "completed")
		says(t, on("keys", "list").must(t, exitUsage).stderr, "keys alone", "--account ID")
		shown := on("keys", "show", "17", "order-42").must(t, exitOK).stdout
		says(t, shown, "order-42", "completed", "201", "started")
		if strings.Contains(shown, "timeline") {
			t.Errorf("a timeline of something that is not ours:\n%s", shown)
		}
		says(t, on("keys", "show", "17", "order-42", "--json").must(t, exitOK).stdout, `"operation":"orders.create"`)
		says(t, on("payments", "show", "pay_tea").must(t, exitFailed).stderr, "onlyonce migrate")
	})
}

// order runs an effect of an application under a key.
func order(t *testing.T, url string) {
	t.Helper()
	ctx := t.Context()
	keys, err := sqlstore.Open(ctx, url, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	if _, err := keys.Migrate(ctx, sqlstore.EngineMigrations()); err != nil {
		t.Fatal(err)
	}
	once, err := onlyonce.New(onlyonce.Options{Store: keys.Store()})
	if err != nil {
		t.Fatal(err)
	}
	db, _, err := sqlstore.OpenSQL(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	intent := onlyonce.Intent{
		Key: onlyonce.Key{Account: "17", Name: "order-42"}, Operation: "orders.create",
		Fingerprint: onlyonce.NewFingerprint([]byte("tea")),
	}
	_, err = sqlstore.Do(context.Background(), once, db, intent, func(*sql.Tx) (onlyonce.Outcome, error) {
		return onlyonce.Outcome{Status: http.StatusCreated, Body: []byte("tea")}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDemoOnAServer(t *testing.T) {
	for _, e := range engines.Named(t, engines.Postgres15, engines.MySQL) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Database(t)
			cmd, _ := demonstrate(t, "--db", db)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			says(t, string(out), "kill -9", "6 intents, 6 entries in the ledger. One charge each.")
			says(t, command(t, "demo", "--db", db).must(t, exitUsage).stderr, "an empty one")
		})
	}
}
