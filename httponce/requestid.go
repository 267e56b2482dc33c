package httponce

import (
	"context"
	"crypto/rand"
	"net/http"
)

// RequestIDHeader names the answer's own request; it is never stored.
const RequestIDHeader = "Request-Id"

// RequestIDs gives every request an id of ours, whatever the client sent, puts
// it on the answer and into the context for Next.
type RequestIDs struct {
	Next  http.Handler
	NewID func() string // printable ASCII; default: 128 random bits
}

type requestIDKey struct{}

// ServeHTTP implements [http.Handler].
func (m RequestIDs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	newID := m.NewID
	if newID == nil {
		newID = rand.Text
	}
	id := newID()
	w.Header().Set(RequestIDHeader, id)
	m.Next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
}

// RequestID returns the id that [RequestIDs] gave the request, "" without it.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
