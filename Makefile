# Targets with a comment behind ## are listed by make help.

GO ?= go
MODULES := . outbox/outboxpgx rehopotel cmd/rehop examples integration
# Go test for the report.
TESTS := $(GO) test -json -count=1 -timeout 60m
# Most tests of integration wait for servers, so more packages than there are processors run at once.
AT_ONCE ?= 4
# The race detector needs cgo, and so the C compiler that scripts/services installs where it can.
RACE = $(shell test "$$($(GO) env CGO_ENABLED)" = 1 && echo -race)
# What the race detector runs through of integration. It makes SQLite, which is C translated to Go, and templates ten times as slow, so tests with
# SQLite or a browser are built without it; and the other packages start processes, which it does not see.
RACED := ./admining ./connections ./errorqueues ./layouts ./publishing ./relaying ./retrying ./subscribing ./sweeping ./topologies ./triaging
STATICCHECK := $(CURDIR)/bin/staticcheck
REPORT := $(CURDIR)/bin/testreport
STRESS := $(CURDIR)/bin/stress/stress
export REHOP_SERVICES := $(CURDIR)/scripts/services
SHELL := /bin/bash -o pipefail

.PHONY: help demo test race matrix check unit integration services down faults faults-baseline faults-sql faults-sql-baseline stress bench console-bench scale soak fuzz fmt release
# What make stress runs, how often with each number of threads, and with how many threads that keep the processors busy.
PACKAGES ?= ./... ./outbox/outboxpgx/... ./rehopotel/... ./cmd/rehop/... ./examples/... ./integration/...
ROUNDS ?= 3
PROCS ?= 1,2,8
LOAD ?= $(shell nproc 2>/dev/null || echo 4)
RUN ?=
# What make matrix runs on.
RELEASES ?= 4.3 4.0 3.10
# What make test runs on the releases before the default one. The whole suite runs on that.
OLDER := 4.0 3.10
BY_RELEASE := ./conformance ./differential ./retrying ./faults

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## a shop whose messages fail, are retried and are replayed, live, on the embedded broker
	@$(GO) run ./cmd/rehop/demo

test: check services ## all checks and tests; installs and starts the servers that they need
	@failed=0; (eval "$$(scripts/services env)"; \
	$(TESTS) ./...; \
	(cd tools && GOWORK=off $(TESTS) ./...); \
	for m in outbox/outboxpgx rehopotel cmd/rehop examples; do (cd $$m && $(TESTS) ./...); done; \
	cd integration && $(TESTS) -p $(AT_ONCE) ./...) | $(REPORT) || failed=1; \
	for release in $(OLDER); do \
		echo "on RabbitMQ $$release:"; export REHOP_RABBITMQ=$$release; \
		(eval "$$(scripts/services env)"; cd integration && $(TESTS) -p $(AT_ONCE) -skip '^TestOrder$$' $(BY_RELEASE)) | $(REPORT) || failed=1; \
	done; exit $$failed

# The race detector of Go 1.26 crashes when two threads run timers of one synctest bubble, so packages with such tests use one thread each.
race: services $(REPORT) ## the tests in which goroutines meet, with the race detector; CI runs this after make test
	@test -n "$(RACE)" || { echo "cgo is off, or there is no C compiler: the race detector cannot run" >&2; exit 1; }
	@failed=0; (eval "$$(scripts/services env)"; \
	$(TESTS) -race -cpu 1 $$($(GO) list ./... | grep -v /internal/archtest$$); \
	(cd tools && export GOWORK=off; $(TESTS) -race $$($(GO) list ./... | grep -v /tools/release$$)); \
	for m in outbox/outboxpgx rehopotel cmd/rehop examples; do (cd $$m && $(TESTS) -race -cpu 1 ./...); done; \
	cd integration && { $(TESTS) -race -p $(AT_ONCE) $(RACED); $(TESTS) -race -run '^(TestPostgres|TestPgx|TestMySQL)$$' ./sqlboxes; }) | $(REPORT) || failed=1; exit $$failed

matrix: $(REPORT) ## the whole integration suite on each release of RabbitMQ; ends with a table. RELEASES chooses
	@scripts/services up $(foreach r,$(OLDER),rabbitmq-$r)
	@rm -f bin/matrix; failed=0; for release in $(RELEASES); do \
		export REHOP_RABBITMQ=$$release REHOP_REQUIRE_SERVICES=1; \
		scripts/services up || exit 1; \
		eval "$$(scripts/services env)"; \
		(cd integration && $(TESTS) -p $(AT_ONCE) ./...) | $(REPORT) -table bin/matrix -title "rabbitmq=$$REHOP_RABBITMQ_VERSION" || failed=1; \
	done; cat bin/matrix; exit $$failed

unit: $(REPORT) ## only the tests that need nothing but Go
	@$(TESTS) ./... | $(REPORT)

check: $(STATICCHECK) $(REPORT) ## gofmt, vet and staticcheck
	@unformatted="$$(gofmt -l .)"; test -z "$$unformatted" || { echo "not formatted, run make fmt:" $$unformatted >&2; exit 1; }
	@for m in $(MODULES); do (cd $$m && $(GO) vet ./... && $(STATICCHECK) ./...) || exit 1; done
	@cd tools && GOWORK=off $(GO) vet ./... && GOWORK=off $(STATICCHECK) ./...

services: ## install and start the servers that the tests use
	@{ scripts/services up && scripts/services up $(foreach r,$(OLDER),rabbitmq-$r cluster-$r); } || test "$$REHOP_REQUIRE_SERVICES" != 1

down: ## stop those servers and delete what they left
	@scripts/services down

faults: services ## the delivery suite and messages in order by key under every fault on RabbitMQ, crashes of the embedded broker, outbox and inbox, queues that are migrated or moved to another broker, and go install, at length; most end with one line: confirmed=… lost=…
	@cd cmd/rehop && REHOP_FAULTS=long $(GO) test . -run '^TestInstall$$' -count=1 -v -timeout=60m
	@cd integration && REHOP_FAULTS=long $(GO) test ./faults -run '^TestFaults$$' -count=1 -v -timeout=90m
	@cd integration && REHOP_FAULTS=long $(GO) test ./faults -run '^TestOrder$$' -count=1 -v -timeout=240m
	@$(GO) test ./internal/ordering -run '^TestModel' -count=1 -v -timeout=60m -args -runs=20000
	@cd integration && REHOP_FAULTS=long $(GO) test ./crashes -run '^TestCrashes$$' -count=1 -v -timeout=60m
	@cd integration && REHOP_FAULTS=long $(GO) test ./boxfaults -run '^(TestBoxFaults|TestBoxFaultsSQLite|TestOrder|TestOrderSQLite)$$' -count=1 -v -timeout=60m
	@eval "$$(scripts/services env)"; cd integration && $(GO) test ./sqlboxes -run '^(TestSQLite|TestPostgres|TestMariaDB|TestMySQL|TestPgx)$$/^order$$/^ManyWriters$$' -count=1 -v -timeout=30m -args -writing=60s
	@cd integration && REHOP_FAULTS=long $(GO) test ./migrating -run '^(TestMigrateKilled|TestMigrateToOrderedKilled|TestMigrateCanceledAtEachStep|TestMigrateManyMessages)$$' -count=1 -v -timeout=60m
	@cd integration && REHOP_FAULTS=long $(GO) test ./moving -run '^(TestMoveKilled|TestMoveToCluster)$$' -count=1 -v -timeout=120m

faults-baseline: ## the same auditor on the usual recipe (classic TTL+DLX), which must be caught losing messages
	@cd integration && REHOP_FAULTS=baseline $(GO) test ./faults -run '^TestBaseline$$' -count=1 -v -timeout=30m

faults-sql: ## each database's server killed 150 times and more under load, with outbox and inbox; ends with one line for each: db=… kills=… lost=…
	@cd integration && REHOP_FAULTS=long $(GO) test ./boxfaults -run '^TestDatabaseKills$$' -count=1 -v -timeout=120m

faults-sql-baseline: services ## the same test of an outbox and an inbox with seeded bugs, each of which must be caught
	@cd integration && REHOP_FAULTS=baseline $(GO) test ./boxfaults -run '^TestDatabaseKillsBaseline$$' -count=1 -v -timeout=120m

faults-seeded: services ## the tests of the promises with twelve bugs that lose or multiply messages, each of which must be caught within 20 runs
	@eval "$$(scripts/services env)"; cd integration && REHOP_FAULTS=baseline $(GO) test ./seeded -run '^TestBugsAreFound$$' -count=1 -v -timeout=180m

stress: $(STRESS) $(if $(findstring integration,$(PACKAGES)),services) ## each package's tests again and again, with few and many threads, on a busy machine; ends with what failed how often. PACKAGES, ROUNDS, PROCS, LOAD and RUN choose
	@eval "$$(scripts/services env)"; GOWORK=$(CURDIR)/integration/go.work $(STRESS) $(RACE) -rounds $(ROUNDS) -procs $(PROCS) -load $(LOAD) -run '$(RUN)' $(PACKAGES)

bench: services ## rehop compared with three other clients on RabbitMQ, the embedded broker with RabbitMQ, the outbox with two others, a flow with a bare loop, sweeps of failed messages with publishing, and order by key with none, as ratios
	@eval "$$(scripts/services env)"; cd integration && \
	$(GO) test ./bench -run '^TestCompare$$' -count=1 -v -timeout=60m -args -rounds=12 -messages=20000 -retries=2000 && \
	$(GO) test ./bench -run '^TestOrdered$$' -count=1 -v -timeout=60m -args -rounds=7 -messages=60000 -judge && \
	$(GO) test ./brokers -run '^TestBrokers$$' -count=1 -v -timeout=60m -args -rounds=7 -messages=40000 && \
	$(GO) test ./relaying -run '^TestRelaying$$' -count=1 -v -timeout=60m -args -rounds=5 -messages=20000 -lasting=10s -judge && \
	$(GO) test ./relaying -run '^TestBacklog$$' -count=1 -v -timeout=60m -args -rounds=5 -messages=50000 -backlog=1000000 -judge && \
	$(GO) test ./relaying -run '^TestBarrier$$' -count=1 -v -timeout=60m -args -rounds=5 -messages=20000 -lasting=5s -judge && \
	$(GO) test ./relaying -run '^TestSnapshot$$' -count=1 -v -timeout=60m -args -rounds=3 -dead=100000 -rate=100 -lasting=5s -judge && \
	$(GO) test ./relaying -run '^TestInbox$$' -count=1 -v -timeout=60m -args -rounds=5 -handled=5000 && \
	$(GO) test ./binary -run '^TestThroughput$$' -count=1 -v -timeout=60m -args -rounds=9 -messages=20000 -judge && \
	$(GO) test ./sweeping -run '^(TestRates|Test.*Killed)$$' -count=1 -v -timeout=60m -args -rounds=3 -messages=100000 -judge
	@export REHOP_RABBITMQ=4.3; scripts/services up cluster && eval "$$(scripts/services env)" && cd integration && \
	$(GO) test ./bench -run '^TestDelayedRetry$$' -count=1 -v -timeout=60m -args -rounds=5 -retries=5000 -wait=1s

console-bench: services ## the index of failed messages with a million rows, its runs and its service while processes are killed
	@eval "$$(scripts/services env)"; cd integration && failed=0; \
	measure() { $(GO) test ./triaging -count=1 -v -timeout=120m -run "$$@" || failed=1; }; \
	measure '^TestSQLiteIndex$$' -args -rows=1000000 -judge; \
	measure '^TestIndex$$/^PostgreSQL$$' -args -rows=300000 -judge; \
	measure '^TestSQLiteFeed$$' -args -feed-queued=50000 -judge; \
	measure '^TestSQLiteVisible$$' -args -visible-rate=1000 -visible-some=30000 -judge; \
	measure '^TestSQLiteRunKilled$$' -args -run-kills=20 -run-set=100000 -run-others=200000 -judge; \
	measure '^TestRuns$$/^Canary$$'; \
	measure '^TestSQLiteServiceKilled$$' -args -feed-kills=20 -feed-some=2000; \
	measure '^(TestSQLiteKeep|TestSQLiteKeepFull|TestKeep)$$' -args -keep-rounds=5 -keep-messages=5000; \
	exit $$failed

scale: ## the embedded broker with a million messages waiting, a million delayed, many queues and many connections
	@cd integration && $(GO) test ./brokers -run '^(TestWaiting|TestDelayed|TestMany)$$' -count=1 -v -timeout=60m \
	-args -judge -waiting=1000000 -delayed=1000000 -messages=200000 -queues=10000 -connections=5000

soak: ## an hour of steady load on the embedded broker: memory and disk must not grow
	@cd integration && $(GO) test ./brokers -run '^TestSoak$$' -count=1 -v -timeout=90m -args -soak=60m

fuzz: ## each fuzz target for a short time
	@for p in $$(grep -rl --include='*_test.go' 'func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -ho 'func Fuzz[A-Za-z0-9]*' $$p/*_test.go | sed 's/func //'); do \
			echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime 20s $$p || exit 1; done; done

release: ## build VERSION=v0.1.0 for linux, macOS and Windows, with Debian packages, an OCI image, checksums and SBOMs, in dist, and try it
	@test -n "$(VERSION)" || { echo "no version: name one, as in make release VERSION=v0.1.0" >&2; exit 2; }
	@rm -rf dist
	@cd tools && GOWORK=off $(GO) run ./release -root .. -out ../dist -go "$(GO)" -version "$(VERSION)"
	@cd tools && GOWORK=off $(GO) test ./release -run '^TestRelease$$' -count=1 -timeout 120m -args -dist="$(CURDIR)/dist"

fmt: ## format all Go files
	@gofmt -w .

$(STATICCHECK): tools/go.mod
	@cd tools && GOWORK=off $(GO) build -o $@ honnef.co/go/tools/cmd/staticcheck

$(STRESS): $(wildcard tools/stress/*.go)
	@cd tools && GOWORK=off $(GO) build -o $@ ./stress

$(REPORT): $(wildcard tools/testreport/*.go)
	@cd tools && GOWORK=off $(GO) build -o $@ ./testreport
