package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// checkedConnector makes connections and refuses those whose settings can
// lose a commit. A setting reaches one connection only, so each is asked.
type checkedConnector struct {
	driver.Connector
	settings string // see Dialect.settings
}

// Connect opens a connection and reads its settings back.
func (c checkedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	fault, err := queryText(ctx, conn, c.settings)
	if err == nil && fault != "" {
		err = fmt.Errorf("%w: %s", ErrUnsafeSettings, fault)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// queryText runs a query for one text on a connection that is not yet in a
// pool.
func queryText(ctx context.Context, conn driver.Conn, query string) (string, error) {
	queryer, ok := conn.(driver.QueryerContext)
	if !ok {
		return "", fmt.Errorf("the driver's connection %T can't be asked for its settings", conn)
	}
	rows, err := queryer.QueryContext(ctx, query, nil)
	if err != nil {
		return "", fmt.Errorf("read the connection's settings: %w", err)
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(row); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the connection's settings: %w", err)
	}
	switch text := row[0].(type) {
	case string:
		return text, nil
	case []byte:
		return string(text), nil
	}
	return "", fmt.Errorf("read the connection's settings: a text was expected, not %T", row[0])
}
