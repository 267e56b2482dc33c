package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/onlyonce-go/onlyonce/scenario"
)

// playFile plays a file on a database.
func playFile(ctx context.Context, name, url string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	script, err := scenario.Parse(name, string(text))
	if err != nil {
		return err
	}
	return script.Play(ctx, scenario.Options{URLs: []string{url}})
}

func Example() {
	dir, err := os.MkdirTemp("", "scenario-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "mine.txt")
	if err := os.WriteFile(name, []byte("== x\nA: SELECT 1 AS one\n   -> one\n      2\n"), 0o600); err != nil {
		panic(err)
	}
	err = playFile(context.Background(), name, "sqlite:"+filepath.Join(dir, "scratch.db"))
	var unexpected *scenario.Unexpected
	if errors.As(err, &unexpected) {
		fmt.Printf("line %d: expected %q, got %q\n", unexpected.Line, unexpected.Want, unexpected.Got)
	}
	// Output: line 3: expected ["one" "2"], got ["one" "1"]
}
