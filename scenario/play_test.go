package scenario_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/scenario"
	"github.com/onlyonce-go/onlyonce/scenarios"
)

// builtIn reads the scenarios that come with the program.
func builtIn(t *testing.T) []*scenario.Script {
	t.Helper()
	names, err := fs.Glob(scenarios.Files, "*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	var all []*scenario.Script
	for _, name := range names {
		text, err := fs.ReadFile(scenarios.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(t, name, string(text)))
	}
	return all
}

func parse(t *testing.T, name, text string) *scenario.Script {
	t.Helper()
	s, err := scenario.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// allServers is how many servers returns when every one of them is up.
const allServers = 5

// servers are the engines that sessions can talk to themselves. Behind a pooler
// a session is not a connection, so there is nobody to ask who waits.
func servers(t *testing.T) []engines.Engine {
	return engines.Named(t, engines.SQLite, engines.Postgres15, engines.Postgres18, engines.MariaDB, engines.MySQL)
}

// transcript collects what a play tells, for the message of a failure.
type transcript struct{ strings.Builder }

func (tr *transcript) watch(e scenario.Event) {
	tr.WriteString(e.Session + " " + e.Text + "\n")
	if e.Result != nil {
		tr.WriteString("   -> " + strings.Join(e.Result, "\n      ") + "  " + e.Detail + "\n")
	}
}

func TestBuiltInScenarios(t *testing.T) {
	played := map[string]bool{}
	up := servers(t)
	for _, e := range up {
		t.Run(e.Name, func(t *testing.T) {
			url := e.Database(t)
			playAll(t, played, url)
			if tables := tablesOf(t, e, url); len(tables) > 0 {
				t.Errorf("tables are left: %v", tables)
			}
		})
	}
	for _, s := range builtIn(t) {
		forCluster := len(s.Engines) == 1 && s.Engines[0] == "galera"
		if !played[s.Name] && !forCluster && len(up) == allServers {
			t.Errorf("no engine plays %s, which is for %v", s.Name, s.Engines)
		}
	}
}

// playAll plays what is for this database, and notes it.
func playAll(t *testing.T, played map[string]bool, urls ...string) {
	t.Helper()
	for _, s := range builtIn(t) {
		var tr transcript
		err := s.Play(t.Context(), scenario.Options{URLs: urls, Watch: tr.watch})
		switch {
		case errors.Is(err, scenario.ErrEngine):
		case err != nil:
			t.Errorf("%v\n%s", err, tr.String())
		default:
			played[s.Name] = true
		}
	}
}

// tablesOf returns the names of a database's tables, in order.
func tablesOf(t *testing.T, e engines.Engine, url string) (names []string) {
	t.Helper()
	query := map[string]string{
		"sqlite":   "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
		"postgres": "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
		"mysql":    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
	}[e.Dialect]
	rows, err := e.SQL(t, url).QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// The file that the guide shows is one, and goes as it says.
func TestTheGuidesFile(t *testing.T) {
	page, err := os.ReadFile("../docs/guide/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```text\n# The title")
	text, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatal("the guide shows no file that begins with \"# The title\"")
	}
	s := parse(t, "guide.txt", "# The title"+text)
	for _, e := range servers(t) {
		if err := s.Play(t.Context(), scenario.Options{URLs: []string{e.Database(t)}}); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
