package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
)

const problemsPage = "docs/reference/problems.md"

// problems holds the page of problems against the types that the code can
// send, because each type is a link to a heading there.
func problems(tr *tree) []finding {
	page, _ := tr.file(problemsPage)
	headings := anchors(page)
	var found []finding
	for _, f := range tr.code() {
		if f.test() {
			continue
		}
		within(f, func(function string, n ast.Node) {
			name, ok := problemType(n)
			if ok && !slices.Contains(headings, name) {
				found = append(found, finding{f.path, tr.line(n.Pos()), name, fmt.Sprintf(
					"the problem %q links to a heading that %s lacks: add ## %s", name, problemsPage, name)})
			}
		})
	}
	return found
}

// problemType returns the Type of a literal Problem{Type: "..."}.
func problemType(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.CompositeLit)
	if !ok || lit.Type == nil {
		return "", false
	}
	if typ, ok := lit.Type.(*ast.Ident); !ok || typ.Name != "Problem" {
		return "", false
	}
	for _, e := range lit.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		value, isLit := pair.Value.(*ast.BasicLit)
		if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Type" && isLit {
			name, err := strconv.Unquote(value.Value)
			return name, err == nil
		}
	}
	return "", false
}
