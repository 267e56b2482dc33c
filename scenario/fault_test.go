package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/scenario"
)

const walletSetup = `setup:
  CREATE TABLE scn_wallets (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL);
  INSERT INTO scn_wallets VALUES (17, 100);
  INSERT INTO scn_wallets VALUES (18, 0);
== x
`

// slow takes its time and waits for no lock.
func slow(e engines.Engine) string {
	switch e.Dialect {
	case "postgres":
		return "SELECT pg_sleep(2)"
	case "mysql":
		return "SELECT SLEEP(2)"
	}
	return "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000000) SELECT MAX(i) FROM n"
}

// play plays a text on a new database and returns what became of it.
func play(t *testing.T, e engines.Engine, text string, patience time.Duration) (url string, tr *transcript, err error) {
	t.Helper()
	url, tr = e.Database(t), &transcript{}
	s := parse(t, "f.txt", walletSetup+text)
	return url, tr, s.Play(t.Context(), scenario.Options{URLs: []string{url}, Patience: patience, Watch: tr.watch})
}

// A scenario that was wrong about the database must fail, at the line and with
// what came instead, and leave nothing behind.
func TestWrongExpectationsFail(t *testing.T) {
	const update = "UPDATE scn_wallets SET balance = balance - 30 WHERE id = 17"
	const lock = "A: BEGIN\nA: " + update + "\n"
	const short = 300 * time.Millisecond
	for _, e := range servers(t) {
		for _, c := range []struct{ name, text, want string }{
			{"rows", "A: " + update + "\n -> no rows", `f.txt:7: A: expected "no rows", got "1 row"`},
			{"table", "A: SELECT balance FROM scn_wallets\n -> balance\n 90\n 0",
				`expected "balance\n90\n0", got "balance\n100\n0"`},
			{"column", "A: SELECT balance FROM scn_wallets WHERE id = 17\n -> saldo\n 100", `got "balance\n100"`},
			{"count", "A: SELECT balance FROM scn_wallets\n -> 1 row", `f.txt:7: A: expected "1 row"`},
			{"no error", "A: INSERT INTO scn_wallets VALUES (17, 1)",
				`f.txt:6: A: expected "no error", got "error duplicate"`},
			{"class", "A: INSERT INTO scn_wallets VALUES (17, 1)\n -> error deadlock",
				`expected "error deadlock", got "error duplicate"`},
			{"an error that does not come", "A: " + update + "\n -> error", `expected "error", got "1 row"`},
			{"no wait", "A: " + update + "\n -> waits", `f.txt:7: A: expected "waits", got "1 row"`},
			{"slow is no wait", "A: " + slow(e) + "\n -> waits", `f.txt:7: A: expected "waits", got "nothing"`},
			{"a wait", lock + "B: " + update + "\n -> 1 row", `f.txt:9: B: expected "1 row", got "nothing"`},
			{"nothing", lock + "B: " + update, `f.txt:8: B: expected "no error", got "nothing"`},
			{"replay", "A do k x: " + update + "\n -> replay", `expected "replay", got "done 201 x by A"`},
			{"by whom", "A do k x: " + update + "\nB do k x: " + update + "\n -> replay 201 x by B",
				`got "replay 201 x by A"`},
			{"any order", lock + "B: " + update + "\n -> waits\nC: BEGIN\n -> sent\nA: COMMIT\n" +
				"B, C -> in any order: 1 row, no rows",
				`f.txt:13: B, C: expected "in any order: 1 row, no rows"`},
		} {
			t.Run(e.Name+"/"+c.name, func(t *testing.T) {
				url, tr, err := play(t, e, c.text, short)
				var unexpected *scenario.Unexpected
				if !errors.As(err, &unexpected) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v\nwant %s\n%s", err, c.want, tr)
				}
				if tables := tablesOf(t, e, url); len(tables) > 0 {
					t.Errorf("tables are left: %v", tables)
				}
			})
		}
	}
}

// A COMMIT that rolls back is no success, even if the file says nothing of it.
func TestRolledBackIsNoSuccess(t *testing.T) {
	for _, e := range engines.Named(t, engines.Postgres15, engines.Postgres18) {
		_, tr, err := play(t, e, "A: BEGIN\nA: SELECT saldo FROM scn_wallets\n -> error other\nA: COMMIT", time.Minute)
		if err == nil || !strings.Contains(err.Error(), `f.txt:9: A: expected "no error", got "rolled back"`) {
			t.Errorf("%s: %v\n%s", e.Name, err, tr)
		}
	}
}

// What can't be played is said with its line, and is no finding about the
// database.
func TestStepsOutOfOrder(t *testing.T) {
	const lock = "A: BEGIN\nA: UPDATE scn_wallets SET balance = 1\nB: UPDATE scn_wallets SET balance = 2\n -> waits\n"
	const pause = "A do k x, pausing: UPDATE scn_wallets SET balance = 1\n -> paused\n"
	for text, want := range map[string]string{
		"A -> 1 row":               "f.txt:6: A waits for nothing",
		lock + "B: COMMIT":         "f.txt:10: B is still busy: collect its result first",
		lock + "B crashes":         "f.txt:10: B is still busy",
		"A goes on":                `f.txt:6: after "do … , pausing" A can only go on or fail`,
		pause + "A: COMMIT":        `f.txt:8: after "do … , pausing" A can only go on or fail`,
		pause + "A fails\nA fails": `f.txt:9: after "do … , pausing" A can only go on or fail`,
	} {
		for _, e := range engines.Named(t, engines.SQLite) {
			_, tr, err := play(t, e, text, time.Minute)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %s\n%s", err, want, tr)
			}
		}
	}
}

// A transcript names the one who is waited for, and the engine's own code.
func TestDetails(t *testing.T) {
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			var waited, duplicate string
			s := parse(t, "f.txt", walletSetup+"A: BEGIN\nA: UPDATE scn_wallets SET balance = 1\n"+
				"B: UPDATE scn_wallets SET balance = 2\n -> waits\nA: COMMIT\nB -> 2 rows\n"+
				"B: INSERT INTO scn_wallets VALUES (17, 1)\n -> error duplicate")
			err := s.Play(t.Context(), scenario.Options{URLs: []string{e.Database(t)}, Watch: func(e scenario.Event) {
				switch strings.Join(e.Result, "") {
				case "waits":
					waited = e.Detail
				case "error duplicate":
					duplicate = e.Detail
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			code := map[string]string{"sqlite": "1555", "postgres": "23505", "mysql": "1062"}[e.Dialect]
			if !strings.Contains(duplicate, code) {
				t.Errorf("the duplicate's detail is %q, without %s", duplicate, code)
			}
			if e.Dialect == "postgres" && waited != "for A" {
				t.Errorf("the wait's detail is %q", waited)
			}
		})
	}
}

// Whoever stops a play in the middle of a wait gets it back at once, and finds
// the database as it was.
func TestStopInTheMiddle(t *testing.T) {
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			url := e.Database(t)
			s := parse(t, "f.txt", walletSetup+
				"A do k x, pausing: UPDATE scn_wallets SET balance = 1 WHERE id = 17\n -> paused\n"+
				"B do k x: UPDATE scn_wallets SET balance = 1 WHERE id = 17\n -> waits\n"+
				"C: UPDATE scn_wallets SET balance = 1 WHERE id = 17\n -> waits\nC -> 1 row")
			o := scenario.Options{URLs: []string{url}, Patience: time.Minute, Watch: func(e scenario.Event) {
				if e.Session == "C" {
					stop()
				}
			}}
			err := s.Play(ctx, o)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
			if tables := tablesOf(t, e, url); len(tables) > 0 {
				t.Errorf("tables are left: %v", tables)
			}
		})
	}
}

// What a section leaves in flight ends with it, the connections included.
func TestSessionsEnd(t *testing.T) {
	count := map[string]string{
		"postgres": "SELECT COUNT(*) - 1 FROM pg_stat_activity WHERE datname = current_database()",
		"mysql":    "SELECT COUNT(*) - 1 FROM information_schema.processlist WHERE db = DATABASE()",
	}
	// MySQL's list of connections fails on bytes in the statement of anybody's.
	for _, e := range engines.Named(t, engines.Postgres15, engines.Postgres18, engines.MariaDB) {
		t.Run(e.Name, func(t *testing.T) {
			url, tr, err := play(t, e, "A: SELECT balance FROM scn_wallets\n -> sent\nB: BEGIN\n"+
				"B: UPDATE scn_wallets SET balance = 1\nC: UPDATE scn_wallets SET balance = 2\n -> waits", time.Minute)
			if err != nil {
				t.Fatalf("%v\n%s", err, tr)
			}
			db := e.SQL(t, url)
			db.SetMaxOpenConns(1)
			// A server notices a little later that its client has gone.
			until := time.Now().Add(10 * time.Second)
			for left := 1; left > 0; {
				if err := db.QueryRowContext(t.Context(), count[e.Dialect]).Scan(&left); err != nil {
					t.Fatal(err)
				}
				if left > 0 && time.Now().After(until) {
					t.Fatalf("%d connections are left", left)
				}
			}
		})
	}
}

func TestEnginesThatDoNotFit(t *testing.T) {
	for _, e := range engines.Named(t, engines.SQLite) {
		url := e.Database(t)
		for text, want := range map[string]string{
			"engines: postgres\n== x\nA: SELECT 1":          "f is for postgres, and this is SQLite 3",
			"== x\nengines: mysql, galera\nA: SELECT 1":     "no section of f is for SQLite 3",
			"sessions: A, B at 2\n== x\nA: SELECT 1":        "its sessions are on 2 nodes of a cluster: name each",
			"engines: galera\nsessions: B at 3\n== x\nB: x": "its sessions are on 3 nodes",
		} {
			err := parse(t, "f.txt", text).Play(t.Context(), scenario.Options{URLs: []string{url}})
			if !errors.Is(err, scenario.ErrEngine) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v\nwant %s", text, err, want)
			}
		}
	}
}
