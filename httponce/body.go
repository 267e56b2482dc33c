package httponce

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/onlyonce-go/onlyonce"
)

// ReadBody reads a JSON body of at most limit bytes. It holds no more than
// that in memory, whatever the client announces or sends, and has the
// connection closed when there is more.
//
// Its errors are a *[Problem]: unsupported-media-type unless the one
// Content-Type is application/json (charset=utf-8 may stand beside it, another
// charset may not, other parameters are ignored as RFC 8259 has none) without
// a Content-Encoding; too-large; invalid-request if the body breaks off.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if !isJSON(r.Header) {
		return nil, UnsupportedMediaType()
	}
	return readBounded(w, r, limit)
}

// isJSON reports whether a message's body is plain JSON in UTF-8.
func isJSON(h http.Header) bool {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return false
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return false
	}
	charset, ok := params["charset"]
	if ok && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	coding := h.Get("Content-Encoding")
	return coding == "" || strings.EqualFold(coding, "identity")
}

func readBounded(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	var body []byte
	var err error
	if r.ContentLength <= limit {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	var over *http.MaxBytesError
	if r.ContentLength > limit || errors.As(err, &over) {
		// Said here too, because a wrapped w hides it from MaxBytesReader:
		// what the client still sends must not be read as its next request.
		w.Header().Set("Connection", "close")
		return nil, TooLarge(limit)
	}
	if err != nil {
		return nil, InvalidRequest("the body broke off before its end; send the whole request again")
	}
	return body, nil
}

// Fingerprint hashes what makes a request this request and no other: method,
// path as it was escaped, query string as it was sent, and the body that
// [Canonical] returned.
func Fingerprint(method, path, rawQuery string, canonical []byte) onlyonce.Fingerprint {
	return onlyonce.NewFingerprint([]byte(method), []byte(path), []byte(rawQuery), canonical)
}
