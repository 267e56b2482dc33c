package software

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// DirVariable is the environment variable that names the folder in which
// fetched software is kept. A second run then finds it there.
const DirVariable = "ONLYONCE_ENGINES_DIR"

// fetchWait bounds fetching and unpacking one product over a slow line.
const fetchWait = 10 * time.Minute

// Store finds software on this machine and keeps what it fetched.
type Store struct {
	// Dir is the folder for what was fetched; see NewStore.
	Dir string

	// Log is told every step.
	Log *Log

	// OwnOnly leaves out what the system has, as on a machine that has nothing.
	OwnOnly bool
}

// NewStore makes the folder that dir names, or one in the temporary folder
// that is the user's own if dir is empty.
func NewStore(dir string, log *Log) (*Store, error) {
	if dir == "" {
		base, err := TempDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(base, fmt.Sprintf("onlyonce-engines-%d", os.Getuid()))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("keep software: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("keep software: %w", err)
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return nil, fmt.Errorf("keep software: %w", err)
	default:
		if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask is
			return nil, fmt.Errorf("keep software: %w", err)
		}
	}
	if err := ours(dir); err != nil {
		return nil, fmt.Errorf("keep software in %s: %w: name another folder with %s", dir, err, DirVariable)
	}
	if os.Getuid() == 0 && !Searchable(dir) {
		return nil, fmt.Errorf("keep software in %s: the servers run as users who may not enter it: "+
			"name another folder with %s", dir, DirVariable)
	}
	return &Store{Dir: dir, Log: log}, nil
}

// TempDir is the temporary folder, or another if this runs as root and the
// users as whom the servers run may not enter that one.
func TempDir() (string, error) {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if os.Getuid() != 0 || Searchable(dir) {
			return dir, nil
		}
	}
	return "", errors.New("no temporary folder can be entered by everybody: set TMPDIR to one that can (chmod o+x)")
}

// Searchable reports whether everybody may enter the folder.
func Searchable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// keep returns the store's folder of this name. If there is none it is made by
// fill, and appears only when it is complete: two runs at once both work, and
// the later one throws its own away.
func (s *Store) keep(ctx context.Context, name, what string, fill func(ctx context.Context, dir string) error) (
	string, error) {
	final := filepath.Join(s.Dir, name)
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	s.Log.Say("fetch %s …", what)
	err := s.Log.Step("fetch "+what, func() error {
		dir, err := os.MkdirTemp(s.Dir, name+".part-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := fill(ctx, dir); err != nil {
			return err
		}
		if err := open(dir); err != nil {
			return err
		}
		if err := os.Rename(dir, final); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
	return final, err
}

// open lets everybody read the folder: servers run as other users.
func open(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if entry.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
