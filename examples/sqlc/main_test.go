package main

import (
	"testing"

	"github.com/onlyonce-go/onlyonce/examples/internal/storytest"
	"github.com/onlyonce-go/onlyonce/internal/engines"
)

func TestCharge(t *testing.T) { storytest.Run(t, open, engines.Names()...) }
