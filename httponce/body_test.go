package httponce_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onlyonce-go/onlyonce/httponce"
)

func TestReadBodyMediaTypes(t *testing.T) {
	for _, c := range []struct {
		contentType []string
		encoding    string
		ok          bool
	}{
		{[]string{"application/json"}, "", true},
		{[]string{"Application/JSON; Charset=UTF-8"}, "", true},
		{[]string{`application/json; charset="utf-8"; x=1`}, "identity", true},
		{[]string{"application/json; charset=latin1"}, "", false},
		{[]string{"application/json"}, "gzip", false},
		{[]string{"application/json", "text/plain"}, "", false},
		{[]string{"application/jsonx"}, "", false},
		{[]string{"application/problem+json"}, "", false},
		{[]string{"text/plain"}, "", false},
		{[]string{""}, "", false},
		{nil, "", false},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body1))
		r.Header["Content-Type"] = c.contentType
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		body, err := httponce.ReadBody(httptest.NewRecorder(), r, 100)
		if c.ok {
			if err != nil || string(body) != body1 {
				t.Errorf("%q: %q, %v", c.contentType, body, err)
			}
		} else if p := asProblem(t, err); p.Status != 415 {
			t.Errorf("%q %q: %v", c.contentType, c.encoding, p)
		}
	}
}

// unread fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("a body that announces too much was read")
	return 0, io.EOF
}

func TestReadBodyLimit(t *testing.T) {
	read := func(r *http.Request) (*httptest.ResponseRecorder, []byte, error) {
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		body, err := httponce.ReadBody(w, r, 10)
		return w, body, err
	}
	chunked := func(body io.Reader) *http.Request {
		r := httptest.NewRequest("POST", "/", body)
		r.ContentLength = -1
		return r
	}
	if _, body, err := read(chunked(strings.NewReader("1234567890"))); err != nil || len(body) != 10 {
		t.Error(body, err)
	}
	announced := httptest.NewRequest("POST", "/", unread{t})
	announced.ContentLength = 11
	for _, r := range []*http.Request{announced, chunked(strings.NewReader("12345678901"))} {
		w, _, err := read(r)
		if p := asProblem(t, err); p.Status != 413 || w.Header().Get("Connection") != "close" {
			t.Errorf("%v, Connection %q", p, w.Header().Get("Connection"))
		}
	}
	broken := io.MultiReader(strings.NewReader("123"), iotestError{})
	if _, _, err := read(chunked(broken)); asProblem(t, err).Status != 400 {
		t.Error(err)
	}
}

type iotestError struct{}

func (iotestError) Read([]byte) (int, error) { return 0, errors.New("cut") }

// gigabyte is an endless JSON string that counts what is taken from it.
type gigabyte struct{ left, taken atomic.Int64 }

func (g *gigabyte) Read(p []byte) (int, error) {
	if g.left.Load() <= 0 {
		return 0, io.EOF
	}
	copy(p, bytes.Repeat([]byte("x"), min(len(p), 4096)))
	n := min(len(p), 4096)
	g.left.Add(int64(-n))
	g.taken.Add(int64(n))
	return n, nil
}

// Case 78: 1 GB, chunked, is refused without being held or read.
func TestGigabyteIsRefused(t *testing.T) {
	s := open(t, created, nil)
	server := httptest.NewServer(s.front)
	defer server.Close()
	body := &gigabyte{}
	body.left.Store(1 << 30)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/payments", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = request("/payments", "K", "").Header
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	runtime.ReadMemStats(&after)
	if resp.StatusCode != 413 || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
	// The sockets' buffers take some megabytes beyond the limit of 1 MiB.
	if taken := body.taken.Load(); taken > 64<<20 {
		t.Errorf("%d bytes were taken", taken)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
	s.ran(0)
	if rec := s.record("K"); rec.Status != "" {
		t.Errorf("a claim was made: %v", rec.Status)
	}
}
