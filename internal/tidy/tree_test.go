package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxTextBytes bounds what counts as a text of this repository; a larger file
// is data and is left alone.
const maxTextBytes = 1 << 20

// file is one text file of the repository. syntax is nil unless it is Go.
type file struct {
	path   string // with slashes, from the repository's root
	text   string
	syntax *ast.File
}

func (f file) dir() string     { return path.Dir(f.path) }
func (f file) test() bool      { return strings.HasSuffix(f.path, "_test.go") }
func (f file) page() bool      { return strings.HasSuffix(f.path, ".md") }
func (f file) lines() []string { return strings.Split(f.text, "\n") }

// tree is the repository, or an example of one.
type tree struct {
	module string
	fset   *token.FileSet
	files  []file
	dirs   map[string]bool // every folder, "." included
	broken []finding       // files that could not be parsed
}

// finding is one fault. subject is what an exception names.
type finding struct {
	file    string
	line    int
	subject string
	text    string // what is wrong and what to do
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text) }

// load reads the text files of a repository. Test data and hidden folders are
// not its own text; .ci is.
func load(t *testing.T, root fs.FS) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet(), dirs: map[string]bool{}}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			hidden := base != "." && base != ".ci" && strings.HasPrefix(base, ".")
			tr.dirs[name] = !hidden
			if hidden || base == "testdata" || base == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		return tr.add(root, name)
	})
	if err != nil {
		t.Fatal(err)
	}
	mod, ok := tr.file("go.mod")
	if !ok {
		t.Fatal("there is no go.mod at the root")
	}
	tr.module = strings.TrimPrefix(mod.lines()[0], "module ")
	return tr
}

func (tr *tree) add(root fs.FS, name string) error {
	raw, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	if len(raw) > maxTextBytes || bytes.IndexByte(raw, 0) >= 0 {
		return nil
	}
	f := file{path: name, text: string(raw)}
	if strings.HasSuffix(name, ".go") {
		f.syntax, err = parser.ParseFile(tr.fset, name, raw, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			tr.broken = append(tr.broken, finding{name, 1, "", "does not parse: " + err.Error()})
			f.syntax = nil
		}
	}
	tr.files = append(tr.files, f)
	return nil
}

func (tr *tree) file(name string) (file, bool) {
	i := slices.IndexFunc(tr.files, func(f file) bool { return f.path == name })
	if i < 0 {
		return file{}, false
	}
	return tr.files[i], true
}

// exists reports whether a path, or a pattern of one, is in the repository.
func (tr *tree) exists(name string) bool {
	name = path.Clean(name)
	if tr.dirs[name] {
		return true
	}
	return slices.ContainsFunc(tr.files, func(f file) bool {
		ok, err := path.Match(name, f.path)
		return ok && err == nil
	})
}

// code returns the Go files that could be parsed.
func (tr *tree) code() []file {
	return slices.DeleteFunc(slices.Clone(tr.files), func(f file) bool { return f.syntax == nil })
}

func (tr *tree) pages() []file {
	return slices.DeleteFunc(slices.Clone(tr.files), func(f file) bool { return !f.page() })
}

func (tr *tree) line(pos token.Pos) int { return tr.fset.Position(pos).Line }
