# make        what there is
# make demo   everything on this machine, at work
# make test   every test

GO   ?= go
TOOL := CGO_ENABLED=0 $(GO) tool -modfile=tools/go.mod

# The toolchain that releases are built with; the go command fetches it.
export GOTOOLCHAIN := go1.27.3
export GOFLAGS ?= -buildvcs=false

TEST_TIMEOUT ?= 20m
FUZZ_TIME    ?= 20s
DEMO_FLAGS   ?=
BENCH_FLAGS  ?=
STEPS        ?= 100000
FAULT_ROUNDS ?= 3
ENTRIES      ?= 10000000
SCALE        ?= 100

.PHONY: help demo build test verify lint gen deps prove scale steps faults ingest simulate bench e2e-12 fuzz race vuln clean go

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: go ## run everything here: console, three gateways, PostgreSQL, Redis, sample tenants, traffic
	@sh scripts/deps.sh pg redis
	@$(MAKE) --no-print-directory build
	@exec ./bin/headgate demo $(DEMO_FLAGS)

build: go ## build bin/headgate
	@[ -x bin/headgate ] || echo "Building headgate. The first time (downloads, empty build cache) takes one to two minutes on two cores."
	@mkdir -p bin
	$(GO) build -o bin/headgate ./cmd/headgate

test: go ## run every test, with real PostgreSQL, Redis and Chromium; none is skipped
	@echo "make test: a cold run (empty build cache) takes about 10 minutes on two cores, a warm one 3 to 6."
	@sh scripts/deps.sh pg redis browser
	@$(MAKE) --no-print-directory verify
	$(GO) test -count=1 -timeout=$(TEST_TIMEOUT) ./...
	cd bench && $(GO) test -count=1 -timeout=$(TEST_TIMEOUT) ./...

verify: go ## check that generated code is fresh and sources are formatted and vetted
	$(TOOL) templ generate -path views -check
	$(TOOL) templ fmt -fail views
	$(TOOL) sqlc diff
	@out="$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go'))"; \
	  if [ -n "$$out" ]; then echo "gofmt has something to say about:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	cd bench && $(GO) vet ./...

lint: go ## run golangci-lint (the first time it takes two minutes to build)
	$(TOOL) golangci-lint run ./...
	cd bench && CGO_ENABLED=0 $(GO) tool -modfile=../tools/go.mod golangci-lint run -c ../.golangci.yaml ./...

gen: go ## write generated code: templ, sqlc, OpenAPI
	$(TOOL) templ generate -path views -log-level=error
	$(TOOL) templ fmt views
	$(TOOL) sqlc generate
	$(GO) generate ./...

deps: go ## install what demo and test need: PostgreSQL, Redis, Chromium
	@sh scripts/deps.sh pg redis browser

prove: go ## hold the product to its promises about time, one test at a time, and print what was measured
	@sh scripts/deps.sh pg redis browser
	HEADGATE_E2E_STRICT=1 $(GO) test -count=1 -timeout=20m -parallel=1 -v ./internal/e2e

scale: go ## fill a database with SCALE percent (100) of 100 000 tenants and a million keys, and measure pages, relay and replica (half an hour)
	@sh scripts/deps.sh pg redis
	HEADGATE_SCALE=$(SCALE) $(GO) test -count=1 -timeout=120m -parallel=1 -v ./internal/scale
	$(GO) test -run '^$$' -bench Bulk_ImportKeys -benchtime 1x -timeout 30m ./console -bulkrows $(SCALE)0000

steps: go ## hold every store to the model over long random traces (STEPS of them, 100000)
	@sh scripts/deps.sh redis
	HEADGATE_STEPS=$(STEPS) $(GO) test -count=1 -timeout=30m -run 'Conform|Linearizable|_I25_' ./limiter/memstore ./limiter/redisstore ./limiter/storetest

faults: go ## break Redis, Sentinel, Cluster and gateways in every way of the tests, the long way and FAULT_ROUNDS times
	@sh scripts/deps.sh pg redis pgbouncer
	PATH="$$PATH:/usr/sbin" $(GO) test -count=1 -timeout=10m -tags pgbouncer -run Pooler ./db
	HEADGATE_FAULTS=long $(GO) test -count=$(FAULT_ROUNDS) -timeout=60m -parallel=2 -run '_R[0-9]+_|_I[0-9]+_|Sentinel|Cluster' ./limiter/... ./policy/feed ./gateway/... ./cmd/headgate
	HEADGATE_FAULTS=long $(GO) test -count=1 -timeout=60m -parallel=2 -v -run '_U[0-9]+_|_I(07|08|12)_|_P(01|13)_|_A(08|22)_|_B2_|_R10[0-9]_|_R11[0-2]_|Receipt_' ./usage/... ./receipt ./notify ./gateway/... ./console ./internal/csvout ./limiter/redisstore
	HEADGATE_FAULTS=long $(GO) test -count=1 -timeout=60m -parallel=2 -v ./internal/e2e

ingest: go ## measure how many events of usage a second the ledger takes in, beside COPY of the same rows, and how late
	@sh scripts/deps.sh pg
	$(GO) test -run '^$$' -bench Ledger_T13 -benchtime 1x -timeout=30m ./console

simulate: go ## replay a log of ENTRIES decisions (10 million) under two policies, and print how long it takes
	$(GO) test -run '^$$' -bench Simulate -benchtime 1x -timeout=30m ./replay -entries $(ENTRIES)

# What Envoy's door is measured beside: the rate limit service of the Envoy project.
RATELIMIT := v1.4.1-0.20260122083618-3fb702589d36

bench: go ## measure the limiter beside its peers; BENCH_FLAGS=-quick for a minute, BENCH_FLAGS="-peer ADDR" for an Envoy service
	@sh scripts/deps.sh redis
	@$(MAKE) --no-print-directory build
	@GOBIN=$(CURDIR)/bin $(GO) install github.com/envoyproxy/ratelimit/src/service_cmd@$(RATELIMIT) || echo "The peer's service cannot be built here; its rows are left out."
	cd bench && $(GO) run . -out ../docs/benchmarks.md -gateway ../bin/headgate $$([ -x ../bin/service_cmd ] && echo -peer-binary ../bin/service_cmd) $(BENCH_FLAGS)

e2e-12: go ## one limit over twelve gateways
	@sh scripts/deps.sh pg redis
	HEADGATE_E2E_GATEWAYS=12 $(GO) test -count=1 -timeout=10m -v -run '^TestOneLimit' ./internal/e2e

fuzz: go ## fuzz each decoder for FUZZ_TIME
	@sh scripts/fuzz.sh $(FUZZ_TIME)

race: go ## run every test under the race detector
	@sh scripts/deps.sh pg redis browser
	$(GO) test -race -count=1 -timeout=40m ./...

VULNDB := golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018

vuln: go ## look for known vulnerabilities (works where only the Go module proxy is reachable)
	cd tools/vulndb && $(GO) mod download golang.org/x/vulndb && $(GO) tool indexdb -vulns "$$($(GO) list -m -f '{{.Dir}}' golang.org/x/vulndb)/data/osv" -out ../../.vulndb
	$(TOOL) govulncheck -db "file://$(CURDIR)/.vulndb" ./...

clean: ## remove what was built
	rm -rf bin .vulndb

go:
	@sh scripts/go.sh
