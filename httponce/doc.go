// Package httponce brings idempotency keys to net/http, after the IETF
// Idempotency-Key draft.
//
// [New] wraps a plain [net/http.Handler] so that it acts once per key,
// whatever happens between it and its client. A server with operations of its
// own builds on the parts: [ParseKey], [ReadBody], [Canonical] and
// [Fingerprint] turn a request into an intent, [Object] reads its body,
// [Waiters] serves "Prefer: wait", [Problem] and [WriteOutcome] answer.
//
// Around a plain handler, with keys in an SQLite file:
//
//	keys, err := sqlstore.Open(ctx, "sqlite:keys.db", sqlstore.Options{})
//	_, err = keys.Migrate(ctx, sqlstore.EngineMigrations())
//	engine, err := onlyonce.New(onlyonce.Options{Store: keys.Store()})
//	once, err := httponce.New(charge, httponce.Options{
//		Engine: engine, Tx: keys, View: keys.View,
//		Account: func(r *http.Request) (string, error) { return customerOf(r), nil },
//	})
//	http.ListenAndServe("127.0.0.1:8080", once)
//
// Beside it runs an onlyonce.Reaper, which ends the retention of old outcomes.
package httponce
