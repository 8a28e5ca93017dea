# Every target runs on a machine with Go, make and git; the tests need curl and openssl as well, for the commands that the documentation
# shows, and Debian's chromium for the page, and two rows of the benchmark need strace. Tools are pinned in tools/go.mod and compiled on first use.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export GOTOOLCHAIN ?= local
# Without the traces of gRPC, the linker drops the methods that nothing calls: 10 MB of the binary.
export GOFLAGS += -tags=grpcnotrace

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
IMAGE   ?= notifier:$(VERSION)
MODULES := . test test/alarms test/kubectl test/vendors tools
# Pins the programs that the tests run, and has no code of its own to vet.
PINS    := test/flux
# The other systems of machines on which owners run the commands.
COMMANDS_ON := darwin windows
TOOL    := go tool -modfile=$(CURDIR)/tools/go.mod
# "make check" vets the tests too, so they are not vetted a second time.
GOTEST  := go test -count=1 -timeout=20m -vet=off

# Tests wait more than they compute, so more of them run at once than there are processors. Those under test/ run without the race
# detector themselves: that would compile all of Kubernetes once more. The notifier they start is built with it. The tests of ALONE
# load a machine as far as it goes, so they run after the others and one after the other. What takes longest begins first. The packages that
# play what Flux does with its times, replay and gitops, run before those that load the machine, HEAVY. They wait for two thirds of their
# time, so the packages of LIGHT run beside them, one at a time. Two at a time take as long in all, since both processors are busy, and slow
# down the plays. The small packages fill the gaps at the end. Flux's controllers, the destinations and kubectl, whose compiling takes all
# processors for minutes, are compiled before that.
ALONE := ^Test(E2T4NothingIsLostOver|T6AFloodIsNotFeltByAnotherTenant|T6AThousandReadsASecond|AnotherReplicaTakesOverInTime)
LIGHT := limits browser access install conformance
HEAVY := chaos e2e

# The race detector needs cgo and a C compiler; without one the tests run all the same.
RACE := $(shell command -v "$$(go env CC)" >/dev/null 2>&1 && [ "$$(go env CGO_ENABLED)" = 1 ] && echo -race)

# They compute or copy for long in one goroutine, where the race detector finds nothing and makes them ten times as slow. The last one runs
# under it with a quota of 40.
PLAIN := ^TestEventsAreValidAsForTheSDK$$|^TestT6AnOversizedObjectIsKeptSmall$$|^TestT6AWalkOverLargeMessagesKeepsFewInMemory$$
PLAIN := $(PLAIN)|^TestAMillionIDsOfEventsTakeABoundedMemory$$|^TestSentDeliveriesAreRememberedInAFewMegabytes$$
PLAIN := $(PLAIN)|^TestT6TheLinesAboutANamespacesDeliveriesAreBounded$$|^TestTheValuesOfABudgetAreSmall$$
PLAIN := $(PLAIN)|^TestE5AHealthyProviderLosesNothingBesideBrokenOnes$$/quota_10000
PLAIN_IN := receiver/cel receiver/verify/cdevents reconcile/kube bus bus/browse alerts

# A program built with the race detector sleeps for a second before it exits, for races that goroutines may still find then.
export GORACE ?= atexit_sleep_ms=50

.PHONY: help
help: ## Show the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Run the main job on a real control plane, step by step (KEEP=1 stays up).
	KEEP="$(KEEP)" go -C test run ./cmd/demo

# The tests build a program once in a run, however many packages use it; see test/env/build.go.
test: export TEST_RUN := $(shell date +%s%N)
.PHONY: test
test: ## Run every test, end-to-end tests on a real control plane included.
	$(GOTEST) -p 4 -parallel 8 $(RACE) -skip '$(PLAIN)' ./internal/receiver/... ./internal/bus ./...
	$(GOTEST) -run '$(PLAIN)' $(PLAIN_IN:%=./internal/%)
	cd tools && $(GOTEST) ./...
	cd test/alarms && $(GOTEST) ./...
	cd test && $(GOTEST) -run '^Test(TheControllersAreReleasesOfFlux|TheVendorsAreReleases|TheKubectlIsARelease)$$' ./gitops ./destinations ./e2e
	cd test && $(GOTEST) -p 3 -skip '$(ALONE)' ./replay ./gitops $(LIGHT:%=./%) $(HEAVY:%=./%) \
	  $$(go list ./... | grep -v $(patsubst %,-e '/%$$',replay gitops $(LIGHT) $(HEAVY)))
	cd test && $(GOTEST) -p 1 -run '$(ALONE)' ./chaos ./limits

.PHONY: bench
bench: ## Measure, and print one table of ratios (ROWS=<regexp> takes some measurements only).
	go -C test run ./cmd/bench -run '$(ROWS)'

.PHONY: scale
scale: ## Run beside a cluster of NAMESPACES (default 50; the bounds are those of 5000) and print what it costs.
	go -C test run ./cmd/scale -namespaces "$${NAMESPACES:-50}" -quiet "$${QUIET:-5s}"

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME (default 10s).
	for pkg in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    go test -run '^$$' -fuzz "^$$f\$$" -fuzztime "$${FUZZTIME:-10s}" $$pkg; \
	  done; \
	done

.PHONY: build
build: ## Build bin/notifier, a static binary.
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/notifier ./cmd/notifier

.PHONY: image
image: ## Build the container image (IMAGE=notifier:<version>) with buildah, podman or docker.
	@builder=$$(command -v buildah || command -v podman || command -v docker || true); \
	if [ -z "$$builder" ]; then echo "make image needs buildah, podman or docker, and none is installed" >&2; exit 1; fi; \
	set -x; "$$builder" build --build-arg VERSION=$(VERSION) -t $(IMAGE) -f Dockerfile .

.PHONY: controlplane
controlplane: ## Run a bare Kubernetes control plane until interrupted; prints its kubeconfig.
	go -C test run ./cmd/controlplane

.PHONY: generate
generate: ## Generate deepcopy functions and CRDs from api/.
	rm -f config/crd/bases/*.yaml
	$(TOOL) controller-gen object paths=./api/... crd output:crd:dir=config/crd/bases

.PHONY: format
format: ## Format the Go code.
	$(TOOL) golangci-lint fmt

.PHONY: vulncheck
vulncheck: ## List the known vulnerabilities that the code reaches, in modules and in Go itself (VULNDB=https://vuln.go.dev).
	$(TOOL) govulncheck -db $(or $(VULNDB),https://vuln.go.dev) ./...

# State of the work tree: what differs from the commit, and how. The gate compares it before and after, so that it holds in a
# fresh clone and beside uncommitted work alike.
STATE := git status --porcelain; git diff

.PHONY: check
check: ## Generate, format, tidy, cross-compile, vet and lint; fails if anything committed was stale.
	@before=$$(mktemp); after=$$(mktemp); trap 'rm -f "$$before" "$$after"' EXIT; \
	{ $(STATE); } >"$$before"; \
	$(MAKE) --no-print-directory generate format; \
	for m in $(MODULES) $(PINS); do echo "go mod tidy -diff ($$m)"; go -C $$m mod tidy -diff; done; \
	{ $(STATE); } >"$$after"; \
	if ! diff -u "$$before" "$$after"; then \
	  echo "make check: the files above were stale or not formatted; they are mended now, commit them" >&2; exit 1; fi
	for os in $(COMMANDS_ON); do echo "go build ($$os)"; CGO_ENABLED=0 GOOS=$$os go build -o /dev/null ./cmd/notifier; done
	for m in $(MODULES); do echo "go vet ($$m)"; go -C $$m vet ./...; done
	for m in $(MODULES); do echo "golangci-lint ($$m)"; (cd $$m && $(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml); done
