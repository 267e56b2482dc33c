package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// MaxConnections is what each server takes: storms of 256 callers, and room
// for those who look on.
const MaxConnections = 320

// Spec describes a server: what it is made of and how it is started.
type Spec struct {
	// Name is said in messages.
	Name string

	// Programs hold Program.
	Programs software.Programs
	Program  string

	// Account runs it.
	Account *Account

	// Dir is the folder where it works; Data is its data directory. In Dir,
	// the file log gets what it writes.
	Dir, Data string

	// Prepare, if there is one, writes what the server reads at its start.
	Prepare func(port int) error

	// Args are the program's arguments.
	Args func(port int) []string

	// URL is the administrator's; see engines.Engine.
	URL func(port int) string

	// Ask asks the one who answers at the URL for its data directory and its
	// version. An error means that it isn't ready.
	Ask func(ctx context.Context, url string) (data, version string, err error)

	// Stop asks for a clean stop. Last ends the server at once, and leaves
	// nothing in the system's tables.
	Stop, Last syscall.Signal
}

// Server is a database server on a loopback port.
type Server struct {
	*Process

	// Port is where it listens.
	Port int

	// URL is the administrator's; see engines.Engine.
	URL string

	// Version is what the server itself says.
	Version string
}

// Data is the server's data directory.
func (s *Server) Data() string { return s.spec.Data }

// Start starts the server on the port, or on a free one if port is 0, and
// waits until it is ready. Whoever loses the race for a free port tries the
// next.
func (s *Site) Start(ctx context.Context, spec Spec, port int) (*Server, error) {
	var server *Server
	err := s.Log.Step(spec.Name+": start", func() (err error) {
		server, err = s.start(ctx, spec, port)
		return err
	})
	return server, err
}

func (s *Site) start(ctx context.Context, spec Spec, port int) (server *Server, err error) {
	if port != 0 {
		server, _, err = startOn(ctx, spec, port)
		return server, err
	}
	const tries = 5
	for range tries {
		if port, err = s.Port(); err != nil {
			return nil, err
		}
		var lostPort bool
		if server, lostPort, err = startOn(ctx, spec, port); err == nil || !lostPort {
			return server, err
		}
	}
	return nil, err
}

func startOn(ctx context.Context, spec Spec, port int) (_ *Server, lostPort bool, err error) {
	if spec.Prepare != nil {
		if err := spec.Prepare(port); err != nil {
			return nil, false, fmt.Errorf("start %s: %w", spec.Name, err)
		}
	}
	// The server outlives what ctx bounds, its start.
	cmd, err := spec.Programs.Command(context.WithoutCancel(ctx), spec.Program, spec.Args(port)...)
	if err != nil {
		return nil, false, err
	}
	process, err := startProcess(spec, cmd)
	if err != nil {
		return nil, false, err
	}
	server := &Server{Process: process, Port: port, URL: spec.URL(port)}
	if err := process.Ready(ctx, server.identify); err != nil {
		lostPort = process.lostPort()
		return nil, lostPort, errors.Join(err, process.Kill())
	}
	return server, false, nil
}

// identify checks that the one who answers is this server, and not another
// that took the port first, and learns its version.
func (s *Server) identify(ctx context.Context) error {
	data, version, err := s.spec.Ask(ctx, s.URL)
	if err != nil {
		return err
	}
	if filepath.Clean(data) != filepath.Clean(s.spec.Data) {
		return fmt.Errorf("port %d belongs to another server, of %s", s.Port, data)
	}
	s.Version = version
	return nil
}

// scan asks a server for one row.
func scan(ctx context.Context, url, statement string, values ...any) error {
	db, err := engines.Open(url)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRowContext(ctx, statement).Scan(values...)
}

// runWait bounds a program that makes a data directory, which takes seconds.
const runWait = 3 * time.Minute

// Run runs one of the server's programs to its end, as one that makes a data
// directory, and returns what it wrote.
func (spec Spec) Run(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	cmd, err := spec.Programs.Command(ctx, program, args...)
	if err != nil {
		return "", err
	}
	spec.place(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %s: %w\n%s", spec.Name, program, err, out)
	}
	return string(out), nil
}

// CopyData makes the data directory as a copy of that of a server that was
// stopped, without some of its files.
func (spec Spec) CopyData(from string, without ...string) error {
	if err := os.CopyFS(spec.Data, os.DirFS(from)); err != nil {
		return fmt.Errorf("%s: copy the data: %w", spec.Name, err)
	}
	for _, name := range without {
		if err := os.RemoveAll(filepath.Join(spec.Data, name)); err != nil {
			return fmt.Errorf("%s: copy the data: %w", spec.Name, err)
		}
	}
	return spec.Account.own(spec.Data)
}

// fresh makes the data of a new server and starts it.
func (s *Site) fresh(ctx context.Context, spec Spec, program string, args ...string) (*Server, error) {
	err := s.Log.Step(spec.Name+": make its data", func() error {
		_, err := spec.Run(ctx, program, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.Start(ctx, spec, 0)
}

// Write writes a file that the server reads into its folder.
func (spec Spec) Write(name, text string) (path string, err error) {
	path = filepath.Join(spec.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("%s: write its settings: %w", spec.Name, err)
	}
	return path, spec.Account.own(path)
}

// place makes a command run where and as whom the server does.
func (spec Spec) place(cmd *exec.Cmd) {
	cmd.Dir = spec.Dir
	cmd.Env = append(cmd.Env, "HOME="+spec.Dir, "TMPDIR="+spec.Dir)
	attach(cmd, spec.Account, spec.Last)
}
