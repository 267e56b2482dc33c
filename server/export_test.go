package server

import "time"

// OpenAPI is the embedded description.
func OpenAPI() []byte { return openAPI }

// Routes lists what is served, as "METHOD /path".
func (s *Server) Routes() []string {
	var all []string
	for _, r := range s.routes {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

// SetBodyTimeout makes slow clients fail sooner.
func (s *Server) SetBodyTimeout(d time.Duration) { s.bodyTimeout = d }
