package software

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fromApt says what is to be fetched from the mirror that this machine's apt
// uses.
type fromApt struct {
	name     string   // of the folder in the store
	suite    string   // empty: the release that this machine runs
	packages []string // with what they need
}

// foreign reports packages of another release. They come with all that they
// need, the C library included.
func (a fromApt) foreign() bool { return a.suite != "" }

// aptReady reports why packages can't be fetched on this machine.
func aptReady() error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("this is no Debian or Ubuntu: there is no %s", program)
		}
	}
	return nil
}

// apt fetches packages with an apt of its own (lists, cache and configuration
// are in a folder that goes), unpacks them side by side and says how to run
// what is in them. apt-get only downloads here, so the system stays as it is.
func (s *Store) apt(ctx context.Context, a fromApt) (Programs, error) {
	if err := aptReady(); err != nil {
		return Programs{}, err
	}
	from := a.suite
	if from == "" {
		from = "this release"
	}
	what := fmt.Sprintf("%s (%s, from %s)", a.name, strings.Join(a.packages, " "), from)
	root, err := s.keep(ctx, a.name, what, func(ctx context.Context, dir string) error {
		work, err := os.MkdirTemp(s.Dir, a.name+".apt-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if err := a.download(ctx, work); err != nil {
			return err
		}
		return unpack(ctx, filepath.Join(work, "cache", "archives"), dir)
	})
	if err != nil {
		return Programs{}, err
	}
	return a.programs(root)
}

// aptConfig keeps all that apt reads and writes in one folder. A mirror that
// does not answer is given up after three minutes at most.
const aptConfig = `Dir::Etc::sourcelist %q;
Dir::Etc::sourceparts %q;
Dir::State %q;
Dir::State::status %q;
Dir::Cache %q;
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "20";
`

// download runs apt-get with a configuration of its own in the folder work.
func (a fromApt) download(ctx context.Context, work string) error {
	sources, err := a.sources(ctx)
	if err != nil {
		return err
	}
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			return err
		}
	}
	// What the system has needs no fetching. A copy of its list does, because apt locks the folder of the list.
	var installed []byte
	if !a.foreign() {
		if installed, err = os.ReadFile("/var/lib/dpkg/status"); err != nil {
			return fmt.Errorf("read what is installed: %w", err)
		}
	}
	config := filepath.Join(work, "apt.conf")
	files := map[string]string{
		filepath.Join(work, "status"):       string(installed),
		filepath.Join(work, "sources.list"): sources,
		config: fmt.Sprintf(aptConfig, filepath.Join(work, "sources.list"), filepath.Join(work, "parts"),
			filepath.Join(work, "state"), filepath.Join(work, "status"), filepath.Join(work, "cache")),
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	env := append(os.Environ(), "APT_CONFIG="+config, "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	if err := run(ctx, env, "apt-get", "-q", "update"); err != nil {
		return err
	}
	// What the system has already is fetched too if it is asked for by name.
	args := []string{"-q", "install", "-y", "--download-only", "--no-install-recommends", "--reinstall"}
	return run(ctx, env, "apt-get", append(args, a.packages...)...)
}

// sources are the lines for apt's list, made of the mirror that this machine
// is configured for.
func (a fromApt) sources(ctx context.Context) (string, error) {
	release, err := osRelease()
	if err != nil {
		return "", err
	}
	code := release["VERSION_CODENAME"]
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format",
		"$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its mirrors: %w", err)
	}
	option := ""
	keyring := "/usr/share/keyrings/" + release["ID"] + "-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err == nil {
		option = "[signed-by=" + keyring + "] "
	}
	var lines []string
	scan := bufio.NewScanner(bytes.NewReader(out))
	for scan.Scan() {
		target := strings.Fields(scan.Text())
		if len(target) != 3 || code == "" {
			continue
		}
		uri, suite, component := target[0], target[1], target[2]
		switch {
		case a.foreign() && suite == code && component == "main":
			return fmt.Sprintf("deb %s%s %s main\n", option, uri, a.suite), nil
		case !a.foreign() && (suite == code || strings.HasPrefix(suite, code+"-")):
			lines = append(lines, fmt.Sprintf("deb %s%s %s %s\n", option, uri, suite, component))
		}
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("apt on this machine has no mirror of its own release %q", code)
	}
	return strings.Join(lines, ""), nil
}

// osRelease reads which system this is.
func osRelease() (map[string]string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return nil, fmt.Errorf("find out which system this is: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = strings.Trim(value, `"`)
	}
	return values, nil
}

// unpack lays the content of all packages of a folder over each other.
func unpack(ctx context.Context, archives, root string) error {
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) == 0 {
		return errors.New("apt-get fetched no package")
	}
	for _, deb := range debs {
		if err := run(ctx, os.Environ(), "dpkg-deb", "--extract", deb, root); err != nil {
			return err
		}
	}
	return nil
}

// programs says how to run what was unpacked.
func (a fromApt) programs(root string) (Programs, error) {
	p := Programs{Product: a.name, Usr: filepath.Join(root, "usr")}
	for _, dir := range []string{"usr/bin", "usr/sbin", "bin", "sbin"} {
		p.Dirs = append(p.Dirs, filepath.Join(root, dir))
	}
	var libraries []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/mysql/private"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return p, err
		}
		libraries = append(libraries, found...)
	}
	path := strings.Join(libraries, ":")
	if !a.foreign() {
		p.Env = []string{"LD_LIBRARY_PATH=" + path}
		return p, nil
	}
	loaders, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*/ld-linux*.so.*"))
	if err != nil || len(loaders) == 0 {
		return p, fmt.Errorf("%s has no dynamic loader: remove %s and try again", a.name, root)
	}
	p.Loader = []string{loaders[0], "--library-path", path}
	return p, nil
}

// run runs a program that fetches or unpacks; what it said goes into the error.
func run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(string(out)))
}
