package onlyonce

import "errors"

// The errors of this package are conditions; each comment says what the
// caller does next. Test them with errors.Is.
var (
	// ErrInvalidKey: the key can't name an intent. Correct it; no key was read
	// or written.
	ErrInvalidKey = errors.New("invalid idempotency key")

	// ErrMismatch: the key is bound to another request. Never send this request
	// under this key again: it is another intent and needs a new key.
	ErrMismatch = errors.New("idempotency key is bound to another request")

	// ErrInFlight: another attempt holds the claim and its lease has not
	// lapsed. Send the very same request again, with the same key, a little
	// later.
	ErrInFlight = errors.New("another attempt under this key is running")

	// ErrUnknown: the effect was dispatched and its result is not known yet.
	// Send the same request again with the same key to learn the outcome; a
	// new key could do it twice.
	ErrUnknown = errors.New("the outcome under this key is not known yet")

	// ErrExpired: the key was finished and its response is no longer kept. The
	// intent is over: look at the resource that the record names, and use a new
	// key only for a new intent.
	ErrExpired = errors.New("the response under this key has expired")

	// ErrFenced: the claim is no longer ours, another attempt has taken it over
	// or finished it. Nothing was written; answer from the stored record.
	ErrFenced = errors.New("the claim has been taken over")

	// ErrTransactionLost: the transaction no longer holds the claim that it
	// made, so the database has rolled it back behind the caller's back. It
	// must not be committed; run the whole of it again with the same key.
	ErrTransactionLost = errors.New("the transaction no longer holds its claim")

	// ErrCommitUnknown: the COMMIT was sent and its answer was not seen. The
	// work may or may not be durable. Run it again with the same key: the claim
	// itself finds out.
	ErrCommitUnknown = errors.New("the outcome of the commit is unknown")

	// ErrOutcomeTooLarge: the outcome is larger than 1 MiB. Nothing was
	// committed; make the response smaller (return a reference to it).
	ErrOutcomeTooLarge = errors.New("the outcome is too large to be stored")

	// ErrFingerprintVersion: the row was written by a release that computes
	// fingerprints in another way, so whether this is the same request can't be
	// told. Send the same request again once every server runs that release.
	ErrFingerprintVersion = errors.New("the stored fingerprint has a version that this release does not know")
)
