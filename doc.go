// Package onlyonce makes an effect happen once per intent, however often the
// request for it comes.
//
// A client names an intent with an idempotency key. The engine in this package
// decides what each request with that key gets: the right to do the work (a
// [Claim]), the stored result of work that is finished (an [Outcome]), or an
// error whose comment says what the caller does next. It never begins, commits
// or rolls back a transaction: it works inside one that its caller owns,
// through the two methods of [Tx].
//
// # Life of a key
//
//	absent ──claim──▶ in_progress ──finish──▶ completed ──retention──▶ tombstone ──▶ absent
//	            ▲          │  │
//	            │          │  └─ lease lapsed: another may take over (attempt + 1, new owner token)
//	            └─release──┘  only while nothing was sent outside and nothing committed
//
// Effects inside the caller's own database go through sqlstore.Do, which puts
// claim, effect and outcome into one transaction. Effects outside it commit
// the claim first ([Engine.Begin], then [Engine.Advance] to [Dispatched]), act
// with no transaction open, and commit the outcome afterwards
// ([Engine.Finish]). What was dispatched and not proved is [Unknown], and
// stays so until there is proof.
package onlyonce
