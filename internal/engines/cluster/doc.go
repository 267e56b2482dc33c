// Package cluster brings up small clusters on loopback for tests that kill,
// cut off and promote servers: Galera with three nodes, and a PostgreSQL
// primary with a synchronous standby.
//
// A cluster takes seconds and much memory, so its tests run only when
// ONLYONCE_CLUSTERS is 1; see Main.
package cluster
