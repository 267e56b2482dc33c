package onlyonce

import (
	"fmt"
	"net/textproto"
	"strings"
)

// maxOutcomeBytes bounds what one key may keep. A larger result belongs into a
// store of its own, with a reference to it in the outcome.
const maxOutcomeBytes = 1 << 20

// Outcome is the stored final result of an intent: what every later request
// with its key gets. Over HTTP it is a whole response; elsewhere Status and
// Header may be left empty.
type Outcome struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// unsafeHeaders must never be given to a later request: they belong to one
// connection, one moment or one session (RFC 9110 7.6.1; draft-ietf-httpapi-ratelimit-headers).
var unsafeHeaders = map[string]bool{
	"Authentication-Info": true,
	"Connection":          true,
	"Content-Length":      true, // follows from the body
	"Date":                true,
	"Keep-Alive":          true,
	"Proxy-Authenticate":  true,
	"Proxy-Connection":    true,
	"Request-Id":          true,
	"Retry-After":         true,
	"Set-Cookie":          true,
	"Te":                  true,
	"Trailer":             true,
	"Transfer-Encoding":   true,
	"Upgrade":             true,
	"Www-Authenticate":    true,
	"X-Request-Id":        true,
}

// Storable returns the outcome as it is stored and replayed: without headers
// that belong to one connection, moment or session. Answer the first request
// with it too, so that all get the same. An error wraps [ErrOutcomeTooLarge].
func (o Outcome) Storable() (Outcome, error) {
	size := len(o.Body)
	header := make(map[string][]string, len(o.Header))
	for name, values := range o.Header {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if unsafeHeaders[name] || strings.Contains(name, "Ratelimit") || strings.Contains(name, "Rate-Limit") {
			continue
		}
		header[name] = append(header[name], values...)
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	if size > maxOutcomeBytes {
		return Outcome{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrOutcomeTooLarge, size, maxOutcomeBytes)
	}
	body := o.Body
	if body == nil {
		body = []byte{} // NULL in the row means tombstone
	}
	return Outcome{Status: o.Status, Header: header, Body: body}, nil
}
