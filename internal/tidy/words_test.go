package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"net/url"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// standardNames is the package names of the standard library.
var standardNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for dir := range strings.Lines(goTool("list", "std")) {
		dir = strings.TrimSpace(dir)
		if !strings.Contains("/"+dir+"/", "/internal/") && !strings.HasPrefix(dir, "vendor/") {
			names[path.Base(dir)] = true
		}
	}
	return names
})

func goTool(args ...string) string {
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		panic(fmt.Sprintf("go %s: %v", strings.Join(args, " "), err)) // go runs this test, so it is there
	}
	return string(out)
}

// readsClock are the functions of package time that read the clock or hide it.
var readsClock = []string{"Now", "Since", "Until"}

// clock checks that time comes in through a field: below cmd nothing calls
// time.Now. To name it as a field's default is no call.
func clock(tr *tree) []finding {
	var found []finding
	for _, f := range tr.code() {
		if f.test() || strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		within(f, func(name string, n ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(readsClock, sel.Sel.Name) {
				found = append(found, finding{f.path, tr.line(call.Pos()), name, fmt.Sprintf(
					"%s calls time.%s: take the time from a field whose default is time.Now", name, sel.Sel.Name)})
			}
		})
	}
	return found
}

// within visits every node of the file's declarations with the name of the
// function it stands in, or "file".
func within(f file, visit func(name string, n ast.Node)) {
	for _, d := range f.syntax.Decls {
		name := "file"
		if fn, ok := d.(*ast.FuncDecl); ok {
			name = fn.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			visit(name, n)
			return true
		})
	}
}

// noInit checks that importing a package runs nothing.
func noInit(tr *tree) []finding {
	var found []finding
	for _, f := range tr.code() {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, finding{f.path, tr.line(fn.Pos()), "init",
					"has an init function: make a constructor and call it from cmd"})
			}
		}
	}
	return found
}

// skips lists the tests that may be left out. Each must be on purpose and an
// exception with its reason.
func skips(tr *tree) []finding {
	var found []finding
	for _, f := range tr.code() {
		if !f.test() {
			continue
		}
		within(f, func(name string, n ast.Node) {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				found = append(found, finding{f.path, tr.line(sel.Pos()), name,
					name + " can be skipped: let it run everywhere, or list the exception with its reason"})
			}
		})
	}
	return found
}

var (
	looksLikeSQL = regexp.MustCompile(`(?i)\b(select\s[\s\S]+\sfrom|insert\s+(\w+\s+){0,2}into|` +
		`update\s+(\w+\s+){1,3}set|delete\s+(\w+\s+)?from|create\s+(unique\s+)?(table|index))\s`)
	// The words are cut in two, so that this file does not hold what it looks for.
	ignoreWord = regexp.MustCompile(`(?i)\big` + `nore\b`)
	starColumn = regexp.MustCompile(`(?i)\bselect\s+\*`)
)

// statement is a piece of SQL text in the repository.
type statement struct {
	file    string
	line    int
	subject string
	text    string
}

func statements(tr *tree) []statement {
	var found []statement
	for _, f := range tr.files {
		if strings.HasSuffix(f.path, ".sql") {
			for i, line := range f.lines() {
				line, _, _ = strings.Cut(line, "--")
				found = append(found, statement{f.path, i + 1, "sql", line})
			}
		}
		if f.syntax == nil {
			continue
		}
		within(f, func(name string, n ast.Node) {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return
			}
			if text, err := strconv.Unquote(lit.Value); err == nil && looksLikeSQL.MatchString(text) {
				found = append(found, statement{f.path, tr.line(lit.Pos()), name, text})
			}
		})
	}
	return found
}

// sqlText checks statements: IGNORE turns a cut key into a warning, and a star
// reads columns that a later migration adds.
func sqlText(tr *tree) []finding {
	var found []finding
	for _, s := range statements(tr) {
		if ignoreWord.MatchString(s.text) {
			found = append(found, finding{s.file, s.line, s.subject,
				"SQL may not say IGNORE, which turns a cut key into a warning: let the insert fail"})
		}
		if starColumn.MatchString(s.text) && !strings.HasSuffix(s.file, "_test.go") {
			found = append(found, finding{s.file, s.line, s.subject, "SQL reads every column: list the ones that are needed"})
		}
	}
	return found
}

// instead is the glossary's "not" column, as far as no other use is legitimate.
var instead = map[string]string{
	"tenant":  "account",
	"cents":   "minor units",
	"gateway": "provider",
	"vendor":  "provider",
}

var wordInName = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// glossary checks the identifiers of Go and the words of SQL.
func glossary(tr *tree) []finding {
	var found []finding
	add := func(file string, line int, subject, name string) {
		if !containsAny(strings.ToLower(name), slices.Collect(maps.Keys(instead))) {
			return
		}
		for _, word := range wordInName.FindAllString(name, -1) {
			if better, ok := instead[strings.ToLower(word)]; ok {
				found = append(found, finding{file, line, subject, fmt.Sprintf(
					"%s: the glossary's word for %q is %q", name, strings.ToLower(word), better)})
			}
		}
	}
	for _, f := range tr.code() {
		within(f, func(name string, n ast.Node) {
			if id, ok := n.(*ast.Ident); ok {
				add(f.path, tr.line(id.Pos()), id.Name, id.Name)
			}
		})
	}
	for _, s := range statements(tr) {
		for _, word := range strings.Fields(s.text) {
			add(s.file, s.line, s.subject, word)
		}
	}
	return found
}

var (
	laterWords = []string{"TO" + "DO", "FIX" + "ME", "HA" + "CK"}
	laterWord  = regexp.MustCompile(`\b(` + strings.Join(laterWords, "|") + `)\b`)
)

// later checks that nothing is left for later in the code or in a page: what
// is not done belongs into an issue.
func later(tr *tree) []finding {
	return textual(tr, func(f file) bool { return containsAny(f.text, laterWords) }, laterWord,
		"leaves something for later: do it, or say what is so now and open an issue")
}

// containsAny is the quick look that spares most texts the pattern.
func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// textual finds a pattern, line by line.
func textual(tr *tree, where func(file) bool, what *regexp.Regexp, text string) []finding {
	var found []finding
	for _, f := range tr.files {
		if !where(f) {
			continue
		}
		for i, line := range f.lines() {
			if word := what.FindString(line); word != "" {
				found = append(found, finding{f.path, i + 1, word, fmt.Sprintf("%q %s", word, text)})
			}
		}
	}
	return found
}

// registryHosts are the hosts of package registries that this machine's go
// command uses, and the one that stands for them in the bad example.
var registryHosts = sync.OnceValue(func() []string {
	known := []string{"registry." + "example"}
	between := func(r rune) bool { return strings.ContainsRune(",| \n", r) }
	for _, part := range strings.FieldsFunc(goTool("env", "GOPROXY"), between) {
		if u, err := url.Parse(part); err == nil && u.Hostname() != "" {
			known = append(known, u.Hostname())
		}
	}
	return known
})

// hosts checks that nothing ties the repository to one registry.
func hosts(tr *tree) []finding {
	known := registryHosts()
	quoted := make([]string, len(known))
	for i, host := range known {
		quoted[i] = regexp.QuoteMeta(host)
	}
	where := func(f file) bool { return f.path != "go.sum" && containsAny(f.text, known) }
	return textual(tr, where, regexp.MustCompile(strings.Join(quoted, "|")),
		"is the host of a package registry: leave the choice to the machine")
}

const intentAdvice = "one key per intent"

var keyPerRequest = regexp.MustCompile(
	`(?i)\bunique\s+(for|per|to|on|in|with)\s+(each|every|all|any)?\s*(request|call|attempt|try)s?\b`)

// intent checks the words that readers, and programs that read, act on: a key
// per request would undo all of this.
func intent(tr *tree) []finding {
	where := func(f file) bool { return !f.test() && containsAny(strings.ToLower(f.text), []string{"unique"}) }
	found := textual(tr, where, keyPerRequest,
		"tells clients to make a key per request: say "+strconv.Quote(intentAdvice)+", the same on every retry")
	for _, f := range tr.files {
		if f.path != "README.md" && !strings.Contains(path.Base(f.path), "openapi") {
			continue
		}
		if ext := path.Ext(f.path); ext != ".md" && ext != ".yaml" {
			continue
		}
		if !strings.Contains(strings.ToLower(strings.Join(strings.Fields(f.text), " ")), intentAdvice) {
			found = append(found, finding{f.path, 1, "intent", "does not say " + strconv.Quote(intentAdvice)})
		}
	}
	return found
}
