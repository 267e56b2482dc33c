package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// binary is this program, built once, for tests that need a process.
var binary string

// atMost bounds every wait in these tests; it is never reached when all is well.
const atMost = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "onlyonce-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "onlyonce")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is what a run of the program left behind.
type result struct {
	code           int
	stdout, stderr string
}

// command runs the program with nothing in its environment.
func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandWith(t, nil, args...)
}

func commandWith(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	var out, errs strings.Builder
	code := run(ctx, args, lookup(env), &out, &errs)
	return result{code, out.String(), errs.String()}
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// must fails the test unless the run ended with this status.
func (r result) must(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit status %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// says fails the test unless the text holds every one of the words.
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

// newDB returns --db for a new file that does not exist yet.
func newDB(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "onlyonce.db")
}

// migrated returns --db for a database that has its tables.
func migrated(t *testing.T) string {
	t.Helper()
	db := newDB(t)
	command(t, "migrate", "--db", db).must(t, exitOK)
	return db
}

// freeAddress returns a loopback address that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := listenLoopback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// watched is a writer that tells when a word has been written.
type watched struct {
	mu   sync.Mutex
	buf  strings.Builder
	word string
	seen chan struct{}
	once sync.Once
}

func watch(word string) *watched { return &watched{word: word, seen: make(chan struct{})} }

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(b)
	if strings.Contains(w.buf.String(), w.word) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(b), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// running is `onlyonce serve` within the test.
type running struct {
	base     string
	out, log *watched
	stop     context.CancelFunc
	ended    chan struct{}
	code     int
}

// serving starts a server and waits until it listens; the test's end stops it.
func serving(t *testing.T, db string, args ...string) *running {
	t.Helper()
	address := freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := &running{
		base: "http://" + address, out: watch("Run it twice"), log: watch("listening"), stop: cancel,
		ended: make(chan struct{}),
	}
	args = append([]string{"serve", "--db", db, "--listen", address}, args...)
	go func() {
		s.code = run(ctx, args, lookup(nil), s.out, s.log)
		close(s.ended)
	}()
	t.Cleanup(func() { s.end(t) })
	select {
	case <-s.log.seen:
	case <-s.ended:
		t.Fatalf("the server ended with status %d:\n%s", s.code, s.log)
	case <-time.After(atMost):
		t.Fatal("the server does not listen")
	}
	return s
}

// end stops the server as a signal does and returns its exit status.
func (s *running) end(t *testing.T) int {
	t.Helper()
	s.stop()
	select {
	case <-s.ended:
	case <-time.After(atMost):
		t.Fatal("the server does not stop")
	}
	return s.code
}

// charge pays once and returns the status and the answer.
func charge(t *testing.T, base, apiKey, key, token string) (int, map[string]any) {
	t.Helper()
	body := fmt.Sprintf(`{"amount":2500,"currency":"USD","paymentMethodToken":%q}`, token)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/payments", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := freshClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// status asks for a path and returns the status of the answer.
func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := freshClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// freshClient keeps no connection, so that nothing of one test is in another.
func freshClient() *http.Client {
	return &http.Client{
		Timeout: atMost,
		Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext,
		},
	}
}
