package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// role makes the test binary a program that starts a server, or the server.
const (
	role    = "ONLYONCE_TEST_ROLE"
	starter = "starter"
	address = "ONLYONCE_TEST_ADDRESS"
)

// longWait bounds what happens at once unless something is broken.
const longWait = 30 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(role) == starter {
		startAndStay()
	}
	os.Exit(m.Run())
}

func site(t *testing.T) *Site {
	t.Helper()
	s, err := NewSite(&software.Log{Out: t.Output(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// script is a server that is a shell script. It is ready when it has written
// the file ready.
func script(t *testing.T, s *Site, name, text string) Spec {
	t.Helper()
	spec := scriptSpec(filepath.Join(s.Dir, name), text)
	if err := os.Mkdir(spec.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return spec
}

func scriptSpec(dir, text string) Spec {
	return Spec{
		Name: filepath.Base(dir), Programs: software.Programs{Product: "a shell", Dirs: []string{"/bin"}}, Program: "sh",
		Dir: dir, Data: dir,
		Args: func(port int) []string { return []string{"-c", text, "sh", strconv.Itoa(port)} },
		URL:  func(port int) string { return Loopback(port) },
		Ask: func(context.Context, string) (string, string, error) {
			_, err := os.Stat(filepath.Join(dir, "ready"))
			return dir, "1", err
		},
		Stop: syscall.SIGTERM, Last: syscall.SIGKILL,
	}
}

func TestStopAndKill(t *testing.T) {
	s := site(t)
	for name, end := range map[string]func(*Process) error{
		"stop": (*Process).Stop, "kill": (*Process).Kill, "discard": (*Process).Discard,
	} {
		const polite = "trap 'echo bye; exit 0' TERM; echo > ready; while :; do sleep 0.01; done"
		server, err := s.Start(t.Context(), script(t, s, name, polite), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := end(server.Process); err != nil {
			t.Error(name, err)
		}
		if clean := server.Wait() == nil; clean != (name == "stop") {
			t.Errorf("%s: it ended with %v", name, server.Wait())
		}
		if said := strings.Contains(server.Tail(), "bye"); said != (name == "stop") {
			t.Errorf("%s: its log says %q", name, server.Tail())
		}
	}
}

// Who can't start says why.
func TestFailedStartShowsTheLog(t *testing.T) {
	s := site(t)
	_, err := s.Start(t.Context(), script(t, s, "broken", "echo no room left; exit 3"), 0)
	if err == nil || !strings.Contains(err.Error(), "no room left") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

// Who loses the race for a port gets another; no other failure is repeated.
func TestLostPortIsTriedAgain(t *testing.T) {
	s := site(t)
	spec := script(t, s, "late", `echo $1 >> ports
		if [ $(wc -l < ports) -lt 3 ]; then echo "Address already in use"; exit 1; fi
		echo > ready; exec sleep 60`)
	server, err := s.Start(t.Context(), spec, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Discard()
	text, err := os.ReadFile(filepath.Join(spec.Dir, "ports"))
	if err != nil {
		t.Fatal(err)
	}
	ports := strings.Fields(string(text))
	if len(ports) != 3 || ports[0] == ports[1] || ports[2] != strconv.Itoa(server.Port) {
		t.Errorf("it tried the ports %v and is on %d", ports, server.Port)
	}
}

// An answer from a server that took the port first is not taken for ours.
func TestAnotherServerIsNotOurs(t *testing.T) {
	s := site(t)
	spec := script(t, s, "ours", "echo > ready; exec sleep 60")
	spec.Ask = func(context.Context, string) (string, string, error) { return "/another", "1", nil }
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Start(ctx, spec, 0); err == nil || !strings.Contains(err.Error(), "another server, of /another") {
		t.Errorf("got %v", err)
	}
}

// A server runs as its account, with that account's folder for its own.
func TestAccount(t *testing.T) {
	s := site(t)
	account, err := AccountOf("a user that does not exist")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := s.Folder("owned", account)
	if err != nil {
		t.Fatal(err)
	}
	spec := scriptSpec(dir, "")
	spec.Account = account
	said, err := spec.Run(t.Context(), "sh", "-c", "echo > made; id -u")
	if err != nil {
		t.Fatal(err)
	}
	want := strconv.Itoa(os.Getuid())
	if account != nil {
		want = strconv.Itoa(account.UID)
	}
	if strings.TrimSpace(said) != want || want == "0" {
		t.Errorf("it ran as %q, want %s", said, want)
	}
}

// startAndStay is the starter's main: it starts a server that holds a
// connection open, says in which folder, and waits to be killed.
func startAndStay() {
	s, err := NewSite(&software.Log{Out: os.Stderr, Now: time.Now})
	if err != nil {
		panic(err)
	}
	dir, err := s.Folder("held", nil)
	if err != nil {
		panic(err)
	}
	text := "exec 3<>/dev/tcp/" + strings.Replace(os.Getenv(address), ":", "/", 1) + "; echo > ready; read -u 3"
	spec := scriptSpec(dir, text)
	spec.Program = "bash"
	if _, err := s.Start(context.Background(), spec, 0); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(s.Dir + "\n")
	select {}
}

// A server dies with a starter that gets kill -9, and the folder goes with the
// next run.
func TestServerDiesWithItsStarter(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), role+"="+starter, address+"="+listener.Addr().String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir = strings.TrimSpace(dir)
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	site(t)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal("another run removed the folder of one that lives:", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := conn.SetDeadline(time.Now().Add(longWait)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the server outlived its starter: %v", err)
	}
	site(t)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the killed run is still there: %v", err)
	}
}

func TestPorts(t *testing.T) {
	s := site(t)
	seen := map[int]bool{}
	for range 200 {
		port, err := s.Port()
		if err != nil {
			t.Fatal(err)
		}
		if port < firstPort || port > lastPort || seen[port] {
			t.Errorf("port %d, after %d others", port, len(seen))
		}
		seen[port] = true
	}
}
