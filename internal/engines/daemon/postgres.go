package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// Postgres makes an empty PostgreSQL server in the folder of that name and
// starts it.
func (s *Site) Postgres(ctx context.Context, name string, programs software.Programs) (*Server, error) {
	sp, err := s.postgres(name, programs)
	if err != nil {
		return nil, err
	}
	return s.fresh(ctx, sp, func() error { return initPostgres(ctx, sp) })
}

// initPostgres makes the data directory. Its files need not reach a disk: what
// a test relies on is written later, with all that makes it durable.
func initPostgres(ctx context.Context, sp spec) error {
	return initialise(ctx, sp, "initdb", "-D", sp.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync")
}

func (s *Site) postgres(name string, programs software.Programs) (spec, error) {
	account, err := AccountOf("postgres")
	if err != nil {
		return spec{}, err
	}
	dir, err := s.Folder(name, account)
	if err != nil {
		return spec{}, err
	}
	data := filepath.Join(dir, "data")
	settings := []string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=", // a path in a deep folder would be too long for one
		"max_connections=" + strconv.Itoa(MaxConnections),
		"shared_buffers=64MB",
		"max_wal_size=256MB", // the data is in memory
		"min_wal_size=32MB",
	}
	return spec{
		name: name, programs: programs, program: "postgres", account: account, dir: dir, data: data,
		args: func(port int) []string {
			args := []string{"-D", data, "-p", strconv.Itoa(port)}
			for _, setting := range settings {
				args = append(args, "-c", setting)
			}
			return args
		},
		url: func(port int) string { return fmt.Sprintf("postgres://postgres@%s/postgres", Loopback(port)) },
		ask: func(ctx context.Context, url string) (data, version string, err error) {
			err = scan(ctx, url, "SELECT current_setting('data_directory'), current_setting('server_version')", &data, &version)
			return data, version, err
		},
		stop: syscall.SIGINT,  // a fast shutdown does not wait for clients
		last: syscall.SIGQUIT, // after kill -9 the server's shared memory would stay
	}, nil
}
