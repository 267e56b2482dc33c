//go:build race

package integration_test

// The race detector makes the tests' own look into database files some thirty
// times slower, and with ONLYONCE_TEST_RACE the program as well.
const (
	slowness = 4
	keptKeys = 10_000
)
