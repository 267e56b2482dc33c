package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// checkedConnector makes connections, tells each what the dialect relies on,
// and refuses those whose settings can lose a commit. A setting may reach one
// connection only, so each is asked.
type checkedConnector struct {
	driver.Connector
	d Dialect
	o Options
}

// Connect opens a connection and reads its settings back.
func (c checkedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (c checkedConnector) ready(ctx context.Context, conn driver.Conn) error {
	if c.d.session != nil {
		for _, text := range c.d.session(c.o) {
			if err := execText(ctx, conn, text); err != nil {
				return err
			}
		}
	}
	return c.d.check(func(text string) (string, error) { return queryText(ctx, conn, text, 0) })
}

// execText runs a statement on a connection that is not yet in a pool.
func execText(ctx context.Context, conn driver.Conn, text string) error {
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return fmt.Errorf("the driver's connection %T runs no statements", conn)
	}
	if _, err := execer.ExecContext(ctx, text, nil); err != nil {
		return fmt.Errorf("ready the connection: %w", err)
	}
	return nil
}

// queryText runs a query on a connection that is not yet in a pool, and
// returns one column of its first row, "" if there is none.
func queryText(ctx context.Context, conn driver.Conn, query string, column int) (string, error) {
	queryer, ok := conn.(driver.QueryerContext)
	if !ok {
		return "", fmt.Errorf("the driver's connection %T can't be asked for its settings", conn)
	}
	rows, err := queryer.QueryContext(ctx, query, nil)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	switch err := rows.Next(row); {
	case errors.Is(err, io.EOF):
		return "", nil
	case err != nil:
		return "", err
	}
	switch text := row[column].(type) {
	case string:
		return text, nil
	case []byte:
		return string(text), nil
	}
	return "", fmt.Errorf("a text was expected, not %T", row[column])
}
