package software

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func store(t *testing.T) *Store {
	t.Helper()
	return &Store{Dir: t.TempDir(), Log: &Log{Out: t.Output(), Now: time.Now}}
}

// fake is a folder with programs that only tell their version.
func fake(t *testing.T, versions map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, version := range versions {
		text := fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	versionMariaDB = "Ver 10.11.19-MariaDB for debian-linux-gnu"
	versionMySQL   = "Ver 9.7.4 for Linux on x86_64 (MySQL Community Server)"
	version15      = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
	version18      = "postgres (PostgreSQL) 18.4"
)

// What a program is, its version says, not its name: MariaDB also comes as
// mysqld. The names here are no system's, because systems are searched too.
func TestSystemLooksAtVersions(t *testing.T) {
	s := store(t)
	ctx := t.Context()
	notMariaDB := func(v string) bool { return !isMariaDB(v) }
	for _, row := range []struct {
		what     string
		versions map[string]string
		right    func(string) bool
		programs []string
		want     string // in the error; "" where it is found
	}{
		{"MySQL", map[string]string{"fake-mysqld": versionMySQL}, notMariaDB, []string{"fake-mysqld"}, ""},
		{"MariaDB as mysqld", map[string]string{"fake-mysqld": versionMariaDB}, notMariaDB, []string{"fake-mysqld"},
			"it is Ver 10.11"},
		{"PostgreSQL 15", map[string]string{"fake-postgres": version15, "fake-initdb": ""}, isPostgres(15),
			[]string{"fake-postgres", "fake-initdb"}, ""},
		{"PostgreSQL 18 for 15", map[string]string{"fake-postgres": version18}, isPostgres(15),
			[]string{"fake-postgres"}, "it is postgres"},
		{"half of it", map[string]string{"fake-postgres": version15}, isPostgres(15),
			[]string{"fake-postgres", "no-such-initdb"}, "no program no-such-initdb"},
		{"nothing", nil, isMariaDB, []string{"no-such-server"}, "no-such-server is not installed"},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir := fake(t, row.versions)
			t.Setenv("PATH", "")
			p, err := s.system("it", row.right, []string{dir}, row.programs...)(ctx)
			switch {
			case row.want == "" && err != nil:
				t.Error(err)
			case row.want == "" && p.Dirs[0] != dir:
				t.Errorf("found in %v", p.Dirs)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// If no source has a product, the error holds every reason and the cure.
func TestFirstSaysAllReasons(t *testing.T) {
	no := func(text string) source {
		return func(context.Context) (Programs, error) { return Programs{}, errors.New(text) }
	}
	_, err := first(t.Context(), "MySQL", "install mysql-server", no("not installed"), no("no apt-get"))
	const want = "no MySQL: not installed; no apt-get: install mysql-server"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Two runs at once both get the whole, and a failed one leaves nothing.
func TestKeepIsWholeOrNotThere(t *testing.T) {
	s := store(t)
	broken := errors.New("the line is down")
	_, err := s.keep(t.Context(), "thing", "thing", func(_ context.Context, dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o600), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) > 0 {
		t.Errorf("a failed fetch left %v (%v)", left, err)
	}
	both := make(chan struct{})
	var ready, all sync.WaitGroup
	ready.Add(2)
	for i := range 2 {
		all.Go(func() {
			dir, err := s.keep(t.Context(), "thing", "thing", func(_ context.Context, dir string) error {
				ready.Done()
				<-both // both are at it now
				return os.WriteFile(filepath.Join(dir, "whole"), []byte{byte(i)}, 0o600)
			})
			if err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(filepath.Join(dir, "whole")); err != nil || info.Mode().Perm()&0o044 != 0o044 {
				t.Errorf("run %d has %v (%v)", i, info, err)
			}
		})
	}
	ready.Wait()
	close(both)
	all.Wait()
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 1 {
		t.Errorf("two runs left %v (%v)", left, err)
	}
	again := func(context.Context, string) error { return errors.New("it was there") }
	if _, err := s.keep(t.Context(), "thing", "thing", again); err != nil {
		t.Error("it is fetched again:", err)
	}
}

// Programs of another release are run by the loader that came with them, those
// of this release with their own libraries.
func TestUnpackedPrograms(t *testing.T) {
	root := t.TempDir()
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	if err := os.MkdirAll(libraries, 0o755); err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(libraries, "ld-linux-x86-64.so.2")
	if err := os.WriteFile(loader, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	foreign, err := fromApt{name: "it", suite: "sid"}.programs(root)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(foreign.Loader, " "), loader+" --library-path "+libraries; got != want {
		t.Errorf("the loader is %q, want %q", got, want)
	}
	native, err := fromApt{name: "it"}.programs(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(native.Loader) != 0 || native.Env[0] != "LD_LIBRARY_PATH="+libraries {
		t.Errorf("programs of this release run by %v with %v", native.Loader, native.Env)
	}
	if native.Usr != filepath.Join(root, "usr") || native.Dirs[1] != filepath.Join(root, "usr/sbin") {
		t.Errorf("they are in %s and %v", native.Usr, native.Dirs)
	}
}

// A server must not be influenced by what a developer has in the environment.
func TestCommandHasASmallEnvironment(t *testing.T) {
	t.Setenv("PGPORT", "1")
	t.Setenv("MYSQL_TCP_PORT", "1")
	p := Programs{Dirs: []string{fake(t, map[string]string{"server": "1"})}, Env: []string{"NEEDED=1"}}
	cmd, err := p.Command(t.Context(), "server")
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range cmd.Env {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "PATH", "LC_ALL", "NEEDED":
		default:
			t.Errorf("the server sees %s", variable)
		}
	}
}

// Links that an npm package could not hold are made from its list.
func TestLinks(t *testing.T) {
	pkg := t.TempDir()
	native := filepath.Join(pkg, "native")
	if err := os.MkdirAll(filepath.Join(native, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	list := `[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so"}]`
	for name, text := range map[string]string{"lib/libpq.so.5.18": "library", "pg-symlinks.json": list} {
		if err := os.WriteFile(filepath.Join(native, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // what is there already stays
		if err := links(pkg); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(native, "lib/libpq.so")); err != nil || string(text) != "library" {
		t.Errorf("the link leads to %q (%v)", text, err)
	}
}

// As root, a folder that others could have filled is refused.
func TestStoreIsOnesOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ours(dir); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := ours(dir); err == nil {
		t.Error("a folder that everybody can write to was taken")
	}
}

func TestSearchable(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if Searchable(inner) {
		t.Error("a folder in one that nobody may enter is said to be searchable")
	}
	if !Searchable("/") {
		t.Error("the root is said not to be searchable")
	}
}
