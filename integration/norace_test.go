//go:build !race

package integration_test

const (
	slowness = 1       // by what the tests' patience is multiplied
	keptKeys = 100_000 // of TestManyKeptKeys
)
