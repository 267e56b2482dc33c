package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refusal is a setting that serve does not start with.
type refusal struct {
	name  string
	args  []string
	words []string // the setting, then the cure
}

func timingRefusals() []refusal {
	return []refusal{
		{
			"provider timeout reaches lease", []string{"--lease", "5s"},
			[]string{"--provider-timeout (10s)", "--lease (5s)", "raise --lease"},
		},
		{"commit wait too high", []string{"--commit-wait", "20s"}, []string{"--commit-wait (20s)", "below 20s"}},
		{"commit wait nothing", []string{"--commit-wait", "0s"}, []string{"--commit-wait", "for example 10s"}},
		{"lease nothing", []string{"--lease", "0s"}, []string{"--lease is 0s", "for example"}},
		{"lease negative", []string{"--lease=-1s"}, []string{"--lease is -1s"}},
		{
			"provider timeout nothing", []string{"--provider-timeout", "0s"},
			[]string{"--provider-timeout is 0s", "for example"},
		},
		{"sweep never", []string{"--sweep-every", "0s"}, []string{"--sweep-every is 0s", "for example"}},
		{"retention short", []string{"--retention", "23h"}, []string{"--retention is 23h", "24h", "--unsafe-retention"}},
		{"retention nothing", []string{"--retention", "0", "--unsafe-retention"}, []string{"--retention is 0s", "24h"}},
		{"retention negative", []string{"--retention=-1s", "--unsafe-retention"}, []string{"--retention is -1s", "24h"}},
		{"tombstones negative", []string{"--tombstones=-1s"}, []string{"--tombstones is -1s", "0 means none"}},
		{
			"key window nothing", []string{"--provider-key-window", "0s"},
			[]string{"--provider-key-window is 0s", "for example 23h"},
		},
		{"sandbox window nothing", []string{"--sandbox-key-window", "0s"}, []string{"--sandbox-key-window is 0s", "24h"}},
	}
}

func otherRefusals() []refusal {
	const liveKey = "sk_live_0123456789"
	return []refusal{
		{"stripe without key", []string{"--provider", "stripe"}, []string{"--provider stripe", "STRIPE_API_KEY"}},
		{
			"live key in clear",
			[]string{"--provider", "stripe", "--stripe-key", liveKey, "--stripe-url", "http://example.org"},
			[]string{"--stripe-url", "https://"},
		},
		{
			"stripe url for nobody", []string{"--stripe-url", "https://example.org"},
			[]string{"--stripe-url", "--provider stripe"},
		},
		{
			"sandbox in the database", []string{"--db", "sqlite:same.db", "--sandbox-db", "./same.db"},
			[]string{"--sandbox-db", "file of its own"},
		},
		{"listen without port", []string{"--listen", "127.0.0.1"}, []string{"--listen", "HOST:PORT"}},
		{"ops without port", []string{"--ops-listen", "8019"}, []string{"--ops-listen", "HOST:PORT"}},
		{"account without key", []string{"--account", "secretalone"}, []string{"--account", "ID=APIKEY"}},
		{"account without name", []string{"--account", "=secret"}, []string{"account's name", "1 to 64"}},
		{"account with a space", []string{"--account", "a b=secret"}, []string{"account's name", "visible ASCII"}},
		{"empty key", []string{"--account", "12="}, []string{"API key for account 12", "accounts add"}},
		{
			"short key outside the sandbox",
			[]string{"--provider", "stripe", "--stripe-key", "sk_test_x", "--account", "12=short"},
			[]string{"API key for account 12", "20", "accounts add 12"},
		},
		{
			"well-known key for another", []string{"--account", "12=test_17"},
			[]string{"--account", "well-known", "another key"},
		},
		{
			"well-known operator for all", []string{"--listen", "0.0.0.0:0", "--operator-key", "test_operator"},
			[]string{"--operator-key", "choose another"},
		},
		{
			"short operator key for all", []string{"--listen", "0.0.0.0:0", "--operator-key", "short"},
			[]string{"--operator-key has 5", "at least 20"},
		},
		{"no secret key file", []string{"--secret-key-file", "/nonexistent"}, []string{"--secret-key-file", "32 bytes"}},
	}
}

// Every refusal names the setting and says how to mend it. None of them makes
// a file.
func TestServeRefuses(t *testing.T) {
	for _, test := range append(timingRefusals(), otherRefusals()...) {
		t.Run(test.name, func(t *testing.T) {
			db := newDB(t)
			r := command(t, append([]string{"serve", "--db", db}, test.args...)...).must(t, exitUsage)
			says(t, r.stderr, test.words...)
			if strings.Contains(r.stderr, "secret") && strings.Contains(test.name, "account") {
				t.Errorf("an API key is repeated: %s", r.stderr)
			}
			if r.stdout != "" {
				t.Errorf("stdout: %s", r.stdout)
			}
			if _, err := os.Stat(strings.TrimPrefix(db, "sqlite:")); err == nil {
				t.Error("the database was made all the same")
			}
		})
	}
}

func TestFilesThatCanNotBeOpenedNameTheCure(t *testing.T) {
	folder := t.TempDir()
	for name, args := range map[string][]string{
		"its folder is not there":                 {"--db", "sqlite:" + folder + "/nowhere/at.db"},
		"it is a folder":                          {"--db", "sqlite:" + folder},
		"--sandbox-db " + folder + "/no/box.db":   {"--db", newDB(t), "--sandbox-db", folder + "/no/box.db"},
		"that this user may read and write; name": {"--db", "sqlite:" + textFile(t)},
	} {
		r := command(t, append([]string{"serve", "--listen", freeAddress(t)}, args...)...).must(t, exitFailed)
		says(t, r.stderr, name)
	}
}

func textFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSweepRefusesTheSame(t *testing.T) {
	says(t, command(t, "sweep", "--db", migrated(t), "--lease", "5s").must(t, exitUsage).stderr, "--lease (5s)")
}

func TestAProviderKeyWindowAboveTheDeclaredIsRefused(t *testing.T) {
	r := command(t, "serve", "--db", newDB(t), "--listen", freeAddress(t), "--sandbox-key-window", "1m",
		"--provider-key-window", "2m").must(t, exitUsage)
	says(t, r.stderr, "key window is 2m", "--provider-key-window to at most 1m")
}

func TestCommitWaitIsCapped(t *testing.T) {
	tests := []struct{ lease, timeout, want time.Duration }{
		{30 * time.Second, 10 * time.Second, 10 * time.Second},
		{time.Minute, 10 * time.Second, 10 * time.Second},
		{20 * time.Second, 10 * time.Second, 5 * time.Second},
		{time.Second, 900 * time.Millisecond, 50 * time.Millisecond},
	}
	for _, test := range tests {
		f := timingFlags{Lease: test.lease, ProviderTimeout: test.timeout, SweepEvery: 1, Retention: minRetention}
		got, err := f.check()
		if err != nil || got != test.want {
			t.Errorf("lease %v, timeout %v: %v, %v; want %v", test.lease, test.timeout, got, err, test.want)
		}
		if got+test.timeout >= test.lease {
			t.Errorf("lease %v, timeout %v: %v reaches the lease", test.lease, test.timeout, got)
		}
	}
}

func TestTombstonesOfNothingAreNone(t *testing.T) {
	if got := (timingFlags{}).tombstones(); got >= 0 {
		t.Errorf("0 must not be the engine's default, but is %v", got)
	}
	if got := (timingFlags{Tombstones: time.Hour}).tombstones(); got != time.Hour {
		t.Errorf("an hour is %v", got)
	}
}

func TestSecretKeyFiles(t *testing.T) {
	write := func(text string) secretFlags {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return secretFlags{SecretKeyFile: path}
	}
	key := strings.Repeat("ab", secretKeyBytes)
	for _, text := range []string{key, key + "\n", strings.Repeat("k", secretKeyBytes)} {
		seal, err := write(text).sealer()
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if sealed := seal.Seal([]byte("token-9")); strings.Contains(string(sealed), "token-9") {
			t.Errorf("%q: sealed as %q", text, sealed)
		}
	}
	for _, text := range []string{"", "short", key + "ab", strings.Repeat("zz", secretKeyBytes)} {
		if _, err := write(text).sealer(); err == nil {
			t.Errorf("%q is taken for a key", text)
		} else {
			says(t, err.Error(), "--secret-key-file", "openssl rand -hex 32")
		}
	}
}

func TestCommandsThatLookMakeNoDatabase(t *testing.T) {
	db := newDB(t)
	for _, args := range [][]string{
		{"keys", "list"}, {"keys", "show", "17", "k"}, {"payments", "show", "pay_x"}, {"accounts", "list"},
		{"accounts", "add", "a"}, {"accounts", "rotate", "a"}, {"accounts", "revoke", "a"}, {"sweep"}, {"migrate", "--check"},
	} {
		r := command(t, append(args, "--db", db)...).must(t, exitUsage)
		says(t, r.stderr, "no database", "--db", "onlyonce migrate")
		if _, err := os.Stat(strings.TrimPrefix(db, "sqlite:")); err == nil {
			t.Fatalf("%v made the database", args)
		}
	}
}

func TestMigrate(t *testing.T) {
	db := newDB(t)
	says(t, command(t, "migrate", "--db", db, "--json").must(t, exitOK).stdout, `"applied":2`)
	says(t, command(t, "migrate", "--db", db).must(t, exitOK).stdout, "up to date")
	says(t, command(t, "migrate", "--db", db, "--check").must(t, exitOK).stdout, "up to date")
	empty := newDB(t)
	if err := os.WriteFile(strings.TrimPrefix(empty, "sqlite:"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, command(t, "migrate", "--db", empty, "--check", "--json").must(t, exitFailed).stdout, `"schema":"old"`)
	says(t, command(t, "serve", "--db", empty, "--no-migrate").must(t, exitFailed).stderr, "onlyonce migrate")
}
