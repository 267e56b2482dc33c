# Needs Go alone. The race detector also needs a C compiler; without one the tests run without it and say so.
GO ?= go
# For each package: longer than the slowest takes on two busy cores, short enough that a hang is seen.
TIMEOUT ?= 6m

# Go says 1 where it found a C compiler and nobody has turned it off.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),yes)
# Where goroutines share something. The race detector makes SQLite about ten times slower, so what crashes at every
# statement or fills large tables is left out of this second run; the first has run it.
RACE_PACKAGES = . ./cmd/... ./httponce/... ./payments/flow/... ./payments/provider/... ./server/... ./sqlstore/...
RACE_SKIP = ^TestCrashAtEveryStatement$$

.DEFAULT_GOAL := help
.PHONY: help test lint run demo cover

help: ## list what can be made
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name what; do \
		printf '  make %-8s %s\n' "$$name" "$$what"; done

test: ## run every test, on every database engine that this release has
	$(GO) test -timeout $(TIMEOUT) ./...
	$(if $(RACE),$(GO) test -race -timeout $(TIMEOUT) -skip '$(RACE_SKIP)' $(RACE_PACKAGES))
	@echo "engines that ran: sqlite (PostgreSQL and MySQL are not in this release);" \
		"race detector: $(if $(RACE),on,off (no C compiler))"

lint: ## check formatting, vet and staticcheck
	@files=$$($$($(GO) env GOROOT)/bin/gofmt -l .); if [ -n "$$files" ]; then echo "run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

run: ## serve on 127.0.0.1:8017 with an SQLite file in this folder and the sandbox provider
	$(GO) run ./cmd/onlyonce serve

demo: ## play crashes and lost answers against a server of its own
	$(GO) run ./cmd/onlyonce demo

cover: ## run the tests and show how much of each function they reach
	@mkdir -p bin
	$(GO) test -timeout $(TIMEOUT) -coverpkg=./... -coverprofile=bin/cover.out ./...
	$(GO) tool cover -func=bin/cover.out
