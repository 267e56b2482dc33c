package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/daemon"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// fleet is all servers of a run.
type fleet struct {
	store *software.Store
	site  *daemon.Site

	mu      sync.Mutex
	servers []*daemon.Server
}

// launch brings up one engine.
type launch func(ctx context.Context) (engines.Engine, error)

// start brings up the engines side by side, and says which did not come up.
func (f *fleet) start(ctx context.Context, names []string) engines.Up {
	// The pooler waits for the server that it stands before.
	behind := sync.OnceValues(func() (*daemon.Server, error) {
		programs, err := f.store.Postgres(ctx, 15)
		if err != nil {
			return nil, err
		}
		return f.keep(f.site.Postgres(ctx, engines.Postgres15, programs))
	})
	launches := map[string]launch{
		engines.SQLite: func(context.Context) (engines.Engine, error) { return engines.Local() },
		engines.Postgres15: func(context.Context) (engines.Engine, error) {
			return engine(engines.Postgres15, "postgres")(behind())
		},
		engines.Postgres18: func(ctx context.Context) (engines.Engine, error) {
			programs, err := f.store.Postgres(ctx, 18)
			if err != nil {
				return engines.Engine{}, err
			}
			return engine(engines.Postgres18, "postgres")(f.keep(f.site.Postgres(ctx, engines.Postgres18, programs)))
		},
		engines.PgBouncer: func(ctx context.Context) (engines.Engine, error) { return f.pgbouncer(ctx, behind) },
		engines.MariaDB: func(ctx context.Context) (engines.Engine, error) {
			programs, err := f.store.MariaDB(ctx)
			if err != nil {
				return engines.Engine{}, err
			}
			return engine(engines.MariaDB, "mysql")(f.keep(f.site.MariaDB(ctx, engines.MariaDB, programs)))
		},
		engines.MySQL: func(ctx context.Context) (engines.Engine, error) {
			programs, err := f.store.MySQL(ctx)
			if err != nil {
				return engines.Engine{}, err
			}
			return engine(engines.MySQL, "mysql")(f.keep(f.site.MySQL(ctx, engines.MySQL, programs)))
		},
	}
	ups := make([]engines.Up, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			e, err := launches[name](ctx)
			if err != nil {
				ups[i].Missing = []engines.Missing{{Name: name, Reason: err.Error()}}
				return
			}
			ups[i].Engines = []engines.Engine{e}
		})
	}
	all.Wait()
	return joined(ups)
}

// joined keeps the order of the names.
func joined(ups []engines.Up) engines.Up {
	var up engines.Up
	for _, u := range ups {
		up.Engines = slices.Concat(up.Engines, u.Engines)
		up.Missing = slices.Concat(up.Missing, u.Missing)
	}
	return up
}

// engine describes a server to the tests.
func engine(name, dialect string) func(*daemon.Server, error) (engines.Engine, error) {
	return func(s *daemon.Server, err error) (engines.Engine, error) {
		if err != nil {
			return engines.Engine{}, err
		}
		return engines.Engine{Name: name, Dialect: dialect, Version: s.Version, URL: s.URL}, nil
	}
}

func (f *fleet) pgbouncer(ctx context.Context, behind func() (*daemon.Server, error)) (engines.Engine, error) {
	programs, err := f.store.PgBouncer(ctx)
	if err != nil {
		return engines.Engine{}, err
	}
	server, err := behind()
	if err != nil {
		return engines.Engine{}, err
	}
	e, err := engine(engines.PgBouncer, "postgres")(
		f.keep(f.site.PgBouncer(ctx, engines.PgBouncer, programs, server)))
	e.Direct = server.URL
	return e, err
}

// keep remembers a server, to stop it.
func (f *fleet) keep(s *daemon.Server, err error) (*daemon.Server, error) {
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.servers = append(f.servers, s)
	}
	return s, err
}

// stop ends all servers at once: nobody needs their data any more. One that
// had ended by itself is an error: tests have met it.
func (f *fleet) stop() error {
	errs := make([]error, len(f.servers))
	var all sync.WaitGroup
	for i, s := range f.servers {
		all.Go(func() {
			select {
			case <-s.Ended():
				errs[i] = fmt.Errorf("a server ended by itself (%v):\n%s", s.Wait(), s.Tail())
			default:
				errs[i] = s.Discard()
			}
		})
	}
	all.Wait()
	return errors.Join(append(errs, f.site.Close())...)
}
