// Package scenario plays short stories of two or more sessions on a real
// database, as a test and to teach: what each session says, what the database
// answers, and who waits for whom.
//
// A scenario is a text file that can be read aloud; docs/guide/scenarios.md
// describes the format. Parse reads one, Play plays it and tells every step to
// a listener. A wait is never assumed from the time that has passed: the
// database is asked who waits for a lock. Errors have the same names on every
// engine, with the engine's own words beside them.
package scenario
