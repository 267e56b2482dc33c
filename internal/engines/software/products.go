package software

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// source is one way to come by a product.
type source func(ctx context.Context) (Programs, error)

// first tries one source after the other. If all fail, each says why.
func first(ctx context.Context, product, advice string, sources ...source) (Programs, error) {
	var reasons []string
	for _, try := range sources {
		p, err := try(ctx)
		if err == nil {
			p.Product = product
			return p, nil
		}
		reasons = append(reasons, err.Error())
	}
	return Programs{}, fmt.Errorf("no %s: %s: %s", product, strings.Join(reasons, "; "), advice)
}

// system looks at what the machine has.
func (s *Store) system(product string, right func(version string) bool, dirs []string, programs ...string) source {
	return func(ctx context.Context) (Programs, error) {
		if s.OwnOnly {
			return Programs{}, errors.New("what the system has is left out")
		}
		err := fmt.Errorf("%s is not installed", programs[0])
		for _, dir := range append(dirs, systemDirs()...) {
			p := Programs{Product: product, Usr: "/usr", Dirs: []string{dir}}
			if _, missing := p.Path(programs[0]); missing != nil {
				continue
			}
			p.Dirs = append(p.Dirs, systemDirs()...)
			if err = p.has(ctx, right, programs...); err == nil {
				return p, nil
			}
		}
		return Programs{}, err
	}
}

// Postgres finds the server of a major version.
func (s *Store) Postgres(ctx context.Context, major int) (Programs, error) {
	product := fmt.Sprintf("PostgreSQL %d", major)
	return first(ctx, product, fmt.Sprintf("install %s or npm", product),
		s.system(product, isPostgres(major), postgresDirs("/usr", major), "postgres", "initdb"),
		func(ctx context.Context) (Programs, error) { return s.npmPostgres(ctx, major) },
		func(ctx context.Context) (Programs, error) { return s.aptPostgres(ctx, major) })
}

// PostgresWithClients finds the server of a major version with pg_basebackup.
func (s *Store) PostgresWithClients(ctx context.Context, major int) (Programs, error) {
	product := fmt.Sprintf("PostgreSQL %d with pg_basebackup", major)
	return first(ctx, product, fmt.Sprintf("install PostgreSQL %d", major),
		s.system(product, isPostgres(major), postgresDirs("/usr", major), "postgres", "initdb", "pg_basebackup"),
		func(ctx context.Context) (Programs, error) { return s.aptPostgres(ctx, major) })
}

func (s *Store) aptPostgres(ctx context.Context, major int) (Programs, error) {
	name := fmt.Sprintf("postgresql-%d", major)
	client := fmt.Sprintf("postgresql-client-%d", major)
	p, err := s.apt(ctx, fromApt{name: name, packages: []string{name, client}})
	p.Dirs = append(postgresDirs(p.Usr, major), p.Dirs...)
	return p, err
}

// postgresDirs are where systems keep several versions side by side.
func postgresDirs(usr string, major int) []string {
	return []string{
		filepath.Join(usr, fmt.Sprintf("lib/postgresql/%d/bin", major)), // Debian
		fmt.Sprintf("/usr/pgsql-%d/bin", major),                         // Red Hat
		fmt.Sprintf("/opt/homebrew/opt/postgresql@%d/bin", major),       // macOS
	}
}

func isPostgres(major int) func(version string) bool {
	return func(version string) bool { return strings.Contains(version, fmt.Sprintf(") %d.", major)) }
}

// isMariaDB tells MariaDB from MySQL, whose program it brings under its own
// name as well.
func isMariaDB(version string) bool { return strings.Contains(version, "MariaDB") }

// MariaDB finds the server.
func (s *Store) MariaDB(ctx context.Context) (Programs, error) {
	return first(ctx, "MariaDB", "install mariadb-server",
		s.system("MariaDB", isMariaDB, nil, "mariadbd", "mariadb-install-db"),
		func(ctx context.Context) (Programs, error) {
			// The other package has a program that mariadb-install-db calls.
			return s.apt(ctx, fromApt{name: "mariadb-server-core",
				packages: []string{"mariadb-server-core", "mariadb-client-core"}})
		})
}

// Galera finds MariaDB with what a cluster needs.
func (s *Store) Galera(ctx context.Context) (Programs, error) {
	return first(ctx, "MariaDB with Galera", "install mariadb-server, galera-4 and rsync",
		func(ctx context.Context) (Programs, error) {
			p, err := s.system("MariaDB with Galera", isMariaDB, nil,
				"mariadbd", "mariadb-install-db", "wsrep_sst_rsync", "rsync")(ctx)
			if err == nil {
				_, err = p.GaleraLibrary()
			}
			return p, err
		},
		func(ctx context.Context) (Programs, error) {
			return s.apt(ctx, fromApt{name: "mariadb-galera",
				packages: []string{"mariadb-server", "mariadb-server-core", "mariadb-client-core", "galera-4", "rsync"}})
		})
}

// GaleraLibrary is the path of the library with which MariaDB replicates.
func (p Programs) GaleraLibrary() (string, error) {
	for _, pattern := range []string{"lib*/libgalera_smm.so", "lib*/galera*/libgalera_smm.so"} {
		if found, err := filepath.Glob(filepath.Join(p.Usr, pattern)); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s: there is no libgalera_smm.so below %s", p.Product, p.Usr)
}

// MySQL finds Oracle's server. Debian's releases have none; its unstable suite
// does, and it runs beside the system with its own C library.
func (s *Store) MySQL(ctx context.Context) (Programs, error) {
	notMariaDB := func(version string) bool { return !isMariaDB(version) }
	return first(ctx, "MySQL", "install mysql-server",
		s.system("MySQL", notMariaDB, nil, "mysqld"),
		func(ctx context.Context) (Programs, error) {
			release, err := osRelease()
			if err != nil {
				return Programs{}, err
			}
			if release["ID"] == "debian" {
				return s.apt(ctx, fromApt{name: "mysql-server-core", suite: "sid", packages: []string{"mysql-server-core"}})
			}
			return s.apt(ctx, fromApt{name: "mysql-server-core", packages: []string{"mysql-server-core-8.0"}})
		})
}

// PgBouncer finds the pooler.
func (s *Store) PgBouncer(ctx context.Context) (Programs, error) {
	return first(ctx, "pgbouncer", "install pgbouncer",
		s.system("pgbouncer", func(string) bool { return true }, nil, "pgbouncer"),
		func(ctx context.Context) (Programs, error) {
			return s.apt(ctx, fromApt{name: "pgbouncer", packages: []string{"pgbouncer"}})
		})
}
