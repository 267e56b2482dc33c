package server

import (
	"context"
	"net/http"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// statusBody is the answer of the two probes.
type statusBody struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
}

// health says that the process is alive. It asks nobody.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, statusBody{"ok", s.o.Version})
}

// ready says that the store can be reached and has the schema of this program.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := s.o.Store.CheckSchema(ctx, sqlstore.EngineMigrations(), db.Migrations()); err != nil {
		s.unavailable(w, r, "find the store ready", err)
		return
	}
	write(w, http.StatusOK, statusBody{"ok", s.o.Version})
}

// description serves openapi.yaml.
func (s *Server) description(w http.ResponseWriter, _ *http.Request) {
	httponce.WriteOutcome(w, onlyonce.Outcome{
		Status: http.StatusOK,
		Header: map[string][]string{"Content-Type": {"application/yaml"}}, // RFC 9512
		Body:   openAPI,
	}, false)
}
