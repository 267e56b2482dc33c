package tidy

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	architecture = "ARCHITECTURE.md"
	rootRoom     = "."
)

// room is one row of the import table in ARCHITECTURE.md, which is the source:
// this code only reads it.
type room struct {
	dir   string
	line  int
	may   []string // what its code may import
	never []string // packages of the standard library that it must not
	tests []string // what only its tests import
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

func spans(cell string) []string {
	var found []string
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}

// importTable reads the rows below the header "| Room | Duty | May import |
// Never | Tests also |".
func importTable(tr *tree) []room {
	page, _ := tr.file(architecture)
	var table []room
	inside := false
	for i, line := range page.lines() {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case strings.HasPrefix(line, "| Room |"):
			inside = true
		case inside && !strings.HasPrefix(line, "|"):
			inside = false
		case inside && len(cells) == 5 && len(spans(cells[0])) == 1:
			table = append(table, room{
				dir: path.Clean(spans(cells[0])[0]), line: i + 1,
				may: spans(cells[2]), never: spans(cells[3]), tests: spans(cells[4]),
			})
		}
	}
	return table
}

// short is how the table names an import: "std", "onlyonce" for the root, a
// folder of this module, or the import path itself.
func (tr *tree) short(imported string) string {
	if imported == tr.module {
		return path.Base(tr.module)
	}
	return strings.TrimPrefix(imported, tr.module+"/")
}

func (tr *tree) standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") && imported != tr.module
}

// listed returns the entry that covers the import, if there is one.
func listed(entries []string, short string) (string, bool) {
	for _, e := range entries {
		if short == e || strings.Contains(e, ".") && strings.HasPrefix(short, e+"/") {
			return e, true
		}
	}
	return "", false
}

// imports holds the code against the table and the table against the code.
func imports(tr *tree) []finding {
	table := importTable(tr)
	if len(table) == 0 {
		return []finding{{architecture, 1, "",
			"there is no import table: begin one with | Room | Duty | May import | Never | Tests also |"}}
	}
	var found []finding
	used := map[string]bool{} // room, kind of file and entry, joined
	for _, f := range tr.code() {
		i := slices.IndexFunc(table, func(r room) bool { return r.dir == f.dir() })
		if i < 0 {
			continue // rooms() reports it
		}
		for _, spec := range f.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			entry, fault := table[i].judge(tr, f, imported)
			if fault != "" {
				found = append(found, finding{f.path, tr.line(spec.Pos()), imported, fault})
			}
			used[fmt.Sprint(table[i].dir, f.test(), entry)] = true
		}
	}
	for _, r := range table {
		found = append(found, r.unused(used)...)
	}
	return found
}

// judge returns the entry of the table that allows the import, or the fault.
func (r room) judge(tr *tree, f file, imported string) (entry, fault string) {
	short := tr.short(imported)
	own := imported == tr.module+"/"+r.dir || r.dir == rootRoom && imported == tr.module
	switch {
	case tr.standard(imported) && f.test():
		return "std", ""
	case tr.standard(imported) && slices.Contains(r.never, imported):
		return "", fmt.Sprintf("imports %q, which its row in %s forbids: move the code to the room that may",
			imported, architecture)
	case tr.standard(imported):
		return "std", ""
	case f.test() && own:
		return "", ""
	}
	if entry, ok := listed(r.may, short); ok {
		return entry, ""
	}
	if entry, ok := listed(r.tests, short); ok && f.test() {
		return entry, ""
	}
	return "", fmt.Sprintf("imports %q, which its row in %s does not list: "+
		"move the code, or change the table and say why in docs/adr", short, architecture)
}

// unused reports the entries of the row that the code does not need.
func (r room) unused(used map[string]bool) []finding {
	var found []finding
	for _, e := range r.may {
		if e != "std" && !used[fmt.Sprint(r.dir, false, e)] {
			found = append(found, finding{architecture, r.line, e, fmt.Sprintf(
				"%s lists `%s` and does not import it: delete it from the row", r.dir, e)})
		}
		if strings.HasPrefix(e, "cmd/") {
			found = append(found, finding{architecture, r.line, e,
				"cmd is imported by nothing: move what is needed out of it"})
		}
	}
	for _, e := range r.tests {
		if !used[fmt.Sprint(r.dir, true, e)] {
			found = append(found, finding{architecture, r.line, e, fmt.Sprintf(
				"the tests of %s list `%s` and do not import it: delete it from the row", r.dir, e)})
		}
	}
	return found
}

var bannedFolders = []string{"util", "utils", "common", "helper", "helpers", "pkg", "model", "models", "misc", "shared"}

// rooms checks that every folder with code has a row and every row a folder
// with code, that no name says nothing, and that none shadows the standard
// library.
func rooms(tr *tree) []finding {
	var found []finding
	table := importTable(tr)
	std := standardNames()
	seen := map[string]bool{}
	for _, f := range tr.code() {
		if seen[f.dir()] {
			continue
		}
		seen[f.dir()] = true
		name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
		if !slices.ContainsFunc(table, func(r room) bool { return r.dir == f.dir() }) {
			found = append(found, finding{f.path, 1, f.dir(), fmt.Sprintf(
				"%s has no row in the import table of %s: add one", f.dir(), architecture)})
		}
		if std[name] {
			found = append(found, finding{f.path, 1, f.dir(), fmt.Sprintf(
				"package %s shadows one of the standard library: name it for its noun", name)})
		}
	}
	for _, r := range table {
		if !seen[r.dir] {
			found = append(found, finding{architecture, r.line, r.dir, fmt.Sprintf(
				"%s holds no Go code: delete the row", r.dir)})
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(tr.dirs)) {
		if slices.Contains(bannedFolders, path.Base(dir)) {
			found = append(found, finding{dir, 1, dir, fmt.Sprintf(
				"a folder named %q says nothing: name it for the noun it holds", path.Base(dir))})
		}
	}
	return found
}
