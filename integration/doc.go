// Package integration tests the real program.
package integration
