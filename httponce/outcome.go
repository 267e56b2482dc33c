package httponce

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/onlyonce-go/onlyonce"
)

const (
	// ReplayedHeader is "true" on every answer that was stored earlier.
	ReplayedHeader = "Idempotent-Replayed"
	// OriginalHeader names, on a replay, the request that was answered first.
	OriginalHeader = "Original-Request"

	// ExposedHeaders is the value of Access-Control-Expose-Headers that lets a
	// script in a browser read the headers of this package.
	ExposedHeaders = "Idempotent-Replayed, Original-Request, Request-Id, Location, Retry-After, Preference-Applied"
)

// WithOrigin returns the outcome with the id of the request that it answers,
// to be stored with it and shown on replays. An empty id adds nothing.
func WithOrigin(o onlyonce.Outcome, requestID string) onlyonce.Outcome {
	if requestID == "" {
		return o
	}
	header := maps.Clone(o.Header)
	if header == nil {
		header = map[string][]string{}
	}
	header[OriginalHeader] = []string{requestID}
	o.Header = header
	return o
}

// WriteOutcome answers a request with an outcome: its status, headers and
// bytes exactly. On a replay it adds Idempotent-Replayed: true and the
// Original-Request that [WithOrigin] put in; the first answer has neither.
func WriteOutcome(w http.ResponseWriter, o onlyonce.Outcome, replayed bool) {
	h := w.Header()
	for name, values := range o.Header {
		name = http.CanonicalHeaderKey(name)
		switch {
		case name == ReplayedHeader: // ours to say
		case name == OriginalHeader && !replayed:
		default:
			h[name] = slices.Clone(values)
		}
	}
	if replayed {
		h.Set(ReplayedHeader, "true")
	}
	h.Del("Transfer-Encoding") // the body below is whole
	if !bodyAllowed(o.Status) {
		h.Del("Content-Length")
		w.WriteHeader(o.Status)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(o.Body)))
	w.WriteHeader(o.Status)
	// What the client's socket takes is not our concern: the outcome is stored.
	_, _ = w.Write(o.Body)
}

// bodyAllowed reports whether an answer of this status may have a body (RFC 9110, 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
