package httponce_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const (
	body1 = `{"amount":1000,"currency":"USD"}`
	body2 = `{"amount":2000,"currency":"USD"}`
)

// shop is a plain handler behind a Handler on a real database.
type shop struct {
	t     *testing.T
	db    *sqlstore.DB
	skew  atomic.Int64
	calls atomic.Int32 // of the plain handler
	front http.Handler // with request ids, as a server wires it
}

// open builds a shop whose plain handler is handle; change may adjust the options.
func open(t *testing.T, handle http.HandlerFunc, change func(*httponce.Options)) *shop {
	t.Helper()
	s := &shop{t: t}
	db, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{
		Skew: func() time.Duration { return time.Duration(s.skew.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.Migrate(t.Context(), sqlstore.EngineMigrations()); err != nil {
		t.Fatal(err)
	}
	s.db = db
	s.rewire(handle, change)
	return s
}

// rewire puts another handler in front of the same database, as a new release would.
func (s *shop) rewire(handle http.HandlerFunc, change func(*httponce.Options)) {
	s.t.Helper()
	engine, err := onlyonce.New(onlyonce.Options{Store: s.db.Store()})
	if err != nil {
		s.t.Fatal(err)
	}
	o := httponce.Options{Engine: engine, Tx: s.db, Account: account, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	h, err := httponce.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		handle(w, r)
	}), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.front = httponce.RequestIDs{Next: h}
}

func account(r *http.Request) (string, error) {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), nil
}

// request makes a POST of account A with a JSON body; fields are header lines.
func request(path, key, body string, fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer A")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

func (s *shop) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.front.ServeHTTP(w, r)
	return w
}

func (s *shop) post(key, body string, fields ...string) *httptest.ResponseRecorder {
	return s.serve(request("/payments", key, body, fields...))
}

func (s *shop) record(key string) onlyonce.Record {
	s.t.Helper()
	var recs []onlyonce.Record
	err := s.db.View(context.Background(), func(ctx context.Context, tx onlyonce.Tx) (err error) {
		recs, err = s.db.Store().Load(ctx, tx, []onlyonce.Key{{Account: "A", Name: key}}, false)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return recs[0]
}

// ran checks how often the plain handler was called.
func (s *shop) ran(want int32) {
	s.t.Helper()
	if got := s.calls.Load(); got != want {
		s.t.Errorf("the handler ran %d times, want %d", got, want)
	}
}

// created is a handler that answers like POST /payments.
func created(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", "/payments/p1")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"p1"}`)
}

func failWith(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", status) }
}

// want checks an answer's status and whether it is a replay.
func want(t *testing.T, w *httptest.ResponseRecorder, status int, replayed bool) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	if got := w.Header().Get("Idempotent-Replayed") == "true"; got != replayed {
		t.Errorf("replayed %v, want %v: %d %s", got, replayed, w.Code, w.Body)
	}
}

type problem struct {
	Type, Title, Detail, Retry string
	Status                     int
	Errors                     []httponce.FieldError
	RefundID                   string
	Refundable                 *int64
}

// wantProblem checks an answer's status, type and retry and returns the rest.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, name, retry string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	if w.Code != status || p.Status != status || !strings.HasSuffix(p.Type, "#"+name) || p.Retry != retry {
		t.Errorf("got %d %s retry %s, want %d %s retry %s", w.Code, p.Type, p.Retry, status, name, retry)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	return p
}

// asProblem unwraps the problem inside an error of a parsing function.
func asProblem(t *testing.T, err error) *httponce.Problem {
	t.Helper()
	var p *httponce.Problem
	if !errors.As(err, &p) {
		t.Fatalf("got %v, want a *Problem", err)
	}
	return p
}
