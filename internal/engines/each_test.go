package engines

import (
	"path/filepath"
	"strings"
	"testing"
)

// What must run and does not is told with its reason; what is merely absent is
// left out.
func TestChoose(t *testing.T) {
	up := Up{
		Engines: []Engine{{Name: SQLite}, {Name: MariaDB}},
		Missing: []Missing{{MySQL, "no such program"}},
	}
	for _, row := range []struct {
		want    string
		names   []string
		found   string
		missing string
	}{
		{"", Names(), "sqlite mariadb", ""},
		{"", []string{MySQL}, "", ""},
		{"sqlite", Names(), "sqlite", ""},
		{"mariadb,sqlite", Names(), "sqlite mariadb", ""},
		{"mysql", Names(), "", "mysql: no such program"},
		{"mysql", []string{SQLite}, "", ""},
		{"postgres-15", Names(), "", "postgres-15: the run that started the servers left it out"},
		{"all", []string{SQLite, MySQL}, "sqlite", "mysql: no such program"},
	} {
		found, missing, err := up.choose(row.want, row.names)
		if err != nil {
			t.Fatal(err)
		}
		var foundNames, missingTexts []string
		for _, e := range found {
			foundNames = append(foundNames, e.Name)
		}
		for _, m := range missing {
			missingTexts = append(missingTexts, m.Name+": "+m.Reason)
		}
		if got := strings.Join(foundNames, " "); got != row.found {
			t.Errorf("%q of %v: found %q, want %q", row.want, row.names, got, row.found)
		}
		if got := strings.Join(missingTexts, " "); got != row.missing {
			t.Errorf("%q of %v: missing %q, want %q", row.want, row.names, got, row.missing)
		}
	}
}

func TestWantedRefusesUnknownNames(t *testing.T) {
	for _, text := range []string{"oracle", "sqlite,", "ALL", "sqlite, mysql"} {
		if _, _, err := Wanted(text); err == nil || !strings.Contains(err.Error(), WantVariable) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Without a file SQLite is up alone, and the line that says so names the rest.
func TestWithoutServersIsLoud(t *testing.T) {
	up, err := read("")
	if err != nil {
		t.Fatal(err)
	}
	if len(up.Engines) != 1 || up.Engines[0].Name != SQLite {
		t.Errorf("up are %v", up.Engines)
	}
	const want = "ENGINES NOT RUN: postgres-15, postgres-18, pgbouncer, mariadb, mysql. " +
		"make test, or make engines, brings them up."
	if got := up.loud(); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}

func TestFileComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engines.json")
	want := Up{
		Engines: []Engine{{Name: PgBouncer, Dialect: "postgres", Version: "1.18.0", URL: "a", Direct: "b"}},
		Missing: []Missing{{MySQL, "no such program"}},
	}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Engines[0] != want.Engines[0] || got.Missing[0] != want.Missing[0] {
		t.Errorf("wrote %v, read %v", want, got)
	}
	if _, err := read(path + ".gone"); err == nil || !strings.Contains(err.Error(), "make engines") {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestString(t *testing.T) {
	for want, e := range map[string]Engine{
		"PostgreSQL 15.18": {Name: Postgres15, Version: "15.18 (Debian 15.18-0+deb12u1)"},
		"MariaDB 10.11.19": {Name: MariaDB, Version: "10.11.19-MariaDB-0+deb12u1"},
		"MySQL 9.7.4":      {Name: MySQL, Version: "9.7.4-2"},
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Who looks from outside goes around the pooler, into the same database.
func TestDirect(t *testing.T) {
	pooled := Engine{URL: "postgres://postgres@127.0.0.1:2/postgres", Direct: "postgres://postgres@127.0.0.1:1/postgres"}
	for text, want := range map[string]string{
		"postgres://postgres@127.0.0.1:2/t1?a=b": "postgres://postgres@127.0.0.1:1/t1?a=b",
		pooled.URL:                               pooled.Direct,
	} {
		if got := pooled.direct(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
	if got := (Engine{}).direct("sqlite:a.db"); got != "sqlite:a.db" {
		t.Errorf("without a pooler it became %s", got)
	}
}
