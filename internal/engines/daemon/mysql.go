package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// MariaDB makes an empty MariaDB server in the folder of that name and starts
// it.
func (s *Site) MariaDB(ctx context.Context, name string, programs software.Programs) (*Server, error) {
	sp, err := s.mysqlFamily(name, programs, "mariadbd", mariadbLog, "--skip-name-resolve")
	if err != nil {
		return nil, err
	}
	return s.fresh(ctx, sp, func() error { return initMariaDB(ctx, sp) })
}

// The redo logs are small because both servers allocate them at once.
const (
	mariadbLog = "--innodb-log-file-size=8M"
	mysqlLog   = "--innodb-redo-log-capacity=8M"
)

func initMariaDB(ctx context.Context, sp spec) error {
	return initialise(ctx, sp, "mariadb-install-db", "--no-defaults", "--basedir="+sp.programs.Usr,
		"--datadir="+sp.data, "--auth-root-authentication-method=normal", "--skip-test-db", mariadbLog)
}

// MySQL makes an empty MySQL server in the folder of that name and starts it.
func (s *Site) MySQL(ctx context.Context, name string, programs software.Programs) (*Server, error) {
	// What is unpacked beside the system finds its own files only if it is told where they are.
	usr := programs.Usr
	sp, err := s.mysqlFamily(name, programs, "mysqld", mysqlLog,
		"--lc-messages-dir="+filepath.Join(usr, "share/mysql"),
		"--character-sets-dir="+filepath.Join(usr, "share/mysql/charsets"),
		"--plugin-dir="+filepath.Join(usr, "lib/mysql/plugin"),
		"--secure-file-priv=NULL", "--mysqlx=OFF", "--disable-log-bin")
	if err != nil {
		return nil, err
	}
	return s.fresh(ctx, sp, func() error {
		return initialise(ctx, sp, "mysqld", append(sp.args(0), "--initialize-insecure")...)
	})
}

// mysqlFamily describes a server of either kind.
func (s *Site) mysqlFamily(name string, programs software.Programs, program string, own ...string) (spec, error) {
	account, err := AccountOf("mysql")
	if err != nil {
		return spec{}, err
	}
	dir, err := s.Folder(name, account)
	if err != nil {
		return spec{}, err
	}
	data := filepath.Join(dir, "data")
	return spec{
		name: name, programs: programs, program: program, account: account, dir: dir, data: data,
		args: func(port int) []string {
			args := []string{"--no-defaults", "--basedir=" + programs.Usr, "--datadir=" + data,
				"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port),
				"--socket=server.sock", // in the data directory; a long path would be too long for one
				"--pid-file=server.pid", "--max-connections=" + strconv.Itoa(MaxConnections),
				"--innodb-buffer-pool-size=64M", "--performance-schema=OFF"}
			return append(args, own...)
		},
		url: func(port int) string { return fmt.Sprintf("mysql://root@%s/", Loopback(port)) },
		ask: func(ctx context.Context, url string) (data, version string, err error) {
			err = scan(ctx, url, "SELECT @@datadir, version()", &data, &version)
			return data, version, err
		},
		stop: syscall.SIGTERM,
		last: syscall.SIGKILL,
	}, nil
}
