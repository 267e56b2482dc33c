// Package httponce brings idempotency keys to net/http, after the IETF
// Idempotency-Key draft.
//
// [New] wraps a plain [net/http.Handler] so that it acts once per key,
// whatever happens between it and its client. A server with operations of its
// own builds on the parts: [ParseKey], [ReadBody], [Canonical] and
// [Fingerprint] turn a request into an intent, [Object] reads its body,
// [Waiters] serves "Prefer: wait", [Problem] and [WriteOutcome] answer.
package httponce
