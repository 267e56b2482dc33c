package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// helpColumns is how wide help is wrapped: it fits a plain terminal beside
// anything else.
const helpColumns = 100

// errHelpShown ends the parsing once help was printed.
var errHelpShown = errors.New("help was shown")

// helpFlag prints the help of the command it stands behind. It takes the place
// of kong's own, which can only be stopped by ending the process.
type helpFlag bool

// IgnoreDefault makes kong treat the flag as a switch.
func (helpFlag) IgnoreDefault() {}

// BeforeReset runs as soon as the flag is seen, before anything is checked.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	err := printHelp(ctx)
	if err != nil {
		return err
	}
	return errHelpShown
}

// exampler is a command whose help ends with an example.
type exampler interface{ example() string }

func printHelp(ctx *kong.Context) error {
	err := kong.DefaultHelpPrinter(kong.HelpOptions{
		Compact:        true,
		WrapUpperBound: helpColumns,
		FlagsLast:      ctx.Selected() == nil,
		ValueFormatter: describeValue,
	}, ctx)
	if err != nil {
		return err
	}
	node := ctx.Selected()
	if node == nil {
		_, err = fmt.Fprint(ctx.Stdout, "\n`onlyonce COMMAND --help` explains a command and shows an example.\n",
			exampleText("onlyonce demo\nonlyonce serve"))
		return err
	}
	if node.Target.CanAddr() {
		if e, ok := node.Target.Addr().Interface().(exampler); ok {
			_, err = fmt.Fprint(ctx.Stdout, exampleText(e.example()))
		}
	}
	return err
}

func exampleText(lines string) string {
	var b strings.Builder
	b.WriteString("\nExample:\n")
	for line := range strings.Lines(lines) {
		b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// describeValue writes a flag's help: what it means, its default, and the
// environment variable that sets it too.
func describeValue(v *kong.Value) string {
	text := v.Help
	if text == "" {
		text = flagHelp[v.Name]
	}
	if v.HasDefault && v.Default != "" && !v.IsBool() {
		text += " Default: " + v.Default + "."
	}
	if name := v.Tag.Get("from"); name != "" {
		text += " ($" + name + ")"
	}
	return text
}

// helpHint says where the help for a refused command line is.
func helpHint(err error) string {
	var parse *kong.ParseError
	command := ""
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		command = " " + parse.Context.Selected().Path()
	}
	return fmt.Sprintf(" (see onlyonce%s --help)", command)
}
