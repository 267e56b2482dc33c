// Package engines hands real databases to the tests of all other packages: a
// fresh one per test, on every engine that is up.
//
// The servers are started once for a whole run, by the command in with/, which
// tells the tests through a file. Without it SQLite alone is up, and that is
// said loudly.
package engines
