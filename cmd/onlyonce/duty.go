package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// duty is one thing that goes on in the background until its context is done.
type duty struct {
	name string
	run  func(ctx context.Context) error
}

// shift runs duties together: when one fails, all are told to stop.
type shift struct {
	wg   sync.WaitGroup
	stop context.CancelCauseFunc
	mu   sync.Mutex
	errs []error
}

// begin starts the duties. The context that it returns is done when one of
// them has failed, or when the shift was ended.
func begin(ctx context.Context, duties []duty) (*shift, context.Context) {
	ctx, stop := context.WithCancelCause(ctx)
	s := &shift{stop: stop}
	for _, d := range duties {
		s.wg.Go(func() {
			if err := d.run(ctx); err != nil {
				err = fmt.Errorf("%s: %w", d.name, err)
				s.mu.Lock()
				s.errs = append(s.errs, err)
				s.mu.Unlock()
				stop(err)
			}
		})
	}
	return s, ctx
}

// end tells all duties to stop, waits until they have, and returns what went wrong.
func (s *shift) end() error {
	s.stop(nil)
	s.wg.Wait()
	return errors.Join(s.errs...)
}
