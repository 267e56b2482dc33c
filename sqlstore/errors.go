package sqlstore

import (
	"errors"
	"fmt"
)

// The conditions of the store itself; each comment says what the caller does
// next. Test them with errors.Is.
var (
	// ErrUnavailable: the database could not be reached or could not write.
	// Nothing is durable of what was asked. Send the same request again with
	// the same key once the store is back.
	ErrUnavailable = errors.New("the store can't be reached; nothing was run")

	// ErrBusy: the store had no connection or write lock to give within
	// Options.BusyWait, or the caller's context ended first. No effect was run.
	// It is also an ErrUnavailable. Send the same request again, with the same
	// key, a little later.
	ErrBusy = fmt.Errorf("no turn within the time allowed: %w", ErrUnavailable)

	// ErrRaced is for the work of DB.InTx to return, wrapped or not, when it saw
	// that a rival was quicker: everything is undone and the whole of it runs
	// again, as after a deadlock. A caller that gets it has lost every try, or
	// all of Options.BusyWait; it is then also an ErrBusy.
	ErrRaced = errors.New("a rival transaction was quicker")

	// ErrUnsafeSettings: a connection's settings could lose a commit that was
	// reported as done. Nothing was run. The message names the setting; correct
	// it, no retry helps.
	ErrUnsafeSettings = errors.New("the database's settings can lose money")

	// ErrSchemaOld: the tables are older than this program. Run
	// "onlyonce migrate" (DB.Migrate), then start again.
	ErrSchemaOld = errors.New("the database's schema is older than this program: run `onlyonce migrate`, " +
		"or DB.Migrate in a service that uses the library")

	// ErrSchemaNew: the tables were made by a newer release that does not say
	// that this one can use them. Run that release; never force this one.
	ErrSchemaNew = errors.New("the database's schema is newer than this program and not marked as compatible with it")
)
