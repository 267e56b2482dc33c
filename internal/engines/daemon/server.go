package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// MaxConnections is what each server takes: storms of 256 callers, and room
// for those who look on.
const MaxConnections = 320

// Server is a database server on a loopback port.
type Server struct {
	*Process

	// Port is where it listens.
	Port int

	// URL is the administrator's; see engines.Engine.
	URL string

	// Version is what the server itself says.
	Version string

	// Data is its data directory.
	Data string
}

// spec describes a server that could be started on any port.
type spec struct {
	name     string // also of its folder
	programs software.Programs
	program  string
	account  *Account
	dir      string // where it works and where its log is
	data     string
	prepare  func(port int) error // writes what the server reads, if it must
	args     func(port int) []string
	url      func(port int) string
	ask      func(ctx context.Context, url string) (data, version string, err error)
	stop     syscall.Signal
	last     syscall.Signal
}

// start starts the server on the port, or on a free one if port is 0. Whoever
// loses the race for a free port tries the next.
func (s *Site) start(ctx context.Context, sp spec, port int) (*Server, error) {
	const tries = 5
	var err error
	for range tries {
		on := port
		if on == 0 {
			if on, err = s.Port(); err != nil {
				return nil, err
			}
		}
		var server *Server
		var again bool
		if server, again, err = s.startOn(ctx, sp, on); err == nil {
			return server, nil
		}
		if !again || port != 0 {
			return nil, err
		}
	}
	return nil, err
}

func (s *Site) startOn(ctx context.Context, sp spec, port int) (_ *Server, lostPort bool, err error) {
	if sp.prepare != nil {
		if err := sp.prepare(port); err != nil {
			return nil, false, fmt.Errorf("start %s: %w", sp.name, err)
		}
	}
	cmd, err := sp.programs.Command(context.WithoutCancel(ctx), sp.program, sp.args(port)...)
	if err != nil {
		return nil, false, err
	}
	cmd.Dir = sp.dir
	cmd.Env = append(cmd.Env, "HOME="+sp.dir, "TMPDIR="+sp.dir)
	process, err := startProcess(command{name: sp.name, cmd: cmd, account: sp.account,
		log: filepath.Join(sp.dir, "log"), stop: sp.stop, last: sp.last})
	if err != nil {
		return nil, false, err
	}
	server := &Server{Process: process, Port: port, URL: sp.url(port), Data: sp.data}
	err = process.Ready(ctx, func(ctx context.Context) error { return server.identify(ctx, sp) })
	if err != nil {
		lostPort = process.lostPort()
		return nil, lostPort, errors.Join(err, process.Kill())
	}
	return server, false, nil
}

// identify checks that the one who answers is this server, and not another
// that took the port first, and learns its version.
func (s *Server) identify(ctx context.Context, sp spec) error {
	data, version, err := sp.ask(ctx, s.URL)
	if err != nil {
		return err
	}
	if filepath.Clean(data) != filepath.Clean(s.Data) {
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

// fresh makes the data of a new server and starts it.
func (s *Site) fresh(ctx context.Context, sp spec, fill func() error) (*Server, error) {
	if err := s.Log.Step(sp.name+": make its data", fill); err != nil {
		return nil, err
	}
	return s.launch(ctx, sp, 0)
}

// launch is start as a step that is told.
func (s *Site) launch(ctx context.Context, sp spec, port int) (*Server, error) {
	var server *Server
	err := s.Log.Step(sp.name+": start", func() (err error) {
		server, err = s.start(ctx, sp, port)
		return err
	})
	return server, err
}

// initialise runs a program that makes a data directory.
func initialise(ctx context.Context, sp spec, program string, args ...string) error {
	cmd, err := sp.programs.Command(ctx, program, args...)
	if err != nil {
		return err
	}
	cmd.Dir = sp.dir
	cmd.Env = append(cmd.Env, "HOME="+sp.dir, "TMPDIR="+sp.dir)
	attach(cmd, sp.account, syscall.SIGKILL)
	out, err := cmd.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(sp.dir, "log"))
		return fmt.Errorf("%s: %w\n%s%s", program, err, out, log)
	}
	return nil
}
