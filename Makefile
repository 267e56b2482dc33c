# Needs Go alone. What else is missing is fetched (database servers) or left out and said so (the race detector, which
# needs a C compiler).
GO ?= go
# For each package: longer than the slowest takes on two busy cores, short enough that a hang is seen.
TIMEOUT ?= 8m

# Go says 1 where it found a C compiler and nobody has turned it off.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),yes)
# Where goroutines share something. The race detector makes SQLite about ten times slower, so what crashes at every
# statement or fills large tables is left out of this second run, and one server of each kind is enough for it; the
# first has run it all.
RACE_PACKAGES = . ./cmd/... ./httponce/... ./payments/flow/... ./payments/provider/... ./pgxstore/... ./scenario/... ./server/... \
	./sqlstore/...
RACE_SKIP = ^TestCrashAtEveryStatement$$|/^(postgres-18|pgbouncer|mysql)$$|^TestConformance$$/^sqlite$$/./^DoKeepsDifferentKeysApart$$

# For the programs that are built on the way.
BIN ?= $(CURDIR)/bin
STATICCHECK = $(BIN)/staticcheck
# Starts the database servers, runs what follows --, and stops them. ONLYONCE_ENGINES says which must be there.
WITH = $(BIN)/with
# How often make clusters kills a Galera node and promotes a PostgreSQL standby.
KILLS ?= 20
PROMOTIONS ?= 10
CLUSTERS_TIMEOUT ?= 30m

.DEFAULT_GOAL := help
.PHONY: help test tests engines clusters matrix lint run demo cover $(WITH)

help: ## list what can be made
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name what; do \
		printf '  make %-8s %s\n' "$$name" "$$what"; done

test: $(WITH) ## run every test, on every database engine that is here or can be fetched
	$(WITH) -- $(MAKE) --no-print-directory tests

tests:
	$(GO) test -timeout $(TIMEOUT) ./...
	cd examples && $(GO) test -timeout $(TIMEOUT) ./...
	$(if $(RACE),$(GO) test -race -timeout $(TIMEOUT) -skip '$(RACE_SKIP)' $(RACE_PACKAGES))
	@echo "race detector: $(if $(RACE),on,off (no C compiler)); clusters: not in this run, see make clusters"

engines: $(WITH) ## keep the database servers up, for go test in another shell
	$(WITH) --up

clusters: ## kill and promote servers of real clusters, KILLS and PROMOTIONS times
	ONLYONCE_CLUSTERS=1 KILLS=$(KILLS) PROMOTIONS=$(PROMOTIONS) $(GO) test -v -count=1 -p 1 -timeout $(CLUSTERS_TIMEOUT) \
		./internal/engines/cluster ./integration/clusters
	ONLYONCE_CLUSTERS=1 $(GO) test -v -count=1 -p 1 -timeout $(CLUSTERS_TIMEOUT) -run 'Galera|Cluster' ./scenario ./integration

matrix: $(WITH) ## run the stores' tests over isolation levels and drivers' modes
	ONLYONCE_MATRIX=1 $(WITH) -- $(GO) test -count=1 -timeout $(CLUSTERS_TIMEOUT) ./sqlstore ./pgxstore ./storetest

$(WITH):
	$(GO) build -o $@ ./internal/engines/with

lint: ## check formatting, vet and staticcheck
	@files=$$($$($(GO) env GOROOT)/bin/gofmt -l .); if [ -n "$$files" ]; then echo "run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	cd examples && $(GO) vet ./...
	$(GO) build -o $(BIN)/staticcheck honnef.co/go/tools/cmd/staticcheck
	$(STATICCHECK) ./...
	cd examples && $(STATICCHECK) ./...

run: ## serve on 127.0.0.1:8017 with an SQLite file in this folder and the sandbox provider
	$(GO) run ./cmd/onlyonce serve

demo: ## play crashes and lost answers against a server of its own
	$(GO) run ./cmd/onlyonce demo

cover: $(WITH) ## run the tests and show how much of each function they reach
	$(WITH) -- $(GO) test -timeout $(TIMEOUT) -coverpkg=./... -coverprofile=$(BIN)/cover.out ./...
	$(GO) tool cover -func=$(BIN)/cover.out
