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
	spec, err := s.PostgresSpec(name, programs)
	if err != nil {
		return nil, err
	}
	return s.fresh(ctx, spec, "initdb", InitPostgres(spec)...)
}

// InitPostgres are the arguments of initdb. The new files need not reach a
// disk: what a test relies on is written later, with all that makes it durable.
func InitPostgres(spec Spec) []string {
	return []string{"-D", spec.Data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"}
}

// PostgresSpec makes a folder for a server and describes it. Settings, as
// "name=value", come after the ones that every server here has.
func (s *Site) PostgresSpec(name string, programs software.Programs, settings ...string) (Spec, error) {
	account, err := AccountOf("postgres")
	if err != nil {
		return Spec{}, err
	}
	dir, err := s.Folder(name, account)
	if err != nil {
		return Spec{}, err
	}
	data := filepath.Join(dir, "data")
	settings = append([]string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=", // a path in a deep folder would be too long for one
		"max_connections=" + strconv.Itoa(MaxConnections),
		"shared_buffers=64MB",
		"dynamic_shared_memory_type=mmap", // goes with the folder, also after kill -9
		"max_wal_size=256MB",              // the folder is in memory
		"min_wal_size=32MB",
	}, settings...)
	return Spec{
		Name: name, Programs: programs, Program: "postgres", Account: account, Dir: dir, Data: data,
		Args: func(port int) []string {
			args := []string{"-D", data, "-p", strconv.Itoa(port)}
			for _, setting := range settings {
				args = append(args, "-c", setting)
			}
			return args
		},
		URL: func(port int) string { return fmt.Sprintf("postgres://postgres@%s/postgres", Loopback(port)) },
		Ask: func(ctx context.Context, url string) (data, version string, err error) {
			err = scan(ctx, url, "SELECT current_setting('data_directory'), current_setting('server_version')",
				&data, &version)
			return data, version, err
		},
		Stop: syscall.SIGINT,  // a fast shutdown does not wait for clients
		Last: syscall.SIGQUIT, // after kill -9 a segment of shared memory would stay in the system
	}, nil
}
