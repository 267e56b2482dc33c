package scenario_test

import (
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/scenario"
)

func TestParseErrorsNameThePlaceAndTheCure(t *testing.T) {
	const begin = "== x\n"
	for _, c := range []struct{ text, want string }{
		{"", `1: nothing happens in it: write "== what happens"`},
		{"A: SELECT 1", `1: "A: SELECT 1" stands before the first section: write "== what happens" above`},
		{"==", `1: a section needs a title`},
		{begin + "a: SELECT 1", `2: "a: SELECT 1" is no step: write "A: SQL"`},
		{begin + "A jumps", `2: "jumps" is nothing that a session can do: write "A: SQL"`},
		{begin + "A:", `2: the statement is missing: write it behind the colon`},
		{begin + "A do k what:", `2: the effect is missing: write the statement`},
		{begin + "A do k: SELECT 1", `2: "do k: SELECT 1" is nothing that a session can do`},
		{begin + "A goes on\n  SELECT 1", `3: "SELECT 1" goes on with "A goes on", which has no statement`},
		{begin + "A: SELECT 1\n  ->", `3: there is an arrow and no result: write one`},
		{begin + "A: SELECT 1\n  -> 1 rwo", `3: "1 rwo" is no result: write "1 row"`},
		{begin + "A: SELECT 1\n  -> error sad", `3: "error sad" is no result`},
		{begin + "A: SELECT 1\n  -> a | b\n  1", `4: the table has 2 columns above and 1 here: put one |`},
		{begin + "A: SELECT 1\n  -> on dbase: ok",
			`3: there is no engine "dbase": say all, or some of sqlite, postgres`},
		{begin + "A on dbase: SELECT 1", `2: there is no engine "dbase": say all`},
		{begin + "engines: dbase", `2: there is no engine "dbase": say all`},
		{begin + "setup:", `2: "setup:" holds for the whole file: move it above the first "=="`},
		{begin + "A, B: SELECT 1",
			`2: several sessions at once can only be collected: write "A, B -> in any order: …"`},
		{begin + "A, B -> 1 row", `2: several sessions at once can only be collected`},
		{begin + "A, B -> in any order: 1 row", `2: there are 2 sessions and 1 results: write one for each`},
		{begin + "A -> in any order: 1 row", `2: "in any order:" is for several sessions: name them`},
		{begin + "A: SELECT {x}", `2: {x} stands for nothing: write "let x = SQL" above`},
		{begin + "A: CREATE TABLE t (a INT)", `2: the table t could be somebody else's: call it scn_t`},
		{"setup:\n  CREATE TABLE t (a INT)", `1: nothing happens in it`},
		{"setup: SELECT 1\n" + begin, `1: the statements of setup: stand below it, indented`},
		{"setup\n  SELECT 1\n" + begin, `1: the colon is missing: write "setup:"`},
		{"engines\n" + begin, `1: the colon is missing: write "engines:"`},
		{"let x SELECT\n" + begin, `1: write "let name = SQL"`},
		{"let x on dbase = SELECT\n" + begin, `1: there is no engine "dbase"`},
		{"engines: all\n  sqlite\n" + begin,
			`2: "sqlite" is indented, so it would go on with "engines: all", which has one line`},
		{"sessions: a\n" + begin, `1: "a" is no session: write a name that begins with a capital letter`},
		{"sessions: A\n" + begin + "B: SELECT 1", `3: session B is not among those of sessions: add it there`},
		{"# title\nB: SELECT 1", `2: "B: SELECT 1" stands before the first section`},
	} {
		_, err := scenario.Parse("dir/f.txt", c.text)
		if err == nil {
			t.Errorf("%q is taken for a scenario", c.text)
		} else if !strings.HasPrefix(err.Error(), "dir/f.txt:"+c.want) {
			t.Errorf("%q: %v\nwant dir/f.txt:%s", c.text, err, c.want)
		}
	}
}

func TestParseReadsTheHead(t *testing.T) {
	s := parse(t, "some/where/mine.txt",
		"# A title.\n# More of it,\n# and more.\n\n# no part of it\nengines: sqlite, mysql\n== x\n")
	if s.Name != "mine" || s.Title != "A title." || s.About != "More of it, and more." ||
		strings.Join(s.Engines, " ") != "sqlite mysql" {
		t.Errorf("%+v", s)
	}
}

// Each file that comes with the program has a title, and says what it shows.
func TestBuiltInFilesSayWhatTheyShow(t *testing.T) {
	for _, s := range builtIn(t) {
		if s.Title == "" || s.About == "" || !strings.HasSuffix(s.Title, ".") {
			t.Errorf("%s: title %q, about %q", s.Name, s.Title, s.About)
		}
	}
}
