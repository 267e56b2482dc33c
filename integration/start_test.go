package integration_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// What could lose money is refused at start: exit status 2, and a sentence that
// names the setting and its cure.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	stripe := []string{"--provider", "stripe", "--stripe-url", "http://127.0.0.1:1"}
	for name, c := range map[string]struct {
		flags []string
		says  []string
	}{
		"the lease is too short": {
			[]string{"--lease", "2s", "--provider-timeout", "1s", "--commit-wait", "1s"}, []string{"--lease", "--commit-wait"}},
		"the provider may take longer than the lease": {
			[]string{"--lease", "5s", "--provider-timeout", "6s"}, []string{"--lease", "--provider-timeout"}},
		"a retention of an hour": {
			[]string{"--retention", "1h"}, []string{"--retention", "24h", "--unsafe-retention"}},
		"a key window that the provider does not promise": {
			[]string{"--provider-key-window", "48h"}, []string{"--provider-key-window", "24h"}},
		"stripe without a key": {
			[]string{"--provider", "stripe"}, []string{"--stripe-key", "STRIPE_API_KEY"}},
		"an API key that can be guessed": {
			append([]string{"--stripe-key", "sk_test_x", "--account", "18=secret"}, stripe...), []string{"18", "20"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			refused(t, dir, c.says, append([]string{"serve", "--listen", freeAddress(t)}, c.flags...)...)
		})
	}
}

func refused(t *testing.T, dir string, says []string, args ...string) {
	t.Helper()
	status, stdout, stderr := command(t, dir, args...)
	if status != 2 {
		t.Errorf("exit status %d, want 2", status)
	}
	if lines := strings.Count(strings.TrimSpace(stderr), "\n") + 1; lines > 2 || stdout != "" {
		t.Errorf("a refusal of %d lines, and on standard output %q", lines, stdout)
	}
	for _, word := range says {
		if !strings.Contains(stderr, word) {
			t.Errorf("the refusal does not say %q: %s", word, stderr)
		}
	}
}

// Another key for an account that exists is not added quietly.
func TestAnotherKeyForAnAccountIsRefused(t *testing.T) {
	t.Parallel()
	h := newInProcessHouse(t)
	s := h.serve()
	s.kill()
	refused(t, h.dir, []string{account, "onlyonce accounts rotate " + account},
		"serve", "--listen", freeAddress(t), "--account", account+"=oo_test_another_integration_key")
	h.serve() // with the key that it has
}

// Unfinished work is only looked for where it began.
func TestAnotherProviderIsRefusedWhileWorkIsUnfinished(t *testing.T) {
	t.Parallel()
	h := newInProcessHouse(t)
	s := h.serve()
	release := h.box.lock() // so that nothing is resolved
	open := payment("k-open", "42", "tok_ok")
	answered := s.sent(open)
	h.db.claimed(open.key)
	s.kill()
	<-answered
	release()
	elsewhere := []string{"serve", "--listen", freeAddress(t), "--provider", "stripe", "--stripe-key", "sk_test_x",
		"--stripe-url", "http://127.0.0.1:1"}
	refused(t, h.dir, []string{"1 payment", "sandbox:", "--provider sandbox"}, elsewhere...)
	refused(t, h.dir, []string{"1 payment", "sandbox:", "--sandbox-db"},
		"serve", "--listen", freeAddress(t), "--sandbox-db", filepath.Join(t.TempDir(), "another.db"))

	s = h.serve()
	s.final(open, lease+sweepEvery+slack).is(t, http.StatusCreated, "")
	s.kill()
	s = h.serve(elsewhere[3:]...) // nothing is unfinished any more
	s.must(open).is(t, http.StatusCreated, "")
}

// SIGTERM finishes what runs, accepts nothing more, and exits 0.
func TestTerminateFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve(unhurried()...)
	g := newGate()
	h.proxy.does(func(p *passage) {
		p.hold(g)
		p.pass()
	})
	r := payment("k-last", "42", "tok_ok")
	answer := s.sent(r)
	g.wait(t)
	s.terminate()
	eventually(t, patience, "the server to accept nothing more", func() bool {
		_, err := s.read("/healthz")
		return err != nil
	})
	g.open()
	got := <-answer
	got.is(t, http.StatusCreated, "")
	if status := s.end(patience); status != 0 {
		t.Errorf("exit status %d after SIGTERM", status)
	}
	s = h.serve()
	s.must(r).checkReplay(t, got)
	h.checkClaims()
}
