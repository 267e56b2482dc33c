package httponce

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"

	"github.com/onlyonce-go/onlyonce"
)

// maxLocation bounds, in bytes, the one header that a reduced answer keeps.
const maxLocation = 2048

// recorder takes a handler's answer and holds it back until it is stored. It
// follows net/http's own rules: the first final status wins, a body without
// one is 200, headers are fixed when the status is.
//
// Flush succeeds and sends nothing, because the outcome comes before the first
// byte. Hijack is refused. Deadlines reach the connection through Unwrap.
type recorder struct {
	conn   http.ResponseWriter // the connection's own; nothing is written to it here
	header http.Header
	sent   http.Header // header as it was when the status was written
	status int         // 0 until then
	body   []byte
	limit  int
	size   int64 // of all that was written, kept or not
}

func newRecorder(w http.ResponseWriter, limit int) *recorder {
	return &recorder{conn: w, header: http.Header{}, limit: limit}
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.conn }

// Hijack fails: what is written past the recorder could not be given to a retry.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, fmt.Errorf("a connection under an idempotency key can't be hijacked: %w", http.ErrNotSupported)
}

// Header returns the answer's headers.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader latches the first final status. An informational one (1xx) is
// dropped: it is no answer.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("httponce: invalid WriteHeader code %d", status)) // as net/http does
	}
	if r.status == 0 && status >= 200 {
		r.status = status
		r.sent = r.header.Clone()
	}
}

// Write keeps what fits and counts the rest, so that a handler that writes
// without end holds no memory.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !bodyAllowed(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	r.size += int64(len(p))
	if r.size <= int64(r.limit) {
		r.body = append(r.body, p...)
	}
	return len(p), nil
}

// FlushError fixes status and headers, as a flush does; the bytes wait.
func (r *recorder) FlushError() error {
	r.WriteHeader(http.StatusOK)
	return nil
}

// Flush is for handlers that ask for an http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }

// outcome returns the answer once the handler has returned.
func (r *recorder) outcome() onlyonce.Outcome {
	r.WriteHeader(http.StatusOK)
	if r.size > int64(r.limit) {
		return reduced(r.status, r.sent, r.size)
	}
	header := maps.Clone(r.sent)
	if _, ok := header["Content-Type"]; !ok && len(r.body) > 0 && header.Get("Content-Encoding") == "" {
		header.Set("Content-Type", http.DetectContentType(r.body))
	}
	return onlyonce.Outcome{Status: r.status, Header: header, Body: r.body}
}

// reduced is what is kept of an answer that is too large: the handler's status
// and Location, because the effect may have happened, and a small body that says
// so in place of its own.
func reduced(status int, header http.Header, size int64) onlyonce.Outcome {
	kept := map[string][]string{"Content-Type": {"application/json"}}
	if location := header.Get("Location"); location != "" && len(location) <= maxLocation {
		kept["Location"] = []string{location}
	}
	if origin := header[OriginalHeader]; len(origin) > 0 {
		kept[OriginalHeader] = origin
	}
	return onlyonce.Outcome{Status: status, Header: kept, Body: fmt.Appendf(nil,
		`{"detail":"The answer of %d bytes is too large to be kept for retries and was left out; its status stands. `+
			`Don't send the request with a new key.","omittedBytes":%d}`, size, size)}
}
