package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// eachCommand visits every command that can be run.
func eachCommand(t *testing.T, visit func(t *testing.T, node *kong.Node)) {
	t.Helper()
	parser, err := newParser(&program{ctx: t.Context(), env: lookup(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Leaves(false) {
		t.Run(node.Path(), func(t *testing.T) { visit(t, node) })
	}
}

func TestEveryCommandsHelpEndsWithAnExample(t *testing.T) {
	eachCommand(t, func(t *testing.T, node *kong.Node) {
		r := command(t, append(strings.Fields(node.Path()), "--help")...).must(t, exitOK)
		_, example, ok := strings.Cut(r.stdout, "\nExample:\n")
		if !ok {
			t.Fatalf("there is no example in:\n%s", r.stdout)
		}
		says(t, example, "onlyonce "+strings.Fields(node.Path())[0])
		if r.stderr != "" {
			t.Errorf("stderr: %s", r.stderr)
		}
		for line := range strings.Lines(r.stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	})
}

func TestEveryFlagSaysWhatItMeans(t *testing.T) {
	eachCommand(t, func(t *testing.T, node *kong.Node) {
		for _, flag := range node.Flags {
			text := flag.Help + flagHelp[flag.Name]
			if len(text) < 10 || !strings.HasSuffix(strings.TrimSpace(text), ".") {
				t.Errorf("--%s has no sentence: %q", flag.Name, text)
			}
			hasDefault := flag.HasDefault && flag.Default != "" || flag.IsBool() || strings.Contains(text, "Default: ")
			optional := flag.Name == "key" || flag.Name == "ops-listen" || flag.Name == "stripe-key" || flag.Name == "status"
			if !hasDefault && !optional {
				t.Errorf("--%s does not say its default: %q", flag.Name, text)
			}
		}
	})
}

func TestEveryHelpTextBelongsToAFlag(t *testing.T) {
	used := map[string]bool{}
	eachCommand(t, func(_ *testing.T, node *kong.Node) {
		for _, flag := range node.Flags {
			used[flag.Name] = true
		}
	})
	for name := range flagHelp {
		if !used[name] {
			t.Errorf("help for --%s, which no command has", name)
		}
	}
}

// The table of the HTTP contract, "Running the server".
func TestServeHasTheFlagsOfTheContract(t *testing.T) {
	contract := map[string]struct{ env, preset string }{
		"listen":                {"ONLYONCE_LISTEN", "127.0.0.1:8017"},
		"db":                    {"ONLYONCE_DB", "sqlite:onlyonce.db"},
		"db-conns":              {"", "20"},
		"unsafe-async-failover": {"", ""},
		"account":               {"ONLYONCE_ACCOUNTS", ""},
		"operator-key":          {"ONLYONCE_OPERATOR_KEY", ""},
		"provider":              {"", "sandbox"},
		"stripe-key":            {"STRIPE_API_KEY", ""},
		"stripe-url":            {"", ""},
		"provider-timeout":      {"", "10s"},
		"commit-wait":           {"", ""},
		"sandbox-db":            {"", ""},
		"sandbox-key-window":    {"", "24h"},
		"provider-key-window":   {"", ""},
		"lease":                 {"", "30s"},
		"retention":             {"", "720h"},
		"unsafe-retention":      {"", ""},
		"tombstones":            {"", "2160h"},
		"sweep-every":           {"", "5s"},
		"max-body":              {"", "64KiB"},
		"log-format":            {"", "text"},
		"log-level":             {"", "info"},
		"no-migrate":            {"", ""},
		"ops-listen":            {"", ""},
		"secret-key-file":       {"", ""},
	}
	eachCommand(t, func(t *testing.T, node *kong.Node) {
		if node.Path() != "serve" {
			return
		}
		for _, flag := range node.Flags {
			want, ok := contract[flag.Name]
			if !ok {
				t.Errorf("--%s is not in the contract", flag.Name)
			}
			delete(contract, flag.Name)
			if flag.Default != want.preset {
				t.Errorf("--%s has the default %q, want %q", flag.Name, flag.Default, want.preset)
			}
			if env := flag.Tag.Get("from"); env == "" || want.env != "" && env != want.env {
				t.Errorf("--%s is set by %q, want %q", flag.Name, env, want.env)
			}
		}
		for name := range contract {
			t.Errorf("--%s is missing", name)
		}
	})
}

// parsed reads a command line as the program does, without running it.
func parsed(t *testing.T, env map[string]string, args ...string) (*commands, error) {
	t.Helper()
	p := &program{ctx: t.Context(), env: lookup(env), stdout: &strings.Builder{}, stderr: &strings.Builder{}}
	parser, err := newParser(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil, err
	}
	return ctx.Model.Target.Addr().Interface().(*commands), nil
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	env := map[string]string{
		"ONLYONCE_LISTEN": "127.0.0.1:1", "ONLYONCE_LEASE": "9s", "ONLYONCE_ACCOUNTS": "1=a,2=b",
		"STRIPE_API_KEY": "sk_test_x", "ONLYONCE_MAX_BODY": "1MiB", "ONLYONCE_DB": "", "ONLYONCE_NO_MIGRATE": "true",
	}
	c, err := parsed(t, env, "serve", "--listen", "127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Serve
	if s.Listen != "127.0.0.1:2" || s.Lease.String() != "9s" || len(s.Account) != 2 || s.StripeKey != "sk_test_x" ||
		s.MaxBody != 1<<20 || !s.NoMigrate {
		t.Errorf("%+v", s)
	}
	if s.DB != "sqlite:onlyonce.db" {
		t.Errorf("an empty variable is none, but --db is %q", s.DB)
	}
	c, err = parsed(t, env, "serve", "--account", "3=c", "--account", "4=d")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Serve.Account, " "); got != "3=c 4=d" {
		t.Errorf("accounts are %q", got)
	}
}

func TestSizes(t *testing.T) {
	sizes := map[string]byteSize{"1": 1, "65536": 65536, "64KiB": 65536, "1MiB": 1 << 20, "16MiB": 16 << 20}
	for text, want := range sizes {
		var b byteSize
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%s is %d, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "64KB", "1.5MiB", "17MiB", "9223372036854775807MiB", "KiB"} {
		var b byteSize
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %d", text, b)
		}
	}
}

func TestWithoutArgumentsItHelps(t *testing.T) {
	r := command(t).must(t, exitOK)
	says(t, r.stdout, "serve", "demo", "keys show", "accounts add", "migrate", "sweep", "version", "Example:")
}

func TestUnknownWordsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--nonsense"}, {"nonsense"}, {"keys"}, {"keys", "show", "17"}, {"serve", "--lease", "soon"},
		{"serve", "--log-level", "loud"}, {"serve", "--log-format", "xml"}, {"serve", "--provider", "paypal"},
		{"serve", "--max-body", "1GB"},
	} {
		r := command(t, args...).must(t, exitUsage)
		says(t, r.stderr, "onlyonce: ", "--help)")
		if r.stdout != "" {
			t.Errorf("%v writes to stdout: %s", args, r.stdout)
		}
	}
}

func TestVersion(t *testing.T) {
	says(t, command(t, "version").must(t, exitOK).stdout, "onlyonce ", "go1.")
	var b build
	text := command(t, "version", "--json").must(t, exitOK).stdout
	if err := json.Unmarshal([]byte(text), &b); err != nil || b.Go == "" {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestWhatPeopleTypeFirst(t *testing.T) {
	says(t, command(t, "help").must(t, exitOK).stdout, "Usage: onlyonce", "serve")
	says(t, command(t, "--version").must(t, exitOK).stdout, "onlyonce")
}
