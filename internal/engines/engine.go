package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Names of the engines, in the order in which they are run and reported.
const (
	SQLite     = "sqlite"
	Postgres15 = "postgres-15"
	Postgres18 = "postgres-18"
	PgBouncer  = "pgbouncer" // transaction mode with two server connections, in front of postgres-15
	MariaDB    = "mariadb"
	MySQL      = "mysql"
)

const (
	// FileVariable is the environment variable that names the file which says
	// what is up; see Up.
	FileVariable = "ONLYONCE_TEST_ENGINES"

	// WantVariable is the environment variable that says which engines must
	// run: "all", or names between commas. A missing one is then an error.
	// Unset, or empty: whatever is there.
	WantVariable = "ONLYONCE_ENGINES"
)

// Names returns the names of all engines, in order.
func Names() []string {
	return []string{SQLite, Postgres15, Postgres18, PgBouncer, MariaDB, MySQL}
}

// Engine is a database server that is up, or SQLite.
type Engine struct {
	// Name is one of Names.
	Name string `json:"name"`

	// Dialect is how the engine is spoken to: "sqlite", "postgres" or "mysql".
	Dialect string `json:"dialect"`

	// Version is what the server itself says.
	Version string `json:"version"`

	// URL is the administrator's, without a database of its own:
	// "postgres://postgres@127.0.0.1:21234/postgres" or
	// "mysql://root@127.0.0.1:21300/". Empty for SQLite.
	URL string `json:"url,omitempty"`

	// Direct is the URL of the server itself where URL leads to a pooler.
	// Databases are made, and looked at from outside, through this one.
	Direct string `json:"direct,omitempty"`
}

// String is the engine as a reader knows it: "PostgreSQL 15.18".
func (e Engine) String() string {
	title := map[string]string{
		SQLite: "sqlite", Postgres15: "PostgreSQL", Postgres18: "PostgreSQL", PgBouncer: "pgbouncer",
		MariaDB: "MariaDB", MySQL: "MySQL",
	}[e.Name]
	// What packagers append is no part of the version: "15.18 (Debian …)", "10.11.19-MariaDB-…".
	version, _, _ := strings.Cut(e.Version, " ")
	version, _, _ = strings.Cut(version, "-")
	return title + " " + version
}

// Missing is an engine that did not come up.
type Missing struct {
	// Name is one of Names.
	Name string `json:"name"`

	// Reason says why, and what to do about it.
	Reason string `json:"reason"`
}

// Up is what the file named by FileVariable holds.
type Up struct {
	// Engines are up, in the order of Names.
	Engines []Engine `json:"engines"`

	// Missing are not.
	Missing []Missing `json:"missing"`
}

// Wanted reads WantVariable: the names to run, in order, and whether each must
// be there. An unknown name is an error.
func Wanted(value string) (names []string, must bool, err error) {
	switch value {
	case "":
		return Names(), false, nil
	case "all":
		return Names(), true, nil
	}
	asked := strings.Split(value, ",")
	for _, name := range asked {
		if !slices.Contains(Names(), name) {
			return nil, false, fmt.Errorf("%s=%q: there is no engine %q: say all, or some of %s",
				WantVariable, value, name, strings.Join(Names(), ","))
		}
	}
	return slices.DeleteFunc(Names(), func(n string) bool { return !slices.Contains(asked, n) }), true, nil
}

// Write puts what is up into a file that everybody can read.
func (u Up) Write(path string) error {
	text, err := json.MarshalIndent(u, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the list of engines: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// read returns what is up by the file, or SQLite alone if path is empty.
func read(path string) (Up, error) {
	if path == "" {
		up := Up{}
		for _, name := range Names() {
			if name != SQLite {
				up.Missing = append(up.Missing, Missing{name, "nothing has started it"})
			}
		}
		local, err := Local()
		up.Engines = []Engine{local}
		return up, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Up{}, fmt.Errorf("%s names %s, which is gone: start the servers again with make engines, or unset it",
			FileVariable, path)
	}
	if err != nil {
		return Up{}, fmt.Errorf("read the list of engines: %w", err)
	}
	var up Up
	if err := json.Unmarshal(text, &up); err != nil {
		return Up{}, fmt.Errorf("%s: %s: %w", FileVariable, path, err)
	}
	return up, nil
}
