package tidy

import (
	"fmt"
	"go/ast"
	"go/format"
	"strings"
	"unicode/utf8"
)

// The caps. A reader can hold a function of this size in one screen and a half
// and a file in one sitting.
const (
	maxFunctionLines    = 70
	maxFileLines        = 400
	maxLineCharacters   = 120
	maxRootNames        = 40
	maxInterfaceMethods = 8
)

// size checks the caps on Go and SQL files, tests included.
func size(tr *tree) []finding {
	var found []finding
	var rootNames []string
	for _, f := range tr.files {
		if strings.HasSuffix(f.path, ".go") || strings.HasSuffix(f.path, ".sql") {
			found = append(found, lineSizes(f)...)
		}
		if f.syntax == nil {
			continue
		}
		found = append(found, declSizes(tr, f)...)
		if f.dir() == rootRoom && !f.test() {
			for _, d := range declared(f) {
				if d.topLevel {
					rootNames = append(rootNames, d.name)
				}
			}
		}
	}
	if n := len(rootNames); n > maxRootNames {
		found = append(found, finding{"go.mod", 1, "root", fmt.Sprintf(
			"the root package exports %d names, at most %d: unexport one or move it to its own room", n, maxRootNames)})
	}
	return found
}

func lineSizes(f file) []finding {
	var found []finding
	lines := strings.Split(strings.TrimSuffix(f.text, "\n"), "\n")
	if n := len(lines); n > maxFileLines {
		found = append(found, finding{f.path, maxFileLines + 1, "file", fmt.Sprintf(
			"the file has %d lines, at most %d: split it by the nouns it holds", n, maxFileLines)})
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > maxLineCharacters {
			found = append(found, finding{f.path, i + 1, "line", fmt.Sprintf(
				"the line has %d characters, at most %d: break it", n, maxLineCharacters)})
		}
	}
	return found
}

func declSizes(tr *tree, f file) []finding {
	var found []finding
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			if n := tr.line(d.End()) - tr.line(d.Pos()) + 1; n > maxFunctionLines {
				found = append(found, finding{f.path, tr.line(d.Pos()), d.Name.Name, fmt.Sprintf(
					"%s has %d lines, at most %d: give one of its parts a name", d.Name.Name, n, maxFunctionLines)})
			}
		case *ast.TypeSpec:
			if i, ok := d.Type.(*ast.InterfaceType); ok && len(i.Methods.List) > maxInterfaceMethods {
				found = append(found, finding{f.path, tr.line(d.Pos()), d.Name.Name, fmt.Sprintf(
					"interface %s has %d methods, at most %d", d.Name.Name, len(i.Methods.List), maxInterfaceMethods)})
			}
		}
		return true
	})
	return found
}

// formatted checks that gofmt would change nothing.
func formatted(tr *tree) []finding {
	var found []finding
	for _, f := range tr.code() {
		want, err := format.Source([]byte(f.text))
		if err != nil || string(want) != f.text {
			found = append(found, finding{f.path, 1, "gofmt", "is not formatted: run gofmt -w " + f.path})
		}
	}
	return found
}
