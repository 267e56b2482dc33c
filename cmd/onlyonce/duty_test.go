package main

import (
	"context"
	"errors"
	"testing"
)

func TestWhenOneDutyFailsAllAreTold(t *testing.T) {
	broken := errors.New("broken")
	stopped := make(chan struct{})
	s, ctx := begin(t.Context(), []duty{
		{"patient", func(ctx context.Context) error {
			<-ctx.Done()
			close(stopped)
			return nil
		}},
		{"failing", func(context.Context) error { return broken }},
	})
	<-stopped
	if err := context.Cause(ctx); !errors.Is(err, broken) || err.Error() != "failing: broken" {
		t.Errorf("the cause is %v", err)
	}
	if err := s.end(); !errors.Is(err, broken) {
		t.Errorf("the end says %v", err)
	}
}

func TestTheEndWaitsForTheDuties(t *testing.T) {
	flushed := false
	s, ctx := begin(t.Context(), []duty{{"flushing", func(ctx context.Context) error {
		<-ctx.Done()
		flushed = true
		return nil
	}}})
	if err := s.end(); err != nil || !flushed || ctx.Err() == nil {
		t.Errorf("%v, flushed %v, %v", err, flushed, ctx.Err())
	}
}
