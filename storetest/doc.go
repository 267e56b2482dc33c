// Package storetest holds every store of keys to the contract of
// onlyonce.Store. [Run] plays it against a real database: scenarios with
// several sessions, written as text in the folder scenarios, and tests in Go
// for what a table can't say. [Faulty] makes any statement of a transaction
// fail, for tests that crash everywhere.
//
// # Scenarios
//
// A file holds scenarios, each under a line "== name". A line is
//
//	SESSION VERB ARGUMENTS -> RESULT
//
// A session is a worker with a name, which is also its owner token. Between
// "begin" and "commit" or "rollback" its verbs share a transaction; elsewhere
// each verb has one of its own. The words of RESULT must all be among the words
// of the real result, and the first must be its first; those of due must be
// all of them. The result "waits" says that the verb does not return yet; a
// later line "SESSION -> RESULT" says what it returns in the end. The verbs are
// those of the store (claim, takeover, advance, finish, release, load, reap,
// due) and two of the engine (request, which is Begin, and look). "clock +31s"
// moves the database's clock.
package storetest
