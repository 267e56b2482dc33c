package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// The redo logs are small because both servers allocate them at once.
const (
	mariadbLog = "--innodb-log-file-size=8M"
	mysqlLog   = "--innodb-redo-log-capacity=8M"
)

// MariaDB makes an empty MariaDB server in the folder of that name and starts
// it.
func (s *Site) MariaDB(ctx context.Context, name string, programs software.Programs) (*Server, error) {
	spec, err := s.MariaDBSpec(name, programs)
	if err != nil {
		return nil, err
	}
	return s.fresh(ctx, spec, "mariadb-install-db", InitMariaDB(spec)...)
}

// MariaDBSpec makes a folder for a server and describes it.
func (s *Site) MariaDBSpec(name string, programs software.Programs) (Spec, error) {
	return s.mysqlFamily(name, programs, "mariadbd", mariadbLog, "--skip-name-resolve")
}

// InitMariaDB are the arguments of mariadb-install-db. It is forced because it
// would else want to resolve the machine's name, which nothing here needs.
func InitMariaDB(spec Spec) []string {
	return []string{"--no-defaults", "--basedir=" + spec.Programs.Usr, "--datadir=" + spec.Data,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--force", mariadbLog}
}

// MySQL makes an empty MySQL server in the folder of that name and starts it.
func (s *Site) MySQL(ctx context.Context, name string, programs software.Programs) (*Server, error) {
	// What is unpacked beside the system finds its own files only if it is told where they are.
	usr := programs.Usr
	spec, err := s.mysqlFamily(name, programs, "mysqld", mysqlLog,
		"--lc-messages-dir="+filepath.Join(usr, "share/mysql"),
		"--character-sets-dir="+filepath.Join(usr, "share/mysql/charsets"),
		"--plugin-dir="+filepath.Join(usr, "lib/mysql/plugin"),
		"--secure-file-priv=NULL", "--mysqlx=OFF", "--disable-log-bin")
	if err != nil {
		return nil, err
	}
	return s.fresh(ctx, spec, "mysqld", append(spec.Args(0), "--initialize-insecure")...)
}

// mysqlFamily describes a server of either kind.
func (s *Site) mysqlFamily(name string, programs software.Programs, program string, own ...string) (Spec, error) {
	account, err := AccountOf("mysql")
	if err != nil {
		return Spec{}, err
	}
	dir, err := s.Folder(name, account)
	if err != nil {
		return Spec{}, err
	}
	data := filepath.Join(dir, "data")
	return Spec{
		Name: name, Programs: programs, Program: program, Account: account, Dir: dir, Data: data,
		Args: func(port int) []string {
			args := []string{"--no-defaults", "--basedir=" + programs.Usr, "--datadir=" + data,
				"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port),
				"--socket=server.sock", // in the data directory; the path of a deep folder would be too long
				"--pid-file=server.pid", "--max-connections=" + strconv.Itoa(MaxConnections),
				"--innodb-buffer-pool-size=64M", "--performance-schema=OFF"}
			return append(args, own...)
		},
		URL: func(port int) string { return fmt.Sprintf("mysql://root@%s/", Loopback(port)) },
		Ask: func(ctx context.Context, url string) (data, version string, err error) {
			err = scan(ctx, url, "SELECT @@datadir, version()", &data, &version)
			return data, version, err
		},
		Stop: syscall.SIGTERM,
		Last: syscall.SIGKILL,
	}, nil
}
