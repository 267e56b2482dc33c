package server

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

const (
	maxAPIKey = 512 // characters; ours have some 50

	// downAfter is what a client waits while the store is away.
	downAfter = 5 * time.Second
)

// signedIn lets a request through that carries a live API key, and tells its
// handler whose. Nothing else of the request is read before.
func (s *Server) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secret, ok := bearer(r.Header)
		if !ok {
			httponce.Unauthorized().Write(w)
			return
		}
		key, err := s.o.DB.Authenticate(r.Context(), secret)
		switch {
		case errors.Is(err, db.ErrNotFound) || err == nil && key.Role != db.RoleAccount:
			httponce.Unauthorized().Write(w)
		case err != nil:
			s.unavailable(w, r, "sign in", err)
		default:
			factsOf(r.Context()).account = key.Account
			next(w, r)
		}
	}
}

// bearer returns the API key of the one Authorization header.
func bearer(h http.Header) (string, bool) {
	lines := h.Values("Authorization")
	if len(lines) != 1 {
		return "", false
	}
	scheme, secret, _ := strings.Cut(strings.TrimSpace(lines[0]), " ")
	secret = strings.TrimLeft(secret, " ")
	return secret, strings.EqualFold(scheme, "Bearer") && secret != "" && len(secret) <= maxAPIKey
}

// unavailable answers that nothing was run, because the store could not be
// asked; why stays in the log.
func (s *Server) unavailable(w http.ResponseWriter, r *http.Request, doing string, err error) {
	if r.Context().Err() == nil { // else it is the client that went away
		s.o.Log.ErrorContext(r.Context(), "could not "+doing, "request", httponce.RequestID(r.Context()), "err", err)
	}
	httponce.Unavailable(downAfter).Write(w)
}
