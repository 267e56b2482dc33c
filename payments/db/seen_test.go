package db_test

import (
	"context"
	"database/sql/driver"
	"sync"
)

// statement is a text as it went to the engine, with its arguments.
type statement struct {
	query string
	args  []any
}

// seen stands between the store and its driver and writes down what goes by.
type seen struct {
	mu  sync.Mutex
	all []statement
}

func (s *seen) add(query string, args []driver.NamedValue) {
	st := statement{query: query}
	for _, a := range args {
		st.args = append(st.args, a.Value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, st)
}

// take returns the statements since the last call.
func (s *seen) take() []statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

func (s *seen) wrap(c driver.Connector) driver.Connector { return seenConnector{c, s} }

type seenConnector struct {
	driver.Connector
	s *seen
}

func (c seenConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return seenConn{conn.(serverConn), c.s}, nil
}

// serverConn is what the connections of all drivers can do.
type serverConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
}

type seenConn struct {
	serverConn
	s *seen
}

func (c seenConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.s.add(query, args)
	return c.serverConn.ExecContext(ctx, query, args)
}

func (c seenConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.s.add(query, args)
	return c.serverConn.QueryContext(ctx, query, args)
}
