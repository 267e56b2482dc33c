package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/httponce"
)

const (
	// panicAfter is what a client waits after a request that broke off before
	// anything was run.
	panicAfter = 5 * time.Second
)

// facts are what the access log says of a request beside what it sees itself.
type facts struct {
	account  string
	key      string
	original string // on a replay, the request that ran
	replayed bool
}

type factsKey struct{}

// factsOf returns the request's facts, to be filled in by its handler.
func factsOf(ctx context.Context) *facts {
	f, _ := ctx.Value(factsKey{}).(*facts)
	if f == nil {
		return &facts{} // a handler that is served without the log
	}
	return f
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 && status >= http.StatusOK {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (rec *recorder) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	return rec.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// serve answers a request and writes one line about it. The order of what is
// checked is the contract's: host, route, sign-in, then the request itself.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := s.o.Now()
	f := &facts{}
	rec := &recorder{ResponseWriter: w}
	r = r.WithContext(context.WithValue(r.Context(), factsKey{}, f))
	h := w.Header()
	h.Set("Access-Control-Expose-Headers", httponce.ExposedHeaders)
	h.Set("Cache-Control", "no-store") // a payment in a shared cache is somebody else's to read
	h.Set("X-Content-Type-Options", "nosniff")
	defer s.log(r, rec, f, began)
	defer s.recovered(rec, r)
	switch {
	case s.o.WellKnownKeys && !loopbackName(r.Host):
		httponce.Misdirected(loopbackNames...).Write(rec)
	case path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath():
		nothingHere(rec, r) // and no redirect, which would turn a POST into another request
	default:
		s.mux.ServeHTTP(rec, r)
	}
}

// recovered answers a request whose handler panicked. Handlers of intents see
// to their own panics once something may have been run, so nothing was here.
func (s *Server) recovered(rec *recorder, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.logPanic(r.Context(), p)
	if rec.status != 0 {
		panic(http.ErrAbortHandler) // half an answer went out: the client must see that it broke off
	}
	httponce.Unavailable(panicAfter).Write(rec)
}

func (s *Server) logPanic(ctx context.Context, p any) {
	s.o.Log.ErrorContext(ctx, "a handler panicked",
		"request", httponce.RequestID(ctx), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// log writes the access log's line: never a body, a token or an API key.
func (s *Server) log(r *http.Request, rec *recorder, f *facts, began time.Time) {
	attrs := []slog.Attr{
		slog.String("method", r.Method),
		slog.String("path", r.URL.EscapedPath()),
		slog.Int("status", rec.status),
		slog.String("request", httponce.RequestID(r.Context())),
		slog.Duration("took", s.o.Now().Sub(began)),
	}
	if f.account != "" {
		attrs = append(attrs, slog.String("account", f.account))
	}
	if f.key != "" {
		attrs = append(attrs, slog.String("key", fmt.Sprintf("%q", f.key)))
	}
	if f.replayed {
		attrs = append(attrs, slog.Bool("replayed", true), slog.String("original", f.original))
	}
	s.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "request", attrs...)
}

// loopbackNames are what this machine calls itself; no other machine's page can
// be reached under them.
var loopbackNames = []string{"localhost", "127.0.0.1", "[::1]"}

// loopbackName reports whether a Host header names this machine itself.
func loopbackName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
		if strings.Contains(h, ":") {
			name = "[" + h + "]"
		}
	}
	return slices.Contains(loopbackNames, strings.ToLower(name))
}
