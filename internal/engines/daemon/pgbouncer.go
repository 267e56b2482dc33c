package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// pgbouncerConfig makes every database of the server behind it reachable, in
// transaction mode with two server connections for each: what relies on
// anything that outlives a transaction fails soon.
const pgbouncerConfig = `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = 2
max_client_conn = 2000
`

const pgbouncerFile = "pgbouncer.ini"

// PgBouncer starts a pooler in front of a PostgreSQL server.
func (s *Site) PgBouncer(ctx context.Context, name string, programs software.Programs, behind *Server) (
	*Server, error) {
	account, err := AccountOf("postgres")
	if err != nil {
		return nil, err
	}
	dir, err := s.Folder(name, account)
	if err != nil {
		return nil, err
	}
	spec := Spec{
		Name: name, Programs: programs, Program: "pgbouncer", Account: account, Dir: dir,
		Data: behind.spec.Data, // who answers through it is the server behind it
		Args: func(int) []string { return []string{filepath.Join(dir, pgbouncerFile)} },
		URL:  func(port int) string { return fmt.Sprintf("postgres://postgres@%s/postgres", Loopback(port)) },
		Ask: func(ctx context.Context, url string) (data, version string, err error) {
			err = scan(ctx, url+"?default_query_exec_mode=exec", "SELECT current_setting('data_directory')", &data)
			if err != nil {
				return "", "", err
			}
			console := strings.TrimSuffix(url, "postgres") + "pgbouncer?default_query_exec_mode=simple_protocol"
			err = scan(ctx, console, "SHOW VERSION", &version)
			return data, strings.TrimPrefix(version, "PgBouncer "), err
		},
		Stop: syscall.SIGINT,
		Last: syscall.SIGKILL,
	}
	spec.Prepare = func(port int) error {
		_, err := spec.Write(pgbouncerFile, fmt.Sprintf(pgbouncerConfig, behind.Port, port))
		return err
	}
	return s.Start(ctx, spec, 0)
}
