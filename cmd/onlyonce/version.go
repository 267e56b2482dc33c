package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

type versionCmd struct {
	JSON bool `name:"json"`
}

func (versionCmd) example() string { return "onlyonce version --json" }

// build is what the Go linker knows of this program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	At       string `json:"commitTime,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built with changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.At = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	parts := []string{"onlyonce " + b.Version}
	if b.Commit != "" {
		commit := b.Commit[:min(len(b.Commit), 12)]
		if b.Modified {
			commit += " and changes"
		}
		parts = append(parts, "commit "+commit+" of "+b.At)
	}
	return strings.Join(append(parts, b.Go, b.Platform), ", ")
}

// Run shows the version.
func (c versionCmd) Run(p *program) error {
	if c.JSON {
		return writeJSON(p.stdout, thisBuild())
	}
	_, err := fmt.Fprintln(p.stdout, thisBuild())
	return err
}
