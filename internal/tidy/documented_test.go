package tidy

import (
	"fmt"
	"go/ast"
	"slices"
)

// declaration is an exported name of a file.
type declaration struct {
	name       string // "Engine", "Engine.Begin"
	node       ast.Node
	documented bool
	topLevel   bool
}

// declared lists the exported names of a file: functions, types, constants and
// variables, the methods of exported types, and the methods of interfaces.
func declared(f file) []declaration {
	var found []declaration
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if one, ok := declaredFunc(d); ok {
				found = append(found, one)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				found = append(found, declaredSpec(d, spec)...)
			}
		}
	}
	return found
}

func declaredFunc(d *ast.FuncDecl) (declaration, bool) {
	name := d.Name.Name
	if d.Recv != nil {
		receiver := receiverName(d)
		if !ast.IsExported(receiver) {
			return declaration{}, false
		}
		name = receiver + "." + name
	}
	// The contract of Error is the language's own.
	ok := d.Doc != nil || d.Recv != nil && d.Name.Name == "Error"
	return declaration{name, d, ok, d.Recv == nil}, d.Name.IsExported()
}

func receiverName(d *ast.FuncDecl) string {
	expr := d.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if index, ok := expr.(*ast.IndexExpr); ok {
		expr = index.X
	}
	if id, ok := expr.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func declaredSpec(d *ast.GenDecl, spec ast.Spec) []declaration {
	var found []declaration
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		doc := s.Doc != nil || s.Comment != nil || len(d.Specs) == 1 && d.Doc != nil
		found = append(found, declaration{s.Name.Name, s, doc, true})
		if i, ok := s.Type.(*ast.InterfaceType); ok {
			found = append(found, declaredMethods(s.Name.Name, i)...)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				doc := s.Doc != nil || s.Comment != nil || d.Doc != nil
				found = append(found, declaration{name.Name, s, doc, true})
			}
		}
	}
	return found
}

// declaredMethods lists an interface's methods. When none has a comment the
// interface's own speaks for all of them; when some have, all must.
func declaredMethods(of string, i *ast.InterfaceType) []declaration {
	commented := func(m *ast.Field) bool { return m.Doc != nil || m.Comment != nil }
	together := !slices.ContainsFunc(i.Methods.List, commented)
	var found []declaration
	for _, m := range i.Methods.List {
		for _, name := range m.Names {
			if name.IsExported() {
				found = append(found, declaration{of + "." + name.Name, m, together || commented(m), false})
			}
		}
	}
	return found
}

// documented checks that every package and every exported name says what it
// is. Fields of a struct may be covered by the comment of the struct.
func documented(tr *tree) []finding {
	var found []finding
	packages := map[string]bool{} // folder: its package has a comment
	first := map[string]file{}
	for _, f := range tr.code() {
		if f.test() || ast.IsGenerated(f.syntax) {
			continue
		}
		if _, ok := first[f.dir()]; !ok {
			first[f.dir()] = f
		}
		packages[f.dir()] = packages[f.dir()] || f.syntax.Doc != nil
		for _, d := range declared(f) {
			if !d.documented {
				found = append(found, finding{f.path, tr.line(d.node.Pos()), d.name, fmt.Sprintf(
					"%s has no comment: say its contract, units, errors and what the caller does next", d.name)})
			}
		}
	}
	for _, f := range tr.code() {
		if first[f.dir()].path == f.path && !packages[f.dir()] {
			found = append(found, finding{f.path, 1, "package", fmt.Sprintf(
				"package %s has no comment: say what it is for", f.syntax.Name.Name)})
		}
	}
	return found
}
