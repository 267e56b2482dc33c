package tidy

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
)

var update = flag.Bool("update", false, "write the generated parts of docs/reference")

// generated is what stands between the marks <!-- generated: NAME --> and
// <!-- end --> of a page.
var generated = []struct {
	page, name string
	make       func(t *testing.T) string
}{
	{"docs/reference/states.md", "key", keyDiagram},
	{"docs/reference/states.md", "payment", func(*testing.T) string { return stateDiagram(payments.KindPayment) }},
	{"docs/reference/states.md", "refund", func(*testing.T) string { return stateDiagram(payments.KindRefund) }},
	{"docs/reference/provider-answers.md", "answers", answerTable},
}

// TestGeneratedPages compares the diagrams and tables with the transition
// tables in the code that they are made from.
func TestGeneratedPages(t *testing.T) {
	for _, g := range generated {
		t.Run(g.name, func(t *testing.T) {
			name := filepath.Join(repositoryRoot, filepath.FromSlash(g.page))
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := between(string(raw), g.name, g.make(t))
			if !ok {
				t.Fatalf("%s: has no part between <!-- generated: %s --> and <!-- end -->", g.page, g.name)
			}
			if want == string(raw) {
				return
			}
			if !*update {
				t.Fatalf("%s: the part %q differs from the code: run go test ./internal/tidy -update", g.page, g.name)
			}
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func between(page, name, text string) (string, bool) {
	mark := fmt.Sprintf("<!-- generated: %s -->\n", name)
	before, rest, ok := strings.Cut(page, mark)
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	return before + mark + text + "<!-- end -->" + after, ok && ended
}

func TestGeneratedPartIsReplaced(t *testing.T) {
	got, ok := between("a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n", "x", "new\n")
	if want := "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb\n"; got != want || !ok {
		t.Errorf("got %q, %v", got, ok)
	}
	if _, ok := between("a\n", "x", "new\n"); ok {
		t.Error("a page without the marks was accepted")
	}
}

// keyMoves names the moves of a key. A move that the engine allows and that
// has no name here fails the test, and the other way round.
var keyMoves = map[[2]onlyonce.Status]string{
	{"", onlyonce.InProgress}:                  "claim",
	{onlyonce.InProgress, onlyonce.InProgress}: "advance, take over",
	{onlyonce.InProgress, onlyonce.Completed}:  "finish",
	{onlyonce.InProgress, ""}:                  "release, when nothing was sent",
	{onlyonce.Completed, onlyonce.Tombstone}:   "the retention is over",
	{onlyonce.Tombstone, ""}:                   "the tombstone's time is over",
}

func keyDiagram(t *testing.T) string {
	statuses := []onlyonce.Status{"", onlyonce.InProgress, onlyonce.Completed, onlyonce.Tombstone}
	var b strings.Builder
	fmt.Fprintf(&b, "%smermaid\nstateDiagram-v2\n", fence)
	for _, from := range statuses {
		for _, to := range statuses {
			label, named := keyMoves[[2]onlyonce.Status{from, to}]
			if named != from.CanBecome(to) {
				t.Errorf("the move of a key from %q to %q: allowed %v, named in keyMoves %v",
					from, to, from.CanBecome(to), named)
			}
			if named {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", absent(string(from)), absent(string(to)), label)
			}
		}
	}
	return b.String() + fence + "\n"
}

// absent is how a diagram writes that there is no row.
func absent(status string) string {
	if status == "" {
		return "[*]"
	}
	return status
}

func stateDiagram(kind payments.Kind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%smermaid\nstateDiagram-v2\n    [*] --> %s: claimed with its key\n", fence, payments.Processing)
	for _, from := range payments.States() {
		for _, to := range payments.States() {
			if moved, err := payments.Move(kind, from, to); moved && err == nil {
				fmt.Fprintf(&b, "    %s --> %s\n", from, to)
			}
		}
	}
	return b.String() + fence + "\n"
}

// answerTable plays every answer on a dispatch sent just now, once when no
// earlier attempt is ambiguous and once when one is.
func answerTable(t *testing.T) string {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	facts := payments.Facts{KeyWindow: 24 * time.Hour, AbsenceGrace: 24 * time.Hour}
	yes := map[bool]string{true: "yes"}
	var b strings.Builder
	b.WriteString("| answer | what was seen | state | after an ambiguous attempt | ")
	b.WriteString("ambiguous | reads only | alarm | event |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, a := range answers(t) {
		sent := payments.Dispatch{FirstSentAt: now}
		after, first := sent.Rule(payments.Answer{Kind: a.kind}, now, facts)
		sent.Ambiguous = true
		_, tainted := sent.Rule(payments.Answer{Kind: a.kind}, now, facts)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", a.kind, a.seen, first.State, tainted.State,
			yes[after.Ambiguous], yes[after.ReadsOnly], yes[first.Alarm], first.Event)
	}
	return b.String()
}

type answer struct {
	kind payments.AnswerKind
	seen string // the constant's comment
}

// answers reads the answers out of the source, so that a new one can't be
// forgotten here.
func answers(t *testing.T) []answer {
	tr := load(t, os.DirFS(repositoryRoot))
	f, ok := tr.file("payments/answer.go")
	if !ok {
		t.Fatal("payments/answer.go is gone: read the answers from where they are now")
	}
	var found []answer
	for _, d := range f.syntax.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if id, ok := value.Type.(*ast.Ident); !ok || id.Name != "AnswerKind" {
				continue
			}
			kind, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, answer{payments.AnswerKind(kind), strings.TrimSpace(value.Comment.Text())})
		}
	}
	if len(found) == 0 {
		t.Fatal("no answers were found")
	}
	return found
}
