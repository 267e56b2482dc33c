package httponce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

const (
	defaultMaxBody     = 1 << 20
	defaultMaxResponse = 1 << 20 // what an outcome may hold

	// operation is what the keys of this handler are bound to, besides their
	// fingerprints: keys that other code made in the same store never answer here.
	operation = "http"
)

// Options configure a [Handler]. Engine, Tx and Account are required; the zero
// value of the rest is its documented default.
type Options struct {
	Engine *onlyonce.Engine
	Tx     onlyonce.Transactor
	// View runs a function on a snapshot that it only reads. With it a replay
	// takes no write lock, and a new key costs one read more. Default: none.
	View func(ctx context.Context, work func(ctx context.Context, tx onlyonce.Tx) error) error

	// Account says whose request it is, 1 to 64 bytes; "" is answered 401. An
	// error is answered as the *[Problem] inside it, else 503. A service with one
	// customer returns a constant.
	Account func(r *http.Request) (string, error)

	// Optional lets a request without the header Idempotency-Key through, with
	// no record. An empty header is refused all the same.
	Optional bool

	// Rerunnable declares that running the handler again is harmless, because
	// what it calls is idempotent itself. What is left unproved then runs again
	// on the next retry.
	Rerunnable bool

	// Resolve finds out what became of an attempt that left no proof, for
	// example by asking the provider for rec.Key. It returns the outcome to
	// store; [ErrNothingDone] if it is proved that nothing happened, and the
	// handler runs again; any other error while it is not known, and it is asked
	// again by the next request. Default: not known, for good.
	Resolve func(ctx context.Context, rec onlyonce.Record) (onlyonce.Outcome, error)

	MaxBody     int64 // bytes of a request's body; default 1 MiB
	MaxResponse int   // bytes of an answer's body that are kept; default and at most 1 MiB

	Waiters *Waiters     // who serves "Prefer: wait"; default: one of its own
	Log     *slog.Logger // default slog.Default()
}

// ErrNothingDone is what [Options].Resolve returns when it is proved that the
// effect has not happened: the handler runs again under the same key.
var ErrNothingDone = errors.New("it is proved that nothing was done")

// Handler makes a plain handler act once per idempotency key. Its effect is
// outside the key's transaction, so the key is claimed and committed before
// the handler runs, and the answer is stored before its first byte goes out.
//
// The first client gets the answer as the handler wrote it. Replays leave out
// the headers that belong to one moment or session (Set-Cookie, Date, rate
// limits): see onlyonce.Outcome.Storable.
//
// The handler runs on a context that outlives the client and ends with the
// lease. Its answer decides what becomes of the key:
//
//   - 500 and above, 408, 425, 429, or a panic: nothing is proved. The key
//     becomes unknown: it is not run again, and later requests get 409
//     unresolved, or what Options.Resolve proves. A 503 of http.TimeoutHandler
//     inside is such an answer, because what it gave up on goes on.
//   - Any other status is the key's last word, errors such as 400 and 404 too,
//     because a status says nothing about what the handler did before it.
//   - A handler that knows that it did nothing says so with [NothingDone]: then
//     any status of 400 and above, or a panic, frees the key, and the same key
//     can be sent again, corrected or not.
//   - With Options.Rerunnable 400, 401, 404, 413, 415 and all of the first row
//     free the key by themselves.
//
// An answer larger than Options.MaxResponse is replaced, for the first client
// too, by the same status and Location with a small JSON body that has
// "detail" and "omittedBytes". Trailers and 1xx answers are dropped. GET, HEAD,
// OPTIONS and TRACE pass through untouched.
//
// JSON bodies are compared in canonical form, so a body that is not strict
// JSON is 400 before any claim; bodies of other types are compared byte for
// byte, and a multipart client must repeat its boundary.
type Handler struct {
	next http.Handler
	o    Options
}

// New wraps next, or returns an error that names the option that is missing or
// contradictory.
func New(next http.Handler, o Options) (*Handler, error) {
	switch {
	case next == nil:
		return nil, errors.New("httponce: the handler to wrap is nil")
	case o.Engine == nil:
		return nil, errors.New("httponce: Options.Engine is missing")
	case o.Tx == nil:
		return nil, errors.New("httponce: Options.Tx is missing; it must reach the database of the engine's store")
	case o.Account == nil:
		return nil, errors.New("httponce: Options.Account is missing: without it one customer's key could answer " +
			"for another's; a service with one customer returns a constant")
	case o.Rerunnable && o.Resolve != nil:
		return nil, errors.New("httponce: Options.Resolve is never asked when Rerunnable is set; leave one of them out")
	case o.MaxBody < 0 || o.MaxResponse < 0 || o.MaxResponse > defaultMaxResponse:
		return nil, fmt.Errorf("httponce: Options.MaxBody must be positive and MaxResponse from 1 to %d",
			defaultMaxResponse)
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = defaultMaxResponse
	}
	if o.Waiters == nil {
		o.Waiters = &Waiters{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Handler{next, o}, nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if safe(r.Method) || h.o.Optional && len(r.Header.Values(KeyHeader)) == 0 {
		h.next.ServeHTTP(w, r)
		return
	}
	in, body, err := h.admit(w, r)
	if err != nil {
		h.o.Log.InfoContext(r.Context(), "request refused", "request", RequestID(r.Context()), "err", err)
		FromError(err).Write(w)
		return
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil

	a := h.try(w, r, in)
	if d, ok := Wait(r.Header); ok && a.open() && h.wait(r.Context(), d, in) {
		w.Header().Set(AppliedHeader, Applied(d))
		a = h.try(w, r, in)
	}
	if a.problem != nil {
		a.problem.Write(w)
		return
	}
	WriteOutcome(w, a.outcome, a.replayed)
}

// safe reports whether a method asks for no effect (RFC 9110, 9.2.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// admit takes the intent from the request, once: whatever an inner handler
// does to the request later, nothing is computed again.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) (onlyonce.Intent, []byte, error) {
	account, err := h.o.Account(r)
	if err != nil {
		return onlyonce.Intent{}, nil, fmt.Errorf("find the account: %w", err)
	}
	if account == "" {
		return onlyonce.Intent{}, nil, Unauthorized()
	}
	name, err := ParseKey(r.Header)
	if err != nil {
		return onlyonce.Intent{}, nil, err
	}
	key := onlyonce.Key{Account: account, Name: name}
	if err := key.Validate(); err != nil {
		return onlyonce.Intent{}, nil, err
	}
	body, err := readBounded(w, r, h.o.MaxBody)
	if err != nil {
		return onlyonce.Intent{}, nil, err
	}
	fingerprint, err := fingerprintOf(r, body)
	return onlyonce.Intent{Key: key, Operation: operation, Fingerprint: fingerprint}, body, err
}

// fingerprintOf compares JSON by its meaning and everything else byte by byte.
func fingerprintOf(r *http.Request, body []byte) (onlyonce.Fingerprint, error) {
	path := r.URL.EscapedPath()
	if isJSON(r.Header) && len(body) > 0 {
		canonical, err := Canonical(body)
		return Fingerprint(r.Method, path, r.URL.RawQuery, canonical), err
	}
	return onlyonce.NewFingerprint([]byte(r.Method), []byte(path), []byte(r.URL.RawQuery), body,
		[]byte(r.Header.Get("Content-Type"))), nil
}

// wait lets a request stay until its key is no longer open, at most for d, and
// reports whether there was room for it.
func (h *Handler) wait(ctx context.Context, d time.Duration, in onlyonce.Intent) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	honoured, _ := h.o.Waiters.Wait(ctx, in.Key, func(ctx context.Context) (bool, error) {
		_, err := h.look(ctx, in)
		return !errors.Is(err, onlyonce.ErrInFlight) && !errors.Is(err, onlyonce.ErrUnknown), nil
	})
	return honoured
}
