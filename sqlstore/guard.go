package sqlstore

import (
	"database/sql"
	"sync/atomic"

	"modernc.org/sqlite"
)

// commitGuard refuses every commit of a connection until it is armed. After an
// interrupt SQLite has rolled the transaction back and is in autocommit: the
// statements that an effect goes on with would each be durable at once, with
// no key beside them.
type commitGuard struct {
	armed  atomic.Bool
	remove func()
}

// sqliteGuardCommit puts a guard on a connection of modernc.org/sqlite, in
// place of a commit hook of the caller's own. Another driver has none: nil.
func sqliteGuardCommit(conn any) *commitGuard {
	hooks, ok := conn.(sqlite.HookRegisterer)
	if !ok {
		return nil
	}
	g := &commitGuard{remove: func() { hooks.RegisterCommitHook(nil) }}
	hooks.RegisterCommitHook(func() int32 {
		if g.armed.Load() {
			return 0
		}
		return 1
	})
	return g
}

// refused reports whether a guard kept a statement from committing: the
// transaction that it was meant for is gone.
func (s *Store) refused(err error) bool { return s.d.refusedCommit != nil && s.d.refusedCommit(err) }

// guard puts the dialect's guard on a connection that is not ours, and returns
// how to arm it and how to take it off again.
func (s *Store) guard(conn *sql.Conn) (arm, remove func()) {
	var g *commitGuard
	if s.d.guardCommit != nil {
		_ = conn.Raw(func(c any) error { // a connection that is gone fails at its first statement
			g = s.d.guardCommit(c)
			return nil
		})
	}
	if g == nil {
		return func() {}, func() {}
	}
	return func() { g.armed.Store(true) }, func() {
		_ = conn.Raw(func(any) error { // a connection that is gone has no hook
			g.remove()
			return nil
		})
	}
}
