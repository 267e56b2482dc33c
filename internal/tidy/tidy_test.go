package tidy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

const (
	exceptionsFile = "internal/tidy/exceptions.txt"
	repositoryRoot = "../.." // from this package
)

// checks is every rule that is held against the repository. Each has an
// example of the same name in testdata.
var checks = []struct {
	name string
	run  func(*tree) []finding
}{
	{"parses", func(tr *tree) []finding { return tr.broken }},
	{"formatted", formatted},
	{"imports", imports},
	{"rooms", rooms},
	{"size", size},
	{"documented", documented},
	{"clock", clock},
	{"init", noInit},
	{"sql", sqlText},
	{"glossary", glossary},
	{"later", later},
	{"skips", skips},
	{"hosts", hosts},
	{"intent", intent},
	{"paths", paths},
	{"commands", commands},
	{"names", names},
	{"examples", examples},
	{"problems", problems},
}

// TestRepository holds every check against the repository.
func TestRepository(t *testing.T) {
	tr := load(t, os.DirFS(repositoryRoot))
	allowed := exceptions(t, tr)
	for _, check := range checks {
		t.Run(check.name, func(t *testing.T) {
			for _, f := range allowed.filter(check.name, check.run(tr)) {
				t.Error(f)
			}
		})
	}
}

// TestChecksCanFail plays every check's bad example and compares what it finds,
// line by line, with the section "want" of the example.
func TestChecksCanFail(t *testing.T) {
	for _, check := range checks {
		t.Run(check.name, func(t *testing.T) {
			archive, err := txtar.ParseFile(filepath.Join("testdata", check.name+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			root, err := txtar.FS(archive)
			if err != nil {
				t.Fatal(err)
			}
			tr := load(t, root)
			want, _ := tr.file("want")
			tr.files = slices.DeleteFunc(tr.files, func(f file) bool { return f.path == "want" })
			var got []string
			for _, f := range exceptions(t, tr).filter(check.name, check.run(tr)) {
				got = append(got, f.String())
			}
			if len(got) == 0 {
				t.Error("nothing was found in the bad example")
			}
			if text := strings.Join(got, "\n"); text != strings.TrimSpace(want.text) {
				t.Errorf("found:\n%s\nwant:\n%s", text, want.text)
			}
		})
	}
}

type exception struct {
	check, file, subject string
	line                 int
}

type exceptionList []exception

// exceptions reads the list. Each must say why it may stay.
func exceptions(t *testing.T, tr *tree) exceptionList {
	t.Helper()
	f, ok := tr.file(exceptionsFile)
	if !ok {
		return nil
	}
	var list exceptionList
	for i, line := range f.lines() {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(words) < 4 {
			t.Fatalf("%s:%d: an exception is: check file subject why", exceptionsFile, i+1)
		}
		list = append(list, exception{words[0], words[1], words[2], i + 1})
	}
	return list
}

// filter takes away what is excepted and adds the exceptions that nothing
// needs any more.
func (l exceptionList) filter(check string, found []finding) []finding {
	var rest []finding
	used := map[int]bool{}
	for _, f := range found {
		i := slices.IndexFunc(l, func(e exception) bool {
			return e.check == check && e.file == f.file && e.subject == f.subject
		})
		if i >= 0 {
			used[i] = true
			continue
		}
		rest = append(rest, f)
	}
	for i, e := range l {
		if e.check == check && !used[i] {
			rest = append(rest, finding{exceptionsFile, e.line, e.subject,
				"nothing needs this exception any more: delete the line"})
		}
	}
	return rest
}
