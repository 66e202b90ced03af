# `make` lists the targets.
GO       ?= go
TOOL     := $(GO) tool -modfile=tools/go.mod
BUF      := $(TOOL) buf
LINT     := $(TOOL) golangci-lint
FUZZTIME ?= 30s
# How tests are compiled. With GCFLAGS=-dwarf=false the compiler takes a fifth less CPU for a
# package, and nobody can debug the binary.
GCFLAGS  ?=
BASE     ?= main
PKGS     := ./...
REPORT   := ./.ci/report
# What the programs are built with: gRPC's own tracing, which nobody sees here, would keep
# every method of every type in them.
PROGRAM  := -trimpath -tags grpcnotrace
# The race detector looks at all Go, and leaves out SQLite, which is C made into Go: its
# memory is none that Go knows, so there is nothing to be found in it, and a fifth of
# the time of such tests went there.
RACE     := -race -gcflags='all=$(GCFLAGS)' -gcflags='modernc.org/...=$(GCFLAGS) -d=checkptr=0' \
            -gcflags='modernc.org/sqlite/lib=$(GCFLAGS) -race=false -d=checkptr=0'
# The package whose tests are whole installations in one process.
WHOLE    := internal/assembly
# The package that does nothing with the race detector, so its tests also run without.
PLAIN    := internal/rawconn
# More flags of go test: make test TESTFLAGS='-count=5 -run Fork'
TESTFLAGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## generate internal/gen from proto
	@$(BUF) generate

.PHONY: drift
drift: ## fail if internal/gen does not match proto
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && $(BUF) generate -o "$$fresh" && \
	{ diff -r internal/gen "$$fresh/internal/gen" || { echo "internal/gen is not what proto says: make generate"; exit 1; }; }

.PHONY: breaking
breaking: ## fail if proto is incompatible with the commit BASE (main)
	@$(BUF) breaking --against '.git#ref=$(BASE)'

.PHONY: lint
lint: ## lint the proto files and the code
	@$(BUF) lint
	@$(LINT) run $(PKGS) $(REPORT)
	@$(LINT) run --build-tags chaos ./internal/chaos/...
	@$(LINT) run --build-tags jaeger ./internal/assembly

.PHONY: vet
vet: ## go vet, also of what is different on other processors and other systems than Linux
	@$(GO) vet $(PKGS) $(REPORT)
	@for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(GO) vet ./internal/sandbox ./internal/rawconn || exit 1; done
	@GOOS=darwin $(GO) build ./internal/sandbox ./internal/rawconn

.PHONY: test
test: ## run all tests with the race detector (needs redis-server and postgresql)
	@command -v redis-server >/dev/null || { echo "redis-server is missing: apt-get install redis-server"; exit 1; }
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { echo "postgres is missing: apt-get install postgresql"; exit 1; }
	@# Whole installations in one process are for themselves: with the others beside them, which
	@# compute as much, they would wait for a processor longer than a link may be silent. A process
	@# with the race detector would sleep for a second before it ends.
	@listed=$$($(GO) list $(PKGS)) || exit 1; status=0; for which in -v -e; do \
	  all=$$(echo "$$listed" | grep $$which '$(WHOLE)$$'); \
	  [ -z "$$all" ] || GORACE=atexit_sleep_ms=0 $(GO) test $(RACE) -timeout 45m -parallel 4 $(TESTFLAGS) $$all || status=1; \
	done; ! echo "$$listed" | grep -q '$(PLAIN)$$' || $(GO) test $(TESTFLAGS) ./$(PLAIN) || status=1; exit $$status

# What decides, and what stores it.
QUICK := agentdef excerpt loop policy store tool transcript tree wire

.PHONY: quick
quick: ## run the tests of the core, and of the store on SQLite only, without the race detector
	@$(GO) test -short $(TESTFLAGS) ./internal $(QUICK:%=./internal/%)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@grep -rlE '^func Fuzz' --include='*_test.go' internal | xargs -n1 dirname | sort -u | while read dir; do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' $$dir/*_test.go | sed 's/func //'); do \
	    echo "$$dir $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x ./$$dir || exit 1; \
	  done; done

.PHONY: chaos
chaos: ## inject faults of every kind into an installation and check its promises (3 minutes)
	$(GO) test -tags chaos -run '^TestCampaign$$' -count=1 -v -timeout 10m ./internal/chaos

.PHONY: chaos-long
chaos-long: ## the same with at least 10,000 faults and 100,000 tasks
	COPPICE_CHAOS=long $(GO) test -tags chaos -run '^TestCampaign$$' -count=1 -v -timeout 60m ./internal/chaos

.PHONY: validate
validate: ## validate the manifests and the compose file
	@cd deploy/validate && $(GO) vet . && $(GO) test -count=1 .

.PHONY: vet-bench
vet-bench: ## vet and test the modules of the benchmarks
	@cd bench && $(GO) vet ./... && $(GO) test -count=1 ./...
	@cd bench/system && $(GO) vet ./... && $(GO) test -count=1 ./...
	@cd bench/systems/temporal && $(GO) vet ./...

ARCHS   ?= $(shell $(GO) env GOARCH)
TARGETS ?= orchestrator worker worker-tools coppice
TAG     ?= dev

.PHONY: images
images: ## build the images TARGETS for ARCHS, with buildah, podman or docker (BUILDER)
	@deploy/images/context.sh bin/images $(ARCHS)
	@for arch in $(ARCHS); do deploy/images/build.sh bin/images $(TAG) $$arch $(TARGETS) || exit 1; done

.PHONY: test-images
test-images: ## build the binaries twice and the scratch images offline (needs buildah, and root)
	$(GO) test -tags images -count=1 -v ./deploy/images

K8S := k8s.io/kubernetes/cmd
.PHONY: test-k8s
test-k8s: ## apply the manifests to a real control plane (needs kubectl; builds it first, 10 minutes of CPU)
	@mkdir -p bin/k8s && cd deploy/cluster && nice -n 19 $(GO) build -o ../../bin/k8s/ $(K8S)/kube-apiserver $(K8S)/kube-controller-manager \
	  $(K8S)/kube-scheduler go.etcd.io/etcd/server/v3 sigs.k8s.io/kwok/cmd/kwok
	cd deploy/cluster && $(GO) test -count=1 -v -timeout 30m .

bin/jaeger: deploy/jaeger/go.mod
	cd deploy/jaeger && nice -n 19 $(GO) build -o ../../bin/jaeger github.com/jaegertracing/jaeger/cmd/all-in-one

JAEGER_TEST := $(GO) test -tags jaeger -run '^TestJaeger$$' -count=1
.PHONY: test-jaeger
test-jaeger: bin/jaeger ## compare a tree's trace in a real Jaeger with the tree (builds Jaeger first, 3 minutes of CPU)
	$(JAEGER_TEST) -v -timeout 15m ./internal/assembly

# JAEGER_UI is a directory with the built pages of Jaeger, which its module lacks.
.PHONY: jaeger
jaeger: bin/jaeger build ## run a tree and show it in Jaeger until Ctrl-C
	@cd internal/assembly && JAEGER_UI=$(abspath $(JAEGER_UI)) COPPICE_JAEGER=stay COPPICE_TRACE_PICTURE=$(CURDIR)/bin/trace.svg $(JAEGER_TEST) -timeout 0

.PHONY: trace-picture
trace-picture: bin/jaeger ## redraw docs/trace.svg from a trace in Jaeger
	@COPPICE_TRACE_PICTURE=$(CURDIR)/docs/trace.svg $(JAEGER_TEST) -timeout 15m ./internal/assembly

# More flags of the benchmark: make bench BENCHFLAGS='--systems coppice-pg,river --rounds 5'
BENCHFLAGS ?=
.PHONY: bench
bench: ## measure Coppice and its peers (builds Temporal first, 5 minutes of CPU; needs redis-server, postgresql, npm)
	@mkdir -p bench/bin/coppice-bin && git describe --always --dirty --exclude '*' > bench/bin/coppice-commit
	@CGO_ENABLED=0 $(GO) build $(PROGRAM) -o bench/bin/coppice-bin/ ./cmd/...
	@cd bench && $(GO) build -o bin/ ./cmd/bench ./systems/...
	@cd bench/systems/temporal && $(GO) build -o ../../bin/ .
	@cd bench/restate && { test node_modules/.package-lock.json -nt package-lock.json || npm ci --ignore-scripts --no-audit --no-fund; }
	@bench/bin/bench --json bench/bin/samples.json $(BENCHFLAGS)

.PHONY: build
build: ## build the three binaries into bin
	@CGO_ENABLED=0 $(GO) build $(PROGRAM) -o bin/ ./cmd/...

.PHONY: verify
verify: drift lint vet test validate vet-bench chaos ## all checks that must pass before a change is handed in
