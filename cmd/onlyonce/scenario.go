package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/onlyonce-go/onlyonce/scenario"
	"github.com/onlyonce-go/onlyonce/scenarios"
)

// scenarioCmd plays stories of two or more sessions, to learn what a database
// does and to check that it does so.
type scenarioCmd struct {
	Run  scenarioRunCmd  `cmd:"" help:"Play a scenario on a database, and check each step."`
	List scenarioListCmd `cmd:"" help:"List the scenarios that come with the program."`
}

type scenarioRunCmd struct {
	File string   `arg:"" help:"A scenario file, or the name of one that comes with the program."`
	DB   []string `name:"db" sep:"none" placeholder:"URL" help:"${scenario_db}"`
	Keep bool     `help:"Leave the tables of the last section in the database, to look at them."`
	JSON bool     `name:"json"`
}

// scenarioDBHelp is the help of --db, which means something else than in other
// commands.
const scenarioDBHelp = "Database to play on, an empty one: sqlite:PATH, postgres://USER@HOST/NAME or " +
	"mysql://USER@HOST/NAME. The play makes tables there (scn_… and, to show the library, its own) and removes " +
	"them. If there are such tables that no play made it refuses to begin. May be repeated for the other nodes of a " +
	"cluster. Default: an SQLite file in a temporary folder."

func (scenarioRunCmd) example() string {
	return "onlyonce scenario run charge-and-retry\n" +
		"onlyonce scenario run three-waiters --db mysql://root@127.0.0.1/scratch\n" +
		"onlyonce scenario run ./mine.txt --db postgres://postgres@127.0.0.1/scratch"
}

// Run plays the scenario. It exits 1 if a step went otherwise than expected.
func (c scenarioRunCmd) Run(p *program) (err error) {
	script, err := readScenario(c.File)
	if err != nil {
		return err
	}
	for _, url := range c.DB {
		if err := (storeFlags{DB: url}).check(); err != nil {
			return err
		}
	}
	if len(c.DB) == 0 {
		dir, err := os.MkdirTemp("", "onlyonce-scenario-")
		if err != nil {
			return fmt.Errorf("make a folder for the scenario: %w", err)
		}
		c.DB = []string{"sqlite:" + filepath.Join(dir, "scenario.db")}
		if !c.Keep {
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		}
	}
	out := &scenarioPrinter{to: p.stdout, paint: p.paintFor(p.stdout), script: script}
	watch := out.event
	if c.JSON {
		watch = out.json
	}
	err = script.Play(p.ctx, scenario.Options{URLs: c.DB, Keep: c.Keep, Watch: watch})
	return c.judge(out, err)
}

// judge says how the play ended.
func (c scenarioRunCmd) judge(out *scenarioPrinter, err error) error {
	var unexpected *scenario.Unexpected
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, scenario.ErrEngine), errors.Is(err, scenario.ErrNotOurs):
		return refuse("%v", err)
	case errors.As(err, &unexpected) && err.Error() == unexpected.Error():
		err = errors.Join(finding{err.Error()}, out.end(c.JSON, false))
	case err != nil:
		return fmt.Errorf("--db %s: %w", storeFlags{DB: c.DB[0]}.shown(), err)
	default:
		err = out.end(c.JSON, true)
	}
	if c.Keep && !c.JSON {
		fmt.Fprintf(out.to, "The tables are in %s.\n", storeFlags{DB: c.DB[0]}.shown())
	}
	return err
}

// readScenario reads a built-in scenario by its name, or a file.
func readScenario(name string) (*scenario.Script, error) {
	file := name + ".txt"
	text, err := scenarios.Files.ReadFile(file)
	if err != nil {
		file = name
		text, err = os.ReadFile(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse("there is no scenario and no file %s: `onlyonce scenario list` shows the scenarios", name)
	}
	if err != nil {
		return nil, refuse("the scenario can't be read: %v", err)
	}
	script, err := scenario.Parse(file, string(text))
	if err != nil {
		return nil, refuse("%v", err)
	}
	return script, nil
}

type scenarioListCmd struct {
	JSON bool `name:"json"`
}

func (scenarioListCmd) example() string {
	return "onlyonce scenario list\nonlyonce scenario list --json"
}

// scenarioLine is one scenario as programs read it.
type scenarioLine struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Engines []string `json:"engines"` // empty: all
}

// Run lists the scenarios that come with the program.
func (c scenarioListCmd) Run(p *program) error {
	files, err := fs.Glob(scenarios.Files, "*.txt")
	if err != nil {
		return fmt.Errorf("list the scenarios: %w", err)
	}
	var lines []scenarioLine
	width := 0
	for _, file := range files {
		script, err := readScenario(strings.TrimSuffix(file, ".txt"))
		if err != nil {
			return err
		}
		lines = append(lines, scenarioLine{script.Name, script.Title, append([]string{}, script.Engines...)})
		width = max(width, len(script.Name))
	}
	for _, line := range lines {
		if c.JSON {
			if err := writeJSON(p.stdout, line); err != nil {
				return err
			}
			continue
		}
		on := cmp.Or(strings.Join(line.Engines, ", "), "all")
		fmt.Fprintf(p.stdout, "%s  %s  %s\n", pad(line.Name, width), pad(on, len("postgres")), line.Title)
	}
	return nil
}
