package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestBannerCanBePasted(t *testing.T) {
	file := newDB(t)
	s := serving(t, file)
	<-s.out.seen
	text := s.out.String()
	says(t, text, s.base, file, "sandbox", "onlyonce.db-sandbox", "account", "test_17", "Idempotency-Key: order-42",
		"curl -i "+s.base+"/payments", "Run it twice", s.base+"/sandbox/ledger", "onlyonce keys show 17 order-42 --db "+file)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed, so the line was only read")
	}
	first, second := paste(t, text), paste(t, text)
	says(t, first, "201 Created", `"state":"succeeded"`)
	says(t, second, "201 Created", "Idempotent-Replayed: true")
	bodyOf := func(answer string) string { return answer[strings.Index(answer, "{"):] }
	if bodyOf(first) != bodyOf(second) {
		t.Errorf("the bodies differ:\n%s\n%s", first, second)
	}
	if ledger := paste(t, "  curl -s "+s.base+"/sandbox/ledger\n"); strings.Count(ledger, `"type":"charge"`) != 1 {
		t.Errorf("there is not one charge: %s", ledger)
	}
	if code := s.end(t); code != exitOK {
		t.Errorf("exit status %d", code)
	}
}

// paste runs the curl lines of the banner as a shell does.
func paste(t *testing.T, text string) string {
	t.Helper()
	start := strings.Index(text, "  curl ")
	end := strings.Index(text[start:], "\n\n")
	if end < 0 {
		end = len(text) - start
	}
	lines, _, _ := strings.Cut(text[start:start+end], "\nRun")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", lines).Output()
	if err != nil {
		t.Fatalf("%s: %v", lines, err)
	}
	return string(out)
}

func TestOtherKeysAreNeverShown(t *testing.T) {
	s := serving(t, newDB(t), "--account", "shop="+ownKey)
	<-s.out.seen
	says(t, s.out.String(), `"Authorization: Bearer $API_KEY"`)
	for _, text := range []string{s.out.String(), s.log.String()} {
		if strings.Contains(text, ownKey) || strings.Contains(text, wellKnownKey) {
			t.Errorf("an API key is shown:\n%s", text)
		}
	}
	if got, _ := charge(t, s.base, ownKey, "k", "tok_ok"); got != http.StatusCreated {
		t.Errorf("the account gets %d", got)
	}
	if got, _ := charge(t, s.base, wellKnownKey, "k", "tok_ok"); got != http.StatusUnauthorized {
		t.Errorf("the well-known key gets %d", got)
	}
}

func TestTheWellKnownKeyStaysOnLoopback(t *testing.T) {
	file := newDB(t)
	s := serving(t, file)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	resp, err := freshClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another host name gets %d", resp.StatusCode)
	}
	s.end(t)
	r := command(t, "serve", "--db", file, "--listen", "0.0.0.0:0").must(t, exitUsage)
	says(t, r.stderr, "well-known", "accounts rotate 17 --overlap 0s", "--listen 127.0.0.1")
	r = command(t, "serve", "--db", file, "--provider", "stripe", "--stripe-key", "sk_test_x").must(t, exitUsage)
	says(t, r.stderr, "well-known", "accounts rotate 17")
	command(t, "accounts", "rotate", "17", "--overlap", "0s", "--db", file).must(t, exitOK)
	again := serving(t, file)
	<-again.out.seen
	if strings.Contains(again.out.String(), wellKnownKey) {
		t.Error("the rotated key is still offered")
	}
}

func TestAPortInUse(t *testing.T) {
	l, err := listenLoopback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	r := command(t, "serve", "--db", newDB(t), "--listen", address).must(t, exitFailed)
	says(t, r.stderr, "--listen "+address, "another program", "choose another address")
	r = command(t, "serve", "--db", newDB(t), "--listen", freeAddress(t), "--ops-listen", address).must(t, exitFailed)
	says(t, r.stderr, "--ops-listen "+address, "another program")
	r = command(t, "sandbox", "--listen", address, "--sandbox-db", t.TempDir()+"/s.db").must(t, exitFailed)
	says(t, r.stderr, "--listen "+address, "another program")
}

func TestOperatorsAddress(t *testing.T) {
	ops := freeAddress(t)
	s := serving(t, newDB(t), "--ops-listen", ops)
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml", "/sandbox/ledger"} {
		if got := status(t, "http://"+ops+path); got != http.StatusOK {
			t.Errorf("%s there is %d", path, got)
		}
	}
	if got := status(t, "http://"+ops+"/payments"); got != http.StatusNotFound {
		t.Errorf("/payments there is %d", got)
	}
	if got := status(t, s.base+"/sandbox/ledger"); got != http.StatusNotFound {
		t.Errorf("the ledger at the API's address is %d", got)
	}
}

func TestLogsOfJSONAreNothingElse(t *testing.T) {
	s := serving(t, newDB(t), "--log-format", "json", "--operator-key", "test_operator")
	charge(t, s.base, wellKnownKey, "k", "tok_ok")
	s.end(t)
	says(t, s.log.String(), `"msg":"listening"`, "no console yet")
	r := command(t, "serve", "--db", newDB(t), "--log-format", "json", "--lease", "5s").must(t, exitUsage)
	for _, text := range []string{s.log.String(), r.stderr} {
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %s", line)
			}
		}
	}
	says(t, r.stderr, "--lease (5s)")
	if s.out.String()+r.stdout != "" {
		t.Errorf("stdout: %s%s", s.out, r.stdout)
	}
}

func TestUnfinishedWorkOfAnotherProviderIsRefused(t *testing.T) {
	file := newDB(t)
	s := serving(t, file, "--provider-timeout", "100ms")
	code, answer := charge(t, s.base, wellKnownKey, "k", "tok_error_lost")
	if code != http.StatusAccepted {
		t.Fatalf("%d %v", code, answer)
	}
	s.end(t)
	r := command(t, "serve", "--db", file, "--listen", freeAddress(t), "--sandbox-db", t.TempDir()+"/other.db").
		must(t, exitUsage)
	says(t, r.stderr, "1 payment or refund is unfinished at the provider sandbox:", "--sandbox-db FILE")
	says(t, command(t, "sweep", "--db", file, "--sandbox-db", t.TempDir()+"/other.db").must(t, exitUsage).stderr,
		"1 payment or refund")
	says(t, command(t, "sweep", "--db", file, "--json").must(t, exitOK).stdout, `"takenOver":0`)
	serving(t, file)
}

// Without their key the requests of unfinished work could never be sent again.
func TestUnfinishedWorkUnderAnotherSecretKeyIsRefused(t *testing.T) {
	file, key := newDB(t), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", secretKeyBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serving(t, file, "--provider-timeout", "100ms", "--secret-key-file", key)
	if code, answer := charge(t, s.base, wellKnownKey, "k", "tok_error_lost"); code != http.StatusAccepted {
		t.Fatalf("%d %v", code, answer)
	}
	s.end(t)
	r := command(t, "serve", "--db", file, "--listen", freeAddress(t)).must(t, exitUsage)
	says(t, r.stderr, "1 unfinished request", "--secret-key-file")
	serving(t, file, "--secret-key-file", key)
}

// A signal stops the listening at once; the request that runs is answered.
func TestSIGTERMFinishesWhatRuns(t *testing.T) {
	address, file := freeAddress(t), newDB(t)
	cmd := exec.Command(binary, "serve", "--db", file, "--listen", address)
	log := watch("listening")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	await(t, log.seen, "the server to listen")
	type answer struct {
		code int
		body map[string]any
	}
	answered := make(chan answer, 1)
	go func() {
		code, body := charge(t, "http://"+address, wellKnownKey, "k", "tok_slow")
		answered <- answer{code, body}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	err := eventually(ctx, atMost, func() (bool, error) {
		return strings.Contains(log.String(), "claimed"), nil
	})
	if err != nil {
		t.Fatalf("the request does not run: %v\n%s", err, log)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = eventually(ctx, atMost, func() (bool, error) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return true, nil
		}
		return false, conn.Close()
	})
	if err != nil {
		t.Errorf("it still accepts: %v", err)
	}
	select {
	case a := <-answered:
		if a.code != http.StatusCreated || a.body["state"] != "succeeded" {
			t.Errorf("the request that ran got %d %v", a.code, a.body)
		}
	case <-ctx.Done():
		t.Fatal("the request that ran got no answer")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, log)
	}
}

func await(t *testing.T, seen <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-seen:
	case <-time.After(atMost):
		t.Fatalf("waited for %s", what)
	}
}

func TestASecondSignalEndsItAtOnce(t *testing.T) {
	address := freeAddress(t)
	cmd := exec.Command(binary, "serve", "--db", newDB(t), "--listen", address)
	log := watch("stopping")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	err := eventually(ctx, atMost, func() (bool, error) { return strings.Contains(log.String(), "listening"), nil })
	if err != nil {
		t.Fatal(err)
	}
	// A client whose connection breaks keeps its run going: the charge takes 3 s.
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/payments",
			strings.NewReader(`{"amount":1,"currency":"USD","paymentMethodToken":"tok_slow"}`))
		req.Header.Set("Authorization", "Bearer "+wellKnownKey)
		req.Header.Set("Idempotency-Key", "k")
		req.Header.Set("Content-Type", "application/json")
		if resp, err := freshClient().Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	err = eventually(ctx, atMost, func() (bool, error) { return strings.Contains(log.String(), "claimed"), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	await(t, log.seen, "it to stop")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("it ended with status %d, want %d:\n%s", code, exitFailed, log)
	}
}
