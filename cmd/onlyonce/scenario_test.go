package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/scenario"
	"github.com/onlyonce-go/onlyonce/scenarios"
)

// sqliteVersion changes with the driver, so no golden file has it.
var sqliteVersion = regexp.MustCompile(`SQLite [\d.]+`)

func scenarioFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestScenarioTranscripts(t *testing.T) {
	for _, name := range []string{"duplicate-waits", "sqlite-read-then-write"} {
		t.Run(name, func(t *testing.T) {
			r := command(t, "scenario", "run", name).must(t, exitOK)
			golden(t, "scenario_"+name, sqliteVersion.ReplaceAllString(r.stdout, "SQLite"))
		})
	}
}

func TestEveryBuiltInScenarioFitsATerminal(t *testing.T) {
	for _, name := range []string{"charge-and-retry", "original-rolls-back", "look-then-charge", "crash-between",
		"three-waiters"} {
		for line := range strings.Lines(command(t, "scenario", "run", name).must(t, exitOK).stdout) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}

// A step that goes otherwise than expected ends the play with status 1, and
// the transcript shows the line.
func TestScenarioThatGoesOtherwise(t *testing.T) {
	path := scenarioFile(t, "setup:\n  CREATE TABLE scn_t (a BIGINT);\n  INSERT INTO scn_t VALUES (1);\n"+
		"== two, it says\nA: SELECT a FROM scn_t\n   -> a\n      2\nA: SELECT 3\n")
	r := command(t, "scenario", "run", path).must(t, exitFailed)
	says(t, r.stdout, "A: SELECT a FROM scn_t\n   -> a\n      1\n   expected (line 6):\n      a\n      2\n",
		"Step 1 went otherwise than expected.")
	if strings.Contains(r.stdout, "SELECT 3") || r.stderr != "" {
		t.Errorf("it went on:\n%s%s", r.stdout, r.stderr)
	}
}

func TestScenarioJSON(t *testing.T) {
	path := scenarioFile(t, "== x\nA: SELECT 1 AS one\n   -> one\n      2\n")
	r := command(t, "scenario", "run", path, "--json").must(t, exitFailed)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	var step scenario.Event
	var end scenarioEnd
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &step); err != nil {
		t.Fatal(err)
	}
	if step.Kind != scenario.KindStep || step.Session != "A" || step.Line != 2 || step.Text != "SELECT 1 AS one" ||
		strings.Join(step.Result, " ") != "one 1" || strings.Join(step.Want, " ") != "one 2" {
		t.Errorf("%s", lines[len(lines)-2])
	}
	err := json.Unmarshal([]byte(lines[len(lines)-1]), &end)
	if err != nil || end != (scenarioEnd{Kind: "end", OK: false, Steps: 1}) {
		t.Errorf("%s, %v", lines[len(lines)-1], err)
	}
	r = command(t, "scenario", "run", "charge-and-retry", "--json").must(t, exitOK)
	says(t, r.stdout, `{"kind":"scenario","text":"charge-and-retry","engine":"SQLite `, `"ok":true`)
}

func TestScenariosThatAreRefused(t *testing.T) {
	empty := scenarioFile(t, "# nothing\n")
	for _, c := range []struct{ args, want string }{
		{"nonsense", "there is no scenario and no file nonsense: `onlyonce scenario list` shows the scenarios"},
		{empty, empty + ":1: nothing happens in it"},
		{"postgres-aborted", "postgres-aborted is for postgres, and this is SQLite"},
		{"galera-late-loser", "its sessions are on 2 nodes of a cluster: name each with a --db of its own"},
		{"charge-and-retry --db oracle:x", "--db must be sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/NAME or mysql://"},
	} {
		r := command(t, append([]string{"scenario", "run"}, strings.Fields(c.args)...)...)
		if r.code == exitOK {
			t.Errorf("%s is played", c.args)
		}
		says(t, r.stderr, c.want)
	}
}

// What --keep leaves can be looked at with the other commands, and goes with
// the next scenario.
func TestScenarioKeepsAndRefuses(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "scratch.db")
	r := command(t, "scenario", "run", "charge-and-retry", "--db", db, "--keep").must(t, exitOK)
	says(t, r.stdout, "The tables are in "+db+".")
	says(t, command(t, "keys", "show", "17", "req-42", "--db", db).must(t, exitOK).stdout, "charge 30 by A")
	command(t, "scenario", "run", "charge-and-retry", "--db", db).must(t, exitOK)

	command(t, "migrate", "--db", db).must(t, exitOK) // now it is a server's
	r = command(t, "scenario", "run", "charge-and-retry", "--db", db).must(t, exitUsage)
	says(t, r.stderr, "tables that no scenario made: idempotency_keys: name an empty database with --db")
	if r.stdout != "" {
		t.Errorf("it began all the same:\n%s", r.stdout)
	}
}

func TestScenarioList(t *testing.T) {
	files, err := fs.Glob(scenarios.Files, "*.txt")
	if err != nil {
		t.Fatal(err)
	}
	text := command(t, "scenario", "list").must(t, exitOK).stdout
	lines := strings.Split(strings.TrimSpace(command(t, "scenario", "list", "--json").must(t, exitOK).stdout), "\n")
	if len(lines) != len(files) || strings.Count(text, "\n") != len(files) {
		t.Errorf("%d files, %d lines of JSON and\n%s", len(files), len(lines), text)
	}
	for _, line := range lines {
		var l scenarioLine
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Engines == nil {
			t.Fatal(line, err)
		}
		says(t, text, l.Name, l.Title)
	}
}
