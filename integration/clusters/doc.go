// Package clusters holds the tests that kill, cut off and promote the servers
// of real database clusters under load: see make clusters. They count what the
// promises are worth there: no effect twice, and no success that is lost.
package clusters
