package software

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Programs is where the programs of one product are and how they are run.
type Programs struct {
	// Product is what a reader calls it, "PostgreSQL 15".
	Product string

	// Dirs hold the programs; the first that has one wins.
	Dirs []string

	// Usr is the /usr of these programs: their own files are below it.
	Usr string

	// Loader, if there is one, is the beginning of every command line: the
	// dynamic loader that came with the programs, and its options. Programs of
	// another release do not run with this system's C library.
	Loader []string

	// Env are variables that the programs need, "NAME=value".
	Env []string
}

// Path returns where a program is.
func (p Programs) Path(name string) (string, error) {
	for _, dir := range p.Dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: there is no program %s in %s", p.Product, name, strings.Join(p.Dirs, ", "))
}

// Command prepares a program to be run in a small environment: what a
// developer has in theirs must not change how a server behaves.
func (p Programs) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path, err := p.Path(name)
	if err != nil {
		return nil, err
	}
	line := append(append([]string{}, p.Loader...), path)
	line = append(line, args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	search := strings.Join(append(append([]string{}, p.Dirs...), systemDirs()...), string(os.PathListSeparator))
	cmd.Env = append([]string{"PATH=" + search, "LC_ALL=C"}, p.Env...)
	return cmd, nil
}

// versionWait bounds a program's telling its version.
const versionWait = 10 * time.Second

// version asks a program what it is.
func (p Programs) version(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	cmd, err := p.Command(ctx, program, "--version")
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w: %s", program, err, tail(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}

// has checks that all programs are there and that the first is what its
// version must say.
func (p Programs) has(ctx context.Context, right func(version string) bool, programs ...string) error {
	for _, name := range programs {
		if _, err := p.Path(name); err != nil {
			return err
		}
	}
	version, err := p.version(ctx, programs[0])
	if err == nil && !right(version) {
		err = errors.New("it is " + version)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Product, err)
	}
	return nil
}

// systemDirs are where a system keeps servers and what they call. Servers are
// often outside of a user's PATH.
func systemDirs() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if runtime.GOOS == "windows" {
		return dirs
	}
	return append(dirs, "/usr/local/sbin", "/usr/sbin", "/usr/libexec", "/usr/local/bin", "/usr/bin", "/sbin", "/bin")
}

// tail is the end of what a program said, where its complaint is.
func tail(text string) string {
	const lines = 15
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
