// Package integration tests the real program: processes that are started,
// killed, paused and cut off, with real files and real sockets between them.
// What it promises is judged from the outside: by the answers of its API, by
// its database, and above all by the provider's own ledger.
//
// TestMain builds the program once; with ONLYONCE_TEST_RACE=1 it has the race
// detector, which is so slow that -parallel 2 should go with it. Each test has
// a folder, servers and a provider of its own on free loopback ports. A proxy
// between the servers and the provider holds, loses, delays and cuts what goes
// through it, and counts it. Nothing waits a fixed time: a test looks until it
// sees, or until its patience is over.
//
// What hangs on the database runs on SQLite and on the database servers that
// are up (see internal/engines). There each house has a database of its own,
// and a wire may stand between it and the servers that can be cut.
//
// On other systems than Linux the files *_linux_test.go are left out: they stop
// processes and read how much memory these take.
//
// # The map
//
//	kill_test.go      kill -9 at every moment of a payment and of a refund, and in the middle of the
//	                  answer: P1, P2, P3, P4, P6; case 52
//	recover_test.go   the same with the sandbox inside the server; recovery with no client, by another
//	                  server, by `onlyonce sweep`; a provider that dies or never answers; cases 55, 91
//	storm_test.go     many clients while their server is killed again and again
//	many_linux_test.go  three servers on one database, killed and stopped in turns under load
//	cuts_test.go      connections to the database cut at random and at COMMIT; a database that is away
//	crashed_database_test.go  the database server itself killed with kill -9 under load
//	standby_test.go   a replay while COMMIT waits for a standby that is not there
//	pause_linux_test.go  owners paused past their lease, before the send, before the answer, before
//	                  phase 2: nothing is sent or written afterwards; engine rules 4 and 5, case 57
//	herd_test.go      50 requests of one intent, 20 keys for one order, two refunds at once, over one
//	                  and two servers; cases 30, 32, 98a
//	client_gone_test.go  clients that hang up, an ingress that re-sends, a transport that would,
//	                  an impatient user; cases 58, 83, 93
//	retention_test.go retries around the end of retention and of the tombstone; cases 63, 65; P10
//	store_test.go     a store that can't be written to: 503 and no debit without a claim; case 80
//	fates_test.go     every token of the sandbox, for charges and refunds, to the end
//	memory_linux_test.go  bodies of 1 GiB, 100,000 kept keys; case 78
//	start_test.go     what is refused at start; SIGTERM
//	newcomer_test.go  the line that `onlyonce serve` prints, pasted twice; foreign Host names
//
// Case 61, two servers whose clocks differ by two minutes, has no test here:
// all of them read the clock of the one machine that the tests run on. The
// store's own tests move that clock (sqlstore.Options.Skew).
package integration
