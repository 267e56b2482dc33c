package tidy

import (
	"cmp"
	"fmt"
	"go/ast"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// mention is a piece of code in a page: a span in backticks, or a line of a
// fenced block.
type mention struct {
	file   string
	line   int
	text   string
	fenced string // the block's language; empty for a span
}

// shell reports whether the mention is something to type.
func (m mention) shell() bool { return m.fenced == "sh" || m.fenced == "bash" || m.fenced == "console" }

const fence = "```"

func mentions(page file) []mention {
	var found []mention
	language, inside := "", false
	for i, line := range page.lines() {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), fence); ok {
			inside, language = !inside, rest
			continue
		}
		if inside {
			found = append(found, mention{page.path, i + 1, line, cmp.Or(language, "text")})
			continue
		}
		for _, span := range spans(line) {
			found = append(found, mention{page.path, i + 1, span, ""})
		}
	}
	return found
}

var (
	pathLike = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)*/?$`)
	pathEnds = []string{".md", ".go", ".sql", ".yaml", ".yml", ".txt", ".txtar", ".mod"}
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	anchored = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// paths checks that every file and folder that a page names exists, links and
// the headings they point at included.
func paths(tr *tree) []finding {
	var found []finding
	for _, page := range tr.pages() {
		for _, m := range mentions(page) {
			name := strings.TrimPrefix(m.text, "./")
			if m.fenced != "" || !isPath(tr, name) {
				continue
			}
			if !tr.exists(name) && !tr.exists(path.Join(page.dir(), name)) {
				found = append(found, finding{m.file, m.line, m.text,
					fmt.Sprintf("`%s` does not exist: mend the name or the text", m.text)})
			}
		}
		for i, line := range page.lines() {
			for _, target := range link.FindAllStringSubmatch(line, -1) {
				if fault := deadLink(tr, page, target[1]); fault != "" {
					found = append(found, finding{page.path, i + 1, target[1], fault})
				}
			}
		}
	}
	return found
}

// isPath tells a path of this repository from an import path, a media type or
// a path of the API: it begins with something that is here, or ends like a file.
func isPath(tr *tree, name string) bool {
	if !pathLike.MatchString(name) {
		return false
	}
	first, _, nested := strings.Cut(name, "/")
	if strings.Contains(first, ".") && !strings.HasPrefix(first, ".") && nested {
		return false // a host
	}
	return slices.Contains(pathEnds, path.Ext(name)) || nested && tr.exists(first)
}

func deadLink(tr *tree, page file, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	name, anchor, _ := strings.Cut(target, "#")
	to := page
	if name != "" {
		joined := path.Join(page.dir(), name)
		if !tr.exists(joined) {
			return fmt.Sprintf("the link to %s leads nowhere: mend it", target)
		}
		to, _ = tr.file(joined)
	}
	if anchor != "" && to.page() && !slices.Contains(anchors(to), anchor) {
		return fmt.Sprintf("the link to %s names a heading that is not there: mend it", target)
	}
	return ""
}

// anchors returns the headings of a page as GitHub links them.
func anchors(page file) []string {
	var found []string
	for _, line := range page.lines() {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			slug := anchored.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			found = append(found, strings.ReplaceAll(slug, " ", "-"))
		}
	}
	return found
}

var (
	makeCall   = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	flagWord   = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	envWord    = regexp.MustCompile(`\bONLYONCE_[A-Z][A-Z0-9_]*\b`)
	otherTool  = regexp.MustCompile(`^\s*\$?\s*(curl|git|docker|go (get|install|tool|vet|test|list|env)|make|gofmt)\b`)
)

// alwaysFlags are understood by every command without a field of its own.
var alwaysFlags = []string{"help"}

// commands checks make targets, flags and environment variables.
func commands(tr *tree) []finding {
	makefile, _ := tr.file("Makefile")
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(makefile.text, -1) {
		targets = append(targets, m[1])
	}
	flags, envs := commandLine(tr)
	var found []finding
	check := func(m mention, what *regexp.Regexp, known []string, text string) {
		for _, match := range what.FindAllStringSubmatch(m.text, -1) {
			if name := match[len(match)-1]; !slices.Contains(known, name) {
				found = append(found, finding{m.file, m.line, name, fmt.Sprintf("%s: %s", strings.TrimSpace(match[0]), text)})
			}
		}
	}
	for _, page := range tr.pages() {
		for _, m := range mentions(page) {
			if m.fenced == "" || m.shell() {
				check(m, makeCall, targets, "the Makefile has no such target")
			}
			if m.fenced == "" || m.shell() && !otherTool.MatchString(m.text) {
				check(m, flagWord, append(flags, alwaysFlags...), "no command has such a flag")
			}
			check(m, envWord, envs, "no flag reads such a variable")
		}
	}
	return found
}

// commandLine reads the flags and variables out of the struct tags in cmd, as
// the parser of flags does.
func commandLine(tr *tree) (flags, envs []string) {
	for _, f := range tr.code() {
		if f.test() || !strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil || len(field.Names) == 0 {
				return true
			}
			raw, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				return true
			}
			tag := reflect.StructTag(raw)
			if env := tag.Get("from"); env != "" {
				envs = append(envs, env)
			}
			for _, none := range []string{"cmd", "arg", "embed", "json"} {
				if _, ok := tag.Lookup(none); ok {
					return true
				}
			}
			flags = append(flags, cmp.Or(tag.Get("name"), kebab(field.Names[0].Name)))
			return true
		})
	}
	return flags, envs
}

// kebab turns ProviderKeyWindow into provider-key-window and StripeURL into
// stripe-url.
func kebab(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		small := i > 0 && unicode.IsLower(runes[i-1])
		next := i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if unicode.IsUpper(r) && (small || next) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var goName = regexp.MustCompile(`^\*?([a-z]+)\.([A-Z]\w*(?:\.[A-Z]\w*)?)(?:\(.*)?$`)

// names checks that what a page writes as package.Name is exported there.
func names(tr *tree) []finding {
	known := map[string]map[string]bool{}
	for _, f := range tr.code() {
		if f.test() || f.syntax.Name.Name == "main" {
			continue
		}
		pkg := f.syntax.Name.Name
		if known[pkg] == nil {
			known[pkg] = map[string]bool{}
		}
		for _, d := range append(declared(f), fields(f)...) {
			known[pkg][d.name] = true
		}
	}
	var found []finding
	for _, page := range tr.pages() {
		for _, m := range mentions(page) {
			parts := goName.FindStringSubmatch(m.text)
			if m.fenced == "" && parts != nil && known[parts[1]] != nil && !known[parts[1]][parts[2]] {
				found = append(found, finding{m.file, m.line, m.text, fmt.Sprintf(
					"package %s exports no %s: mend the name or the text", parts[1], parts[2])})
			}
		}
	}
	return found
}

// fields lists the exported fields of a file's structs as Type.Field.
func fields(f file) []declaration {
	var found []declaration
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					found = append(found, declaration{name: spec.Name.Name + "." + name.Name, node: field})
				}
			}
		}
		return true
	})
	return found
}

var exampleMark = regexp.MustCompile(`^<!-- example: (\S+) (\w+) -->$`)

// examples checks that every block of Go in a page is the body of a function
// that the tests compile and run, named in the line above it.
func examples(tr *tree) []finding {
	var found []finding
	for _, page := range tr.pages() {
		lines := page.lines()
		for i, line := range lines {
			if line != fence+"go" {
				continue
			}
			mark := exampleMark.FindStringSubmatch(lines[max(i-1, 0)])
			if mark == nil {
				found = append(found, finding{page.path, i + 1, "example",
					"a block of Go needs the line <!-- example: FILE FUNCTION --> above it, whose body it is"})
				continue
			}
			end := i + 1 + slices.Index(lines[i+1:], fence)
			if body := functionBody(tr, mark[1], mark[2]); body != strings.Join(lines[i+1:end], "\n") {
				found = append(found, finding{page.path, i + 1, mark[2], fmt.Sprintf(
					"the block differs from %s in %s, which is:\n%s", mark[2], mark[1], body)})
			}
		}
	}
	return found
}

// functionBody returns the lines between a function's braces without the
// expected output, one tab less indented.
func functionBody(tr *tree, name, function string) string {
	f, ok := tr.file(name)
	if !ok || f.syntax == nil {
		return ""
	}
	for _, d := range f.syntax.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != function {
			continue
		}
		var body []string
		for _, line := range f.lines()[tr.line(fn.Body.Lbrace) : tr.line(fn.Body.Rbrace)-1] {
			if strings.HasPrefix(line, "\t// Output:") {
				break
			}
			body = append(body, strings.TrimPrefix(line, "\t"))
		}
		return strings.TrimRight(strings.Join(body, "\n"), "\n")
	}
	return ""
}
