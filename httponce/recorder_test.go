package httponce_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served runs a handler behind a real server and returns its first answer and
// its replay.
func served(t *testing.T, handle http.HandlerFunc, fields ...string) (first, replay *http.Response, bodies [2]string) {
	t.Helper()
	s := open(t, handle, nil)
	server := httptest.NewServer(s.front)
	t.Cleanup(server.Close)
	var out [2]*http.Response
	for i := range out {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/payments", strings.NewReader(body1))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = request("/payments", "K", "", fields...).Header
		if out[i], err = server.Client().Do(r); err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(out[i].Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = out[i].Body.Close()
		bodies[i] = string(body)
	}
	if got := out[1].Header.Get("Idempotent-Replayed"); got != "true" {
		t.Errorf("the second is no replay: %d", out[1].StatusCode)
	}
	s.ran(1)
	return out[0], out[1], bodies
}

// Case 73: all bytes of a streaming handler are replayed.
func TestStreamedAnswer(t *testing.T) {
	_, _, bodies := served(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "chunk %d\n", i)
			w.(http.Flusher).Flush()
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	for _, body := range bodies {
		if body != "chunk 0\nchunk 1\nchunk 2\n" {
			t.Errorf("got %q", body)
		}
	}
}

// Case 74: an informational answer is not the answer.
func TestInformationalAnswer(t *testing.T) {
	first, replay, bodies := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		created(w, r)
	}, "Expect", "100-continue")
	if first.StatusCode != 201 || replay.StatusCode != 201 || bodies[0] != bodies[1] || bodies[0] != `{"id":"p1"}` {
		t.Errorf("%d, %d, %q", first.StatusCode, replay.StatusCode, bodies)
	}
}

// Case 75: the status that net/http would send is the one that is kept.
func TestImplicitAndRepeatedStatus(t *testing.T) {
	hi := func(w http.ResponseWriter) { _, _ = io.WriteString(w, "hi") }
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		status int
		body   string
	}{
		"nothing":     {func(w http.ResponseWriter, r *http.Request) {}, 200, ""},
		"write alone": {func(w http.ResponseWriter, r *http.Request) { hi(w) }, 200, "hi"},
		"flush alone": {func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(500)
		}, 200, ""},
		"twice":           {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); w.WriteHeader(500) }, 201, ""},
		"after the write": {func(w http.ResponseWriter, r *http.Request) { hi(w); w.WriteHeader(500) }, 200, "hi"},
		"no body allowed": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(204)
			if _, err := io.WriteString(w, "hi"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Error(err)
			}
		}, 204, ""},
		"late header": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			w.Header().Set("X-Late", "1")
		}, 201, ""},
	} {
		t.Run(name, func(t *testing.T) {
			first, replay, bodies := served(t, c.handle)
			for i, resp := range []*http.Response{first, replay} {
				if resp.StatusCode != c.status || bodies[i] != c.body || resp.Header.Get("X-Late") != "" {
					t.Errorf("%d: %d %q %v", i, resp.StatusCode, bodies[i], resp.Header)
				}
			}
			if first.Header.Get("Content-Type") != replay.Header.Get("Content-Type") {
				t.Errorf("Content-Type %q, then %q", first.Header.Get("Content-Type"), replay.Header.Get("Content-Type"))
			}
		})
	}
}

// Case 75: what http.ResponseController offers works, or fails honestly.
func TestResponseController(t *testing.T) {
	served(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if _, _, err := c.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("hijack: %v", err)
		}
		_, _ = bufio.NewReader(strings.NewReader("x")).WriteTo(w)
	})
}

// Case 71: what belongs to one moment or one session is given once.
func TestUnsafeHeadersAreNotReplayed(t *testing.T) {
	first, replay, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("Date", "Thu, 01 Jan 1970 00:00:00 GMT")
		w.Header().Set("X-Request-Id", "mine")
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("RateLimit-Remaining", "1")
		w.Header().Set("ETag", `"v1"`)
		created(w, r)
	})
	if first.Header.Get("Set-Cookie") == "" {
		t.Error("the first client got no cookie")
	}
	for _, name := range []string{"Set-Cookie", "X-Request-Id", "WWW-Authenticate", "RateLimit-Remaining"} {
		if got := replay.Header.Get(name); got != "" {
			t.Errorf("%s: %s was replayed", name, got)
		}
	}
	if strings.Contains(replay.Header.Get("Date"), "1970") {
		t.Error("the Date was replayed")
	}
	if replay.Header.Get("ETag") != `"v1"` || replay.Header.Get("Location") != "/payments/p1" {
		t.Errorf("got %v", replay.Header)
	}
}

// The type that net/http would have guessed is stored, so that a release that
// guesses otherwise replays the same.
func TestGuessedContentType(t *testing.T) {
	s := open(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<html>") }, nil)
	want(t, s.post("K", body1), 200, false)
	if got := s.record("K").Outcome.Header["Content-Type"]; len(got) != 1 || got[0] != "text/html; charset=utf-8" {
		t.Errorf("stored as %q", got)
	}
}
