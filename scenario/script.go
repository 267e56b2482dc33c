package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The words by which a scenario file calls engines.
const (
	wordSQLite   = "sqlite"
	wordPostgres = "postgres"
	wordMySQL    = "mysql" // the whole family
	wordMariaDB  = "mariadb"
	wordGalera   = "galera" // a cluster of MariaDB servers
)

func engineWords() []string {
	return []string{wordSQLite, wordPostgres, wordMySQL, wordMariaDB, wordGalera}
}

// tablePrefix is what the name of every table of a scenario begins with, so
// that none takes the place of somebody else's.
const tablePrefix = "scn_"

// Script is a scenario file that was read.
type Script struct {
	// Name is the file's name without the folder and ".txt".
	Name string
	// Title is the comment in the file's first line, and About what the comment
	// goes on with.
	Title, About string
	// Engines are the words for the engines that it plays on; empty: all.
	Engines []string

	file     string
	seats    []seat
	words    []word
	setup    []command
	sections []section
}

// seat is a session that was declared.
type seat struct {
	name      string
	node      int    // which of the databases, from 1
	parameter string // of the connection, NAME=VALUE; empty: none
}

// word stands in braces for a piece of SQL that engines write differently.
type word struct {
	name string
	on   []string
	text string
}

// command is a statement and where it stands.
type command struct {
	number int
	text   string
}

// section is one story; each begins with new tables.
type section struct {
	title   string
	number  int
	engines []string
	lines   []line
}

// Parse reads a scenario. file is the name that its errors begin with.
func Parse(file, text string) (*Script, error) {
	name := file[strings.LastIndexAny(file, `/\`)+1:]
	s := &Script{Name: strings.TrimSuffix(name, ".txt"), file: file}
	about, blocks := split(text)
	if len(about) > 0 {
		s.Title, s.About = about[0], strings.Join(about[1:], " ")
	}
	for _, b := range blocks {
		if err := s.add(b); err != nil {
			return nil, err
		}
	}
	return s, s.check()
}

// block is a line that begins at the left margin, and the indented ones that
// belong to it.
type block struct {
	number int
	head   string
	rest   []command
}

// split cuts a file into blocks, and takes off the comment that it begins with.
func split(text string) (about []string, blocks []block) {
	number, begun := 0, false
	for raw := range strings.Lines(text) {
		number++
		s := strings.TrimSpace(raw)
		comment, isComment := strings.CutPrefix(s, "#")
		begun = begun || !isComment
		indented := raw[0] == ' ' || raw[0] == '\t'
		switch {
		case !begun:
			about = append(about, strings.TrimSpace(comment))
		case s == "", isComment && indented:
		case indented && len(blocks) > 0:
			b := &blocks[len(blocks)-1]
			b.rest = append(b.rest, command{number, s})
		default:
			blocks = append(blocks, block{number: number, head: s})
		}
	}
	return about, blocks
}

// wrong says what is wrong with a line, and what to do.
func (s *Script) wrong(number int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", s.file, number, fmt.Sprintf(format, args...))
}

// add takes in one block.
func (s *Script) add(b block) error {
	head, value, colon := strings.Cut(b.head, ":")
	value = strings.TrimSpace(value)
	inSection := len(s.sections) > 0
	switch {
	case strings.HasPrefix(b.head, "=="):
		title := strings.TrimSpace(strings.TrimLeft(b.head, "="))
		if title == "" {
			return s.wrong(b.number, `a section needs a title: write "== what happens in it"`)
		}
		s.sections = append(s.sections, section{title: title, number: b.number})
	case strings.HasPrefix(b.head, "#"):
		if inSection {
			last := &s.sections[len(s.sections)-1]
			text := strings.TrimSpace(strings.TrimPrefix(b.head, "#"))
			last.lines = append(last.lines, line{number: b.number, comment: text})
		}
	case !colon && slices.Contains([]string{"engines", "sessions", "setup"}, head):
		return s.wrong(b.number, `the colon is missing: write "%s:"`, head)
	case head == "engines":
		return s.addEngines(b, value)
	case strings.HasPrefix(b.head, "let ") || head == "sessions" || head == "setup":
		if inSection {
			return s.wrong(b.number, "%q holds for the whole file: move it above the first \"==\"", b.head)
		}
		return s.addHeader(b, head, value)
	case !inSection:
		return s.wrong(b.number, `%q stands before the first section: write "== what happens" above it, `+
			`or begin it with one of engines:, sessions:, setup: and let`, b.head)
	default:
		l, err := s.parseLine(b)
		last := &s.sections[len(s.sections)-1]
		last.lines = append(last.lines, l)
		return err
	}
	return s.alone(b)
}

// alone refuses indented lines where nothing can go on.
func (s *Script) alone(b block) error {
	if len(b.rest) > 0 {
		return s.wrong(b.rest[0].number, "%q is indented, so it would go on with %q, which has one line: "+
			"begin it at the left margin", b.rest[0].text, b.head)
	}
	return nil
}

func (s *Script) addEngines(b block, value string) error {
	list, err := s.engineList(b.number, value)
	if err != nil {
		return err
	}
	if value == "all" {
		list = nil
	}
	if n := len(s.sections); n > 0 {
		s.sections[n-1].engines = list
	} else {
		s.Engines = list
	}
	return s.alone(b)
}

// engineList reads "sqlite, postgres".
func (s *Script) engineList(number int, text string) ([]string, error) {
	var list []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(append(engineWords(), "all"), name) {
			return nil, s.wrong(number, "there is no engine %q: say all, or some of %s", name, strings.Join(engineWords(), ", "))
		}
		list = append(list, name)
	}
	return list, nil
}

func (s *Script) addHeader(b block, head, value string) error {
	switch head {
	case "setup":
		if value != "" {
			return s.wrong(b.number, "the statements of setup: stand below it, indented: begin a new line before %q", value)
		}
		s.setup = append(s.setup, statementsOf(b.rest)...)
		return nil
	case "sessions":
		if err := s.addSeats(b.number, value); err != nil {
			return err
		}
	default:
		if err := s.addWord(b); err != nil {
			return err
		}
	}
	return s.alone(b)
}

// statementsOf joins lines to statements, which end with a semicolon.
func statementsOf(lines []command) []command {
	var found []command
	open := false
	for _, l := range lines {
		text, ended := strings.CutSuffix(l.text, ";")
		if open {
			found[len(found)-1].text += "\n" + text
		} else {
			found = append(found, command{l.number, text})
		}
		open = !ended
	}
	return found
}

var seatText = regexp.MustCompile(`^([A-Z]\w*)(?: at ([1-9]))?(?: with (\w+=\S+))?$`)

func (s *Script) addSeats(number int, value string) error {
	for text := range strings.SplitSeq(value, ",") {
		m := seatText.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			return s.wrong(number, "%q is no session: write a name that begins with a capital letter, and behind it, "+
				`if needed, "at 2" for the second database or "with NAME=VALUE" for a parameter of its connection`, text)
		}
		node, _ := strconv.Atoi(m[2]) // one digit, or nothing
		s.seats = append(s.seats, seat{m[1], max(node, 1), m[3]})
	}
	return nil
}

var wordText = regexp.MustCompile(`^let ([a-z][a-z-]*)(?: on ([a-z, ]+?))? = (.+)$`)

func (s *Script) addWord(b block) (err error) {
	m := wordText.FindStringSubmatch(b.head)
	if m == nil {
		return s.wrong(b.number, `write "let name = SQL" or "let name on sqlite, postgres = SQL"; {name} then stands for it`)
	}
	w := word{name: m[1], text: m[3]}
	if m[2] != "" {
		if w.on, err = s.engineList(b.number, m[2]); err != nil {
			return err
		}
	}
	s.words = append(s.words, w)
	return nil
}
