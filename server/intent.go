package server

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

const (
	// runningAfter is what a client waits before it asks again for what runs or
	// is due to be looked at now.
	runningAfter = time.Second
	// reviewAfter is the same for what a person has to decide.
	reviewAfter = time.Minute
)

// run is one operation of the flow, already told what to do.
type run func(ctx context.Context, in onlyonce.Intent, v httponce.Values, requestID string) (flow.Answer, error)

// intent is one request for something that is done once.
type intent struct {
	onlyonce.Intent
	values httponce.Values
	came   time.Time
	wait   time.Duration // "Prefer: wait"; 0: not asked for
}

// once serves a POST that is done once per key: it reads the intent, runs it,
// waits for its outcome if the client prefers that, and answers.
func (s *Server) once(w http.ResponseWriter, r *http.Request, operation string, object httponce.Object, do run) {
	in, err := s.readIntent(w, r, operation, object)
	if err != nil {
		httponce.FromError(err).Write(w)
		return
	}
	defer s.recoveredIntent(w, r, in.Intent)
	again := func(ctx context.Context) (flow.Answer, error) {
		return do(ctx, in.Intent, in.values, httponce.RequestID(r.Context()))
	}
	a, err := again(r.Context())
	if in.wait > 0 {
		honoured := true
		if open(a, err) {
			a, err, honoured = s.await(r.Context(), in, a, err, again)
		}
		if honoured && known(err) {
			w.Header().Set(httponce.AppliedHeader, httponce.Applied(in.wait))
		}
	}
	s.answer(w, r, a, err)
}

// readIntent decodes a request. Its errors are problems: the request is
// invalid, whatever its key has been used for.
func (s *Server) readIntent(
	w http.ResponseWriter, r *http.Request, operation string, object httponce.Object,
) (intent, error) {
	in := intent{came: s.o.Now()}
	control := http.NewResponseController(w)
	// Not every writer has deadlines; the server's own limits hold then.
	_ = control.SetReadDeadline(in.came.Add(s.bodyTimeout))
	raw, err := httponce.ReadBody(w, r, s.o.MaxBody)
	if err != nil {
		return in, err // with the deadline on: what is left of the body must not hold the connection
	}
	_ = control.SetReadDeadline(time.Time{})
	name, err := httponce.ParseKey(r.Header)
	if err != nil {
		return in, err
	}
	f := factsOf(r.Context())
	f.key = name
	canonical, err := httponce.Canonical(raw)
	if err != nil {
		return in, err
	}
	if in.values, err = object.Decode(canonical); err != nil {
		return in, err
	}
	in.Intent = onlyonce.Intent{
		Key:         onlyonce.Key{Account: f.account, Name: name},
		Operation:   operation,
		Fingerprint: httponce.Fingerprint(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, canonical),
	}
	in.wait, _ = httponce.Wait(r.Header)
	return in, nil
}

// open reports whether the answer may still become another one by itself: the
// key is running, or its outcome is not known yet.
func open(a flow.Answer, err error) bool {
	return a.Payment != nil || a.Refund != nil || errors.Is(err, onlyonce.ErrInFlight)
}

// known reports whether it is known how the key stands. It is not when the
// store could not be asked.
func known(err error) bool {
	var key *flow.KeyError
	return err == nil || errors.As(err, &key) || errors.Is(err, flow.ErrUnsupported) || errors.Is(err, flow.ErrElsewhere)
}

// await waits for the outcome, N seconds after the request came at the latest,
// and returns the last answer that it saw, and whether there was room to wait.
// A key that has become free meanwhile, or whose owner is gone, is this
// request's to run.
func (s *Server) await(
	ctx context.Context, in intent, a flow.Answer, err error, again func(context.Context) (flow.Answer, error),
) (flow.Answer, error, bool) {
	ctx, cancel := context.WithTimeout(ctx, in.wait-s.o.Now().Sub(in.came))
	defer cancel()
	honoured, _ := s.o.Waiters.Wait(ctx, in.Key, func(ctx context.Context) (bool, error) {
		latest, _, lookErr := s.o.Flow.Look(ctx, in.Intent)
		if lookErr == nil && latest == (flow.Answer{}) {
			latest, lookErr = again(ctx)
		}
		if !known(lookErr) {
			return false, nil // the store is away: what was answered before still holds, and it may come back
		}
		a, err = latest, lookErr
		return !open(a, err), nil
	})
	return a, err, honoured
}

// recoveredIntent answers an intent whose handler panicked. Something may have
// been run, so the key is asked: a 5xx would say that nothing was.
func (s *Server) recoveredIntent(w http.ResponseWriter, r *http.Request, in onlyonce.Intent) {
	p := recover()
	if p == nil {
		return
	}
	if rec, ok := w.(*recorder); p == http.ErrAbortHandler || ok && rec.status != 0 {
		panic(p) // for recovered: the answer is on its way already
	}
	s.logPanic(r.Context(), p)
	a, running, err := s.o.Flow.Look(context.WithoutCancel(r.Context()), in)
	if running && a == (flow.Answer{}) || !known(err) {
		// Its claim stands, or can't be read. Whatever it did, the same key finds it.
		err = onlyonce.ErrInFlight
	}
	s.answer(w, r, a, err)
}

// answer tells the client what its request gets.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a flow.Answer, err error) {
	var key *flow.KeyError
	switch {
	case errors.Is(err, flow.ErrUnsupported):
		httponce.InvalidRequest("The request is valid, but not for this payment provider; nothing was run.",
			httponce.FieldError{Pointer: "/amount", Detail: err.Error()}).Write(w)
	case errors.Is(err, flow.ErrElsewhere):
		httponce.InvalidRequest("This payment was charged at another provider account than the one that this server uses " +
			"now, and can be refunded only there. Nothing was run.").Write(w)
	case errors.As(err, &key):
		problemOfKey(key.Record, key.Err).Write(w)
	case errors.Is(err, onlyonce.ErrInFlight): // from recoveredIntent
		httponce.FromError(err).Write(w)
	case err != nil:
		s.unavailable(w, r, "run the intent", err)
	case a.Outcome != nil:
		s.writeOutcome(w, r, a)
	case a.Payment != nil:
		s.accept(w, paymentPath(a.Payment.ID), a.Payment.State, a.Payment.NextCheckAt, bodyOfPayment(*a.Payment))
	case a.Refund != nil:
		s.accept(w, refundPath(a.Refund.ID), a.Refund.State, a.Refund.NextCheckAt, bodyOfRefund(*a.Refund))
	case a.Refusal != nil:
		refused(*a.Refusal).Write(w)
	default:
		// Nothing stands under the key: what was begun has been rolled back.
		httponce.Unavailable(panicAfter).Write(w)
	}
}

// problemOfKey says why the key forbids the request, and names what it made.
func problemOfKey(rec onlyonce.Record, err error) *httponce.Problem {
	p := httponce.FromDecision(rec, err)
	switch payments.KindOf(rec.Resource) {
	case payments.KindPayment:
		p.PaymentID = rec.Resource
	case payments.KindRefund:
		p.RefundID = rec.Resource
	}
	return p
}

// writeOutcome gives the stored outcome back. The request that ran is not a
// replay, even if it waited until another worker had found its outcome.
func (s *Server) writeOutcome(w http.ResponseWriter, r *http.Request, a flow.Answer) {
	var original string
	if ids := a.Outcome.Header[httponce.OriginalHeader]; len(ids) > 0 {
		original = ids[0]
	}
	replayed := a.Replayed && original != httponce.RequestID(r.Context())
	httponce.WriteOutcome(w, *a.Outcome, replayed)
	if !replayed {
		return
	}
	f := factsOf(r.Context())
	f.replayed, f.original = true, original
	if resource := resourceOf(*a.Outcome); resource != "" && s.o.Replays != nil {
		s.o.Replays.Count(f.account, resource)
	}
}

// accept answers that the outcome is not known yet, and when to ask again.
func (s *Server) accept(w http.ResponseWriter, location string, state payments.State, next time.Time, body any) {
	after := runningAfter
	switch {
	case !next.IsZero():
		after = max(runningAfter, next.Sub(s.o.Now()))
	case state == payments.Review:
		after = reviewAfter
	}
	h := w.Header()
	h.Set("Location", location)
	h.Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	write(w, http.StatusAccepted, body)
}

// resourceOf names what an outcome made: an outcome says where it can be read,
// or, if it was declined, which it was.
func resourceOf(o onlyonce.Outcome) string {
	if at := o.Header["Location"]; len(at) > 0 {
		return path.Base(at[0])
	}
	return declinedResource(o)
}
