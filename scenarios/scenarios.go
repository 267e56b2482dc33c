// Package scenarios holds the scenario files that come with the program:
// stories of two or more sessions that charge a wallet, right and wrong. See
// docs/guide/scenarios.md.
package scenarios

import "embed"

// Files are the scenario files, NAME.txt.
//
//go:embed *.txt
var Files embed.FS
