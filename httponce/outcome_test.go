package httponce_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
)

func TestWriteOutcome(t *testing.T) {
	o := httponce.WithOrigin(onlyonce.Outcome{
		Status: 201,
		Header: map[string][]string{"location": {"/p"}, "Link": {"a", "b"}, "Idempotent-Replayed": {"true"}},
		Body:   []byte(" {} "),
	}, "req-1")
	first, replay := httptest.NewRecorder(), httptest.NewRecorder()
	httponce.WriteOutcome(first, o, false)
	httponce.WriteOutcome(replay, o, true)
	for _, w := range []*httptest.ResponseRecorder{first, replay} {
		if w.Code != 201 || w.Body.String() != " {} " || w.Header().Get("Location") != "/p" ||
			len(w.Header()["Link"]) != 2 || w.Header().Get("Content-Length") != "4" {
			t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
		}
	}
	if first.Header().Get("Idempotent-Replayed") != "" || first.Header().Get("Original-Request") != "" {
		t.Errorf("the first answer says %v", first.Header())
	}
	if replay.Header().Get("Idempotent-Replayed") != "true" || replay.Header().Get("Original-Request") != "req-1" {
		t.Errorf("the replay says %v", replay.Header())
	}
}

func TestWriteOutcomeWithoutBody(t *testing.T) {
	for _, status := range []int{204, 304} {
		w := httptest.NewRecorder()
		httponce.WriteOutcome(w, onlyonce.Outcome{Status: status, Body: []byte{}}, true)
		if w.Code != status || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "" {
			t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
		}
	}
}

func TestRequestIDs(t *testing.T) {
	var seen string
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen = httponce.RequestID(r.Context()) })
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Request-Id", "the client's own")
	w := httptest.NewRecorder()
	httponce.RequestIDs{Next: next, NewID: func() string { return "id-1" }}.ServeHTTP(w, r)
	if w.Header().Get("Request-Id") != "id-1" || seen != "id-1" {
		t.Errorf("%q, %q", w.Header().Get("Request-Id"), seen)
	}
	w = httptest.NewRecorder()
	httponce.RequestIDs{Next: next}.ServeHTTP(w, r)
	if len(seen) < 20 || w.Header().Get("Request-Id") != seen {
		t.Errorf("%q, %q", w.Header().Get("Request-Id"), seen)
	}
	if httponce.RequestID(t.Context()) != "" {
		t.Error("an id without the middleware")
	}
}

// Case 79: a script in a browser can read all that it must.
func TestExposedHeaders(t *testing.T) {
	for _, name := range []string{
		httponce.ReplayedHeader, httponce.OriginalHeader, httponce.RequestIDHeader, httponce.AppliedHeader,
		"Location", "Retry-After",
	} {
		if !strings.Contains(", "+httponce.ExposedHeaders+",", ", "+name+",") {
			t.Errorf("%s is not exposed", name)
		}
	}
}
