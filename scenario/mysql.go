package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

func mysqlEngine(ctx context.Context, pool *sql.DB) (engine, error) {
	e := engine{
		title: "MySQL", words: []string{wordMySQL},
		tables:  "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
		session: "SELECT CONNECTION_ID()",
		waits:   mysqlWaits,
		judge:   mysqlJudge,
	}
	var version, name, galera string
	if err := pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return e, err
	}
	if strings.Contains(version, "MariaDB") {
		e.title, e.words = "MariaDB", append(e.words, wordMariaDB)
	}
	err := pool.QueryRowContext(ctx, "SHOW SESSION VARIABLES LIKE 'wsrep_on'").Scan(&name, &galera)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return e, err
	}
	if galera == "ON" {
		e.title, e.words = "Galera, MariaDB", append(e.words, wordGalera)
	}
	e.title += " " + plain(version)
	return e, nil
}

// mysqlWaits reads the monitor of InnoDB. The table innodb_trx would say the
// same, but what it says may be old, the older the more often it is asked.
func mysqlWaits(ctx context.Context, n *node, w waiter) (yes bool, by []int64, err error) {
	var kind, name, status string
	if err := n.pool.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
		return false, nil, err
	}
	for transaction := range strings.SplitSeq(status, "---TRANSACTION ") {
		if strings.Contains(transaction, "\nLOCK WAIT ") &&
			strings.Contains(transaction, fmt.Sprintf(" thread id %d,", w.number)) {
			return true, nil, nil
		}
	}
	return false, nil, nil
}

func mysqlJudge(err error) (class, code string) {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return "", ""
	}
	class, ok = map[uint16]string{
		1062: errDuplicate, 1213: errDeadlock, 1205: errLockTimeout, 3572: errLockTimeout,
		1020: errSerialization, 1180: errSerialization, 3101: errSerialization,
	}[e.Number]
	if !ok {
		class = errOther
	}
	return class, fmt.Sprint(e.Number)
}
