package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"syscall"
)

// FreezeStandby stops the standby's process that receives what the primary
// writes, so that every COMMIT hangs. Promote ends it: what the primary has
// written meanwhile never arrives.
func (p *PostgresPair) FreezeStandby() {
	p.t.Helper()
	var pid int
	standby := p.URLs[1-p.primary]
	until(p.t, "the standby receives", standby, func(ctx context.Context, db *sql.DB) (bool, error) {
		err := db.QueryRowContext(ctx, "SELECT pid FROM pg_stat_wal_receiver").Scan(&pid)
		return err == nil, err
	})
	signals := func(all ...syscall.Signal) error {
		for _, sig := range all {
			if err := syscall.Kill(pid, sig); err != nil {
				return fmt.Errorf("send %v to the standby's receiver: %w", sig, err)
			}
		}
		return nil
	}
	if err := signals(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	// The end comes first, so that it reads nothing more once it goes on.
	p.thaw = func() error { return signals(syscall.SIGTERM, syscall.SIGCONT) }
}
