package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// Site is where the servers of one run live: a folder, and loopback ports.
type Site struct {
	// Dir is the folder. Everybody may enter it.
	Dir string

	// Log is told every step.
	Log *software.Log

	unlock func()

	mu    sync.Mutex
	taken map[int]bool
}

// prefix begins the names of all sites' folders.
const prefix = "onlyonce-servers-"

// NewSite makes a folder for servers, in memory where there is room: what
// durable settings cost is then small. It also removes the folders of runs
// that were killed.
func NewSite(log *software.Log) (*Site, error) {
	base, err := memoryDir()
	if err != nil {
		return nil, err
	}
	if base == "" {
		if base, err = software.TempDir(); err != nil {
			return nil, err
		}
	}
	sweep(base)
	dir := filepath.Join(base, prefix+strings.ToLower(rand.Text()[:10]))
	unlock, err := hold(dir)
	if err != nil {
		return nil, fmt.Errorf("make a folder for servers: %w", err)
	}
	// Whatever the umask is: the servers' users must be able to enter.
	if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		unlock()
		return nil, fmt.Errorf("make a folder for servers: %w", err)
	}
	return &Site{Dir: dir, Log: log, unlock: unlock, taken: map[int]bool{}}, nil
}

// Close removes the folder. The servers must have been stopped.
func (s *Site) Close() error {
	defer s.unlock()
	return os.RemoveAll(s.Dir)
}

const (
	firstPort = 20000
	lastPort  = 32767 // above it the system takes ports for outgoing connections
	portTries = 100
)

// Port returns a loopback port that is free, and never the same one twice.
// Another program may still take it before the server does.
func (s *Site) Port() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range portTries {
		n, err := rand.Int(rand.Reader, big.NewInt(lastPort-firstPort+1))
		if err != nil {
			return 0, err
		}
		port := firstPort + int(n.Int64())
		if s.taken[port] {
			continue
		}
		listener, err := net.Listen("tcp4", Loopback(port))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		s.taken[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("none of %d loopback ports from %d to %d was free", portTries, firstPort, lastPort)
}

// Loopback is the address of a port.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Folder makes a folder in the site that belongs to the account.
func (s *Site) Folder(name string, owner *Account) (string, error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	return dir, owner.own(dir)
}

// Account is a user of the system as whom a server runs. nil is the user who
// runs this program.
type Account struct {
	UID, GID int
}

// AccountOf returns the first of the users that exists, or "nobody". It is nil
// unless this runs as root: the servers refuse to run as root, and nobody else
// may run them as another user.
func AccountOf(names ...string) (*Account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		found, err := user.Lookup(name)
		var unknown user.UnknownUserError
		if errors.As(err, &unknown) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up the user %s: %w", name, err)
		}
		uid, errUID := strconv.Atoi(found.Uid)
		gid, errGID := strconv.Atoi(found.Gid)
		return &Account{uid, gid}, errors.Join(errUID, errGID)
	}
	return nil, fmt.Errorf("this runs as root, as whom no server runs, and there is none of the users %s",
		strings.Join(append(names, "nobody"), ", "))
}

// own gives a folder and what is in it to the account.
func (a *Account) own(dir string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, a.UID, a.GID)
	})
}
