package server

import (
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

//go:embed openapi.yaml
var openAPI []byte

const (
	defaultMaxBody = 64 << 10         // a payment with all its metadata fits several times
	defaultLease   = 30 * time.Second // the engine's own default

	headerTimeout = 10 * time.Second  // a client that needs longer for its headers holds a connection for nothing
	bodyTimeout   = 15 * time.Second  // 64 KiB over a bad mobile line
	idleTimeout   = 120 * time.Second // longer than the idle time of common load balancers, so that they close first
	maxWait       = 30 * time.Second  // what httponce.Wait allows at most
	writeSlack    = 15 * time.Second  // for the answer itself to reach a slow client
	maxHeader     = 32 << 10          // a key, an API key, a query; proxies add some of their own
	readyTimeout  = 2 * time.Second   // less than probes usually wait
)

// Options configure a [Server].
type Options struct {
	DB    *db.DB       // required
	Store *sqlstore.DB // required: GET /readyz asks it
	Flow  *flow.Flow   // required
	// Waiters serve "Prefer: wait". Give its Wake to the flow as
	// flow.Options.Settled. Default: Waiters of its own, which only poll.
	Waiters *httponce.Waiters
	// Replays counts replays. Default: they are not counted.
	Replays *flow.ReplayCounter
	// MaxBody is the largest request body in bytes. Default 64 KiB.
	MaxBody int64
	// Lease is the engine's: no single run of a request outlives two of them.
	// It bounds how long the connection may stay open. Default 30 s.
	Lease time.Duration
	// Ledger serves GET /sandbox/ledger; without it the path is 404.
	Ledger http.Handler
	// WellKnownKeys says that everybody knows an API key of this server, so
	// that only loopback Host names are served (against DNS rebinding).
	WellKnownKeys bool
	// Version is the release, for GET /healthz.
	Version string
	Log     *slog.Logger     // default slog.Default()
	Now     func() time.Time // default time.Now
	// NewID makes request ids out of printable ASCII. Default: 128 random bits.
	NewID func() string
}

// Server answers the API's requests. It is safe for concurrent use.
type Server struct {
	o           Options
	bodyTimeout time.Duration
	mux         *http.ServeMux
	routes      []route
}

// New returns a server, or an error that names the option that is missing.
func New(o Options) (*Server, error) {
	if o.DB == nil || o.Store == nil || o.Flow == nil {
		return nil, errors.New("server: Options.DB, Store and Flow are needed")
	}
	if o.MaxBody < 0 || o.Lease < 0 {
		return nil, errors.New("server: Options.MaxBody and Lease must not be negative")
	}
	if o.Waiters == nil {
		o.Waiters = &httponce.Waiters{}
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{o: o, bodyTimeout: bodyTimeout}
	s.routes = s.table()
	s.mux = newMux(s.routes)
	return s, nil
}

// Handler returns the whole API, with request ids and the access log.
func (s *Server) Handler() http.Handler {
	return httponce.RequestIDs{Next: http.HandlerFunc(s.serve), NewID: s.o.NewID}
}

// HTTP returns a server for this address whose limits fit the API: slow
// clients are cut off, but never a request that waits for its outcome as long
// as it is allowed to. The caller runs it and shuts it down.
func (s *Server) HTTP(addr string) *http.Server {
	// A run waits for two commits and one provider call, which together stay
	// below two leases; then it may go on waiting for its outcome.
	longest := s.bodyTimeout + 2*s.o.Lease + maxWait
	return &http.Server{
		Addr:              addr,
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		// Bodies have a limit of their own, bodyTimeout. This one must not pass
		// while a handler runs, because it would end the request's context.
		ReadTimeout:    longest,
		WriteTimeout:   longest + writeSlack,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn),
	}
}

// route is one row of the table of what is served.
type route struct {
	method, path string
	open         bool // no sign-in
	handle       http.HandlerFunc
}

func (s *Server) table() []route {
	table := []route{
		{"POST", "/payments", false, s.createPayment},
		{"GET", "/payments", false, s.listPayments},
		{"GET", "/payments/{id}", false, s.getPayment},
		{"GET", "/payments/{id}/events", false, s.listEvents},
		{"POST", "/payments/{id}/refunds", false, s.createRefund},
		{"GET", "/payments/{id}/refunds", false, s.listRefunds},
		{"GET", "/refunds/{id}", false, s.getRefund},
		{"GET", "/healthz", true, s.health},
		{"GET", "/readyz", true, s.ready},
		{"GET", "/openapi.yaml", true, s.description},
	}
	if s.o.Ledger != nil {
		table = append(table, route{"GET", "/sandbox/ledger", true, s.o.Ledger.ServeHTTP})
	}
	for i, r := range table {
		if !r.open {
			table[i].handle = s.signedIn(r.handle)
		}
	}
	return table
}

// newMux serves the routes; what they leave over is a problem: 405 for another
// method, 404 for another path.
func newMux(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	allow := map[string][]string{}
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, r.handle)
		allow[r.path] = append(allow[r.path], r.method)
		if r.method == http.MethodGet {
			allow[r.path] = append(allow[r.path], http.MethodHead) // the mux serves it with GET
		}
	}
	for path, methods := range allow {
		slices.Sort(methods)
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			httponce.MethodNotAllowed(methods...).Write(w)
		})
	}
	mux.HandleFunc("/", nothingHere)
	return mux
}

func nothingHere(w http.ResponseWriter, _ *http.Request) {
	p := httponce.NotFound("path")
	p.Detail = "There is nothing at this path; GET /openapi.yaml lists what there is. Nothing was run."
	p.Write(w)
}
