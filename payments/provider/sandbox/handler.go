package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxBody = 64 << 10 // bytes of a form
	maxKey  = 255      // characters of an idempotency key, as at Stripe
)

// Handler serves Stripe's paths for payment intents and refunds, and
// GET /sandbox/ledger. Any API key signs in; the ledger needs none.
func (s *Sandbox) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/payment_intents", s.signedIn(s.create(kindPayment)))
	mux.HandleFunc("GET /v1/payment_intents", s.signedIn(s.list(kindPayment)))
	mux.HandleFunc("GET /v1/payment_intents/{id}", s.signedIn(s.get(kindPayment)))
	mux.HandleFunc("POST /v1/refunds", s.signedIn(s.create(kindRefund)))
	mux.HandleFunc("GET /v1/refunds", s.signedIn(s.list(kindRefund)))
	mux.HandleFunc("GET /v1/refunds/{id}", s.signedIn(s.get(kindRefund)))
	mux.HandleFunc("GET /sandbox/ledger", s.serveLedger)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		send(w, *problem{
			status: http.StatusNotFound, Type: "invalid_request_error",
			Message: "Unrecognized request URL (" + r.Method + ": " + r.URL.Path + ").",
		}.response())
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			panic(http.ErrAbortHandler)
		}
		defer s.running.Done()
		mux.ServeHTTP(w, r)
	})
}

// signedIn asks for an API key, any, as Stripe does, and names the request.
func (s *Sandbox) signedIn(next func(w http.ResponseWriter, r *http.Request, id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := "req_" + s.o.NewID()
		w.Header().Set("Request-Id", id)
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "Basic") || strings.TrimSpace(key) == "" {
			send(w, *problem{
				status: http.StatusUnauthorized, Type: "invalid_request_error",
				Message: "You did not provide an API key.",
			}.response())
			return
		}
		next(w, r, id)
	}
}

// create serves a POST.
func (s *Sandbox) create(kind string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, id string) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := r.ParseForm(); err != nil {
			send(w, *invalid("", "", "The form can't be read.").response())
			return
		}
		req := request{id: id, endpoint: r.URL.Path, kind: kind, key: r.Header.Get("Idempotency-Key")}
		if len(req.key) > maxKey || len(r.Header.Values("Idempotency-Key")) > 1 {
			send(w, *invalid("", "", "The idempotency key is too long or given twice.").response())
			return
		}
		digest := sha256.Sum256([]byte(r.PostForm.Encode())) // Encode sorts by name
		req.params = digest[:]
		req.in, req.invalid = parse(kind, r.PostForm)
		resp, err := s.post(r.Context(), req)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.deliver(w, r, resp)
	}
}

// deliver sends the answer the way its fate says.
func (s *Sandbox) deliver(w http.ResponseWriter, r *http.Request, resp response) {
	switch resp.delivery {
	case deliverNever:
		s.hold(r.Context())
		panic(http.ErrAbortHandler)
	case deliverReset:
		cut(w)
	case deliverGarbage:
		resp.body = resp.body[:len(resp.body)/2]
	}
	send(w, resp)
}

// hold keeps a connection without an answer until its client goes.
func (s *Sandbox) hold(ctx context.Context) {
	select {
	case s.held <- struct{}{}:
	default:
		return
	}
	defer func() { <-s.held }()
	_ = s.pause(ctx, holdAtMost) // whatever ends the wait, the connection is cut
}

// cut breaks the connection with a reset instead of a farewell, as a machine
// that dies does.
func cut(w http.ResponseWriter) {
	if hijacker, ok := w.(http.Hijacker); ok {
		if conn, _, err := hijacker.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // then Close is as good
			}
			_ = conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}

func send(w http.ResponseWriter, resp response) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(resp.body)))
	if resp.original != "" {
		h.Set("Idempotent-Replayed", "true")
		h.Set("Original-Request", resp.original)
	}
	w.WriteHeader(resp.status)
	_, _ = w.Write(resp.body) // a client that has gone can ask again
}

// fail ends a request that could not be decided. Whether it was is open, so
// there is no answer at all once the sandbox closes.
func (s *Sandbox) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errClosed) {
		panic(http.ErrAbortHandler)
	}
	s.o.Log.LogAttrs(r.Context(), slog.LevelError, "sandbox failed",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	send(w, *problem{
		status: http.StatusInternalServerError, Type: "api_error", Message: "The sandbox's file can't be used.",
	}.response())
}

func (s *Sandbox) get(kind string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, _ string) {
		o, found, err := loadObject(r.Context(), s.read, kind, r.PathValue("id"))
		switch {
		case err != nil:
			s.fail(w, r, err)
		case !found:
			send(w, *missing(kind, r.PathValue("id")).response())
		default:
			send(w, response{status: http.StatusOK, body: o.json()})
		}
	}
}

// rfc3339 is how the ledger shows a time.
func rfc3339(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) }
