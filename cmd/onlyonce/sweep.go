package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// sweepCmd does once what `serve` does all the time.
type sweepCmd struct {
	engineFlags
	JSON bool `name:"json"`
}

func (sweepCmd) example() string { return "onlyonce sweep\nonlyonce sweep --json" }

// sweptLine is what one pass did.
type sweptLine struct {
	TakenOver int   `json:"takenOver"` // abandoned claims
	Looked    int   `json:"looked"`    // unknowns that were looked at, resolved or not
	Reaped    int64 `json:"reaped"`    // rows turned into tombstones or deleted
}

// Run makes one pass of the completer, the resolver and the reaper.
func (c *sweepCmd) Run(p *program) error {
	if path := c.path(); path != "" {
		if o, err := p.openExisting(c.storeFlags); err != nil {
			return err
		} else {
			o.close()
		}
	}
	log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h, err := c.build(p.ctx, log, false, func(context.Context, *db.DB) error { return nil })
	if err != nil {
		return err
	}
	defer h.close()
	var swept sweptLine
	var errs [3]error
	swept.TakenOver, errs[0] = h.completer().Sweep(p.ctx)
	swept.Looked, errs[1] = (&flow.Resolver{Flow: h.flow, Log: log}).Sweep(p.ctx)
	swept.Reaped, errs[2] = h.reaper().Sweep(p.ctx)
	if c.JSON {
		errs[0] = errors.Join(errs[0], writeJSON(p.stdout, swept))
	} else {
		fmt.Fprintf(p.stdout, "%s, %s, %s.\n",
			plural(swept.TakenOver, "abandoned claim taken over", "abandoned claims taken over"),
			plural(swept.Looked, "unknown looked at", "unknowns looked at"),
			plural(int(swept.Reaped), "expired key reaped", "expired keys reaped"))
	}
	return errors.Join(errs[:]...)
}
