# LM Warden. `make help` lists the targets.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# -z lazy: NVML's functions are looked up when they are called; with -z now a
# driver that lacks one of them would end the program at its start.
LDFLAGS := -s -w -X main.version=$(VERSION) -extldflags=-Wl,-z,lazy
BIN     := bin/lmwarden
GO      ?= go
# NVML marks functions of its own header as deprecated; the binding wraps them all.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
NPM     := npm --prefix ui

GOLANGCI_VERSION := v2.15.0
GOFUMPT_VERSION  := v0.12.0
GRPCURL_VERSION  := v1.9.4
TOOLS            := $(CURDIR)/.cache/tools

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/lmwarden (needs Go only; the page's build is committed)
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/lmwarden

.PHONY: demo
demo: build ## run the daemon with a simulated four-card box and traffic
	$(BIN) demo $(ARGS)

.PHONY: install
install: ## install lmwarden into GOBIN, else ~/go/bin
	$(GO) install -trimpath -ldflags "$(LDFLAGS)" ./cmd/lmwarden

# ---- tests ---------------------------------------------------------------------

.PHONY: test
test: deps build test-go properties test-ui test-nix test-page ## pass all tests (installs what is missing; no GPU)
	@echo "all tests passed"

.PHONY: test-go
test-go: build $(TOOLS)/grpcurl ## Go: all packages, under the race detector
	LMWARDEN_BINARY=$(CURDIR)/$(BIN) LMWARDEN_GRPCURL=$(TOOLS)/grpcurl $(GO) test -race -timeout 20m ./...

.PHONY: properties
properties: ## properties of routing and admission on CHECKS (default 4000) random runs each, under the race detector
	$(GO) test -race -count=1 -timeout 60m -run 'Propert' ./proxy/route -rapid.checks $(or $(CHECKS),4000)

.PHONY: test-ui
test-ui: deps-ui ## page: types, lint, unit tests
	$(NPM) run check
	$(NPM) test

.PHONY: test-page
test-page: build deps-ui deps-chromium ## page: a real daemon in a real Chromium
	tests/page/run.sh $(BIN)

.PHONY: test-nix
test-nix: ## Nix: parse every file, evaluate the module and its refusals
	nix/check.sh

.PHONY: test-vllm
test-vllm: build ## a real vLLM on the CPU, and real clients (7 GB into the user's cache folder, once)
	tests/vllm/run.sh $(BIN)
	tests/clients/run.sh $(BIN)

.PHONY: test-clients
test-clients: build ## real clients, whole, with scripted engines (1.1 GB into the user's cache folder, once)
	tests/clients/run.sh $(BIN)

.PHONY: gpu-check
gpu-check: ## on a machine with an NVIDIA card: what is read beside what nvidia-smi says
	$(GO) test -tags hardware -count=1 -v -run TestHardware ./supervisor/gpu/

.PHONY: fuzz
fuzz: ## fuzz each target for FUZZTIME (default 30s)
	@for target in $$(grep -rlE '^func Fuzz' --include=*_test.go . | xargs -n1 dirname | sort -u); do \
	  for name in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$target/*_test.go | sed 's/func //'); do \
	    echo "$$target $$name"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(or $(FUZZTIME),30s) $$target; done; done

.PHONY: bench
bench: ## Go benchmarks of the hot path
	$(GO) test -run '^$$' -bench . -benchmem ./proxy/...

.PHONY: bench-proxy
bench-proxy: build ## the proxy beside nginx and a bare Go proxy, each a process of its own (2.5 minutes; ARGS: flags)
	@PATH=$$PATH:/usr/sbin scripts/apt-need.sh nginx nginx-light || echo "going on without nginx" >&2
	$(BIN) bench proxy $(ARGS)

.PHONY: soak
soak: ## REQUESTS (default 1000000) of all shapes through the proxy; fails when anything is left of them (minutes)
	$(GO) run ./tests/soak -requests $(or $(REQUESTS),1000000)

.PHONY: peers
peers: build ## other routers beside ours on the same simulated engines (ARGS: flags; 256 MB into the user's cache folder, once)
	tests/peers/run.sh $(BIN) $(ARGS)

.PHONY: peers-full
peers-full: build ## every arm at 24 sessions, 3 rounds with the best three peers, into docs/peers.md (23 min, quiet machine)
	tests/peers/run.sh $(BIN) -steps 24 -speed 4 -duration 45s -rounds 3 -finalists 3 -write docs/peers.md $(ARGS)

.PHONY: admission-table
admission-table: ## working-set admission beside the rule without it, on all loads, in virtual time (3 min)
	@$(GO) test -v -count=1 -timeout 30m -run '^TestAdmissionTable$$' ./sim/run -admission.table

.PHONY: study-table
study-table: ## the simulation beside an earlier study of the same box, in virtual time (2 min)
	@$(GO) test -v -count=1 -timeout 30m -run '^TestStudy$$' ./sim/run -study.table

.PHONY: agree
agree: build ## the simulated engine in real time beside virtual time, at 4, 8 and 16 sessions (10 min, quiet machine)
	tests/peers/run.sh $(BIN) -own -arms 'lmwarden seed' -steps 4,8,16 -speed 1 -duration 3m -virtual $(ARGS)

.PHONY: measure-vllm
measure-vllm: build ## two real vLLMs on the CPU, without and with admission, at 4 to 24 sessions (10 min, quiet machine)
	tests/vllm/measure.sh $(BIN) $(ARGS)

# ---- code ----------------------------------------------------------------------

.PHONY: generate
generate: deps-ui ## generate code from the protos, and the page's build
	ui/node_modules/.bin/buf generate
	$(NPM) run build
	$(GO) run ./cmd/lmwarden docs settings > docs/settings.md
	$(GO) run ./cmd/lmwarden docs nix > nix/options.nix

.PHONY: check-generate
check-generate: generate ## fail when generating changes a committed file
	@git diff --exit-code --stat -- gen ui/src/gen ui/dist docs/settings.md nix/options.nix || \
	  { echo "generated files differ from the committed ones: run make generate and commit"; exit 1; }
	@test -z "$$(git status --porcelain -- gen ui/src/gen ui/dist)" || \
	  { git status --short -- gen ui/src/gen ui/dist; echo "generated files are missing from the repository: commit them"; exit 1; }

.PHONY: lint
lint: deps-ui $(TOOLS)/golangci-lint $(TOOLS)/gofumpt ## Go, protos and page: lint and format
	ui/node_modules/.bin/buf lint
	ui/node_modules/.bin/buf format -d --exit-code proto
	@unformatted=$$($(TOOLS)/gofumpt -l $$(git ls-files '*.go' | grep -v '^gen/')); \
	  test -z "$$unformatted" || { echo "gofumpt would change:"; echo "$$unformatted"; exit 1; }
	$(TOOLS)/golangci-lint run ./...
	$(GO) mod tidy -diff
	CGO_ENABLED=0 $(GO) vet ./...
	$(NPM) run check

.PHONY: fmt
fmt: $(TOOLS)/gofumpt ## format Go, protos and page
	$(TOOLS)/gofumpt -w $$(git ls-files '*.go' | grep -v '^gen/')
	ui/node_modules/.bin/buf format -w proto
	cd ui && node_modules/.bin/biome check --write src tests

.PHONY: check
check: lint check-generate test ## everything that CI runs but the real engine

# ---- what a machine lacks ------------------------------------------------------

.PHONY: deps
deps: deps-tools deps-ui deps-chromium deps-nix ## install what the tests need

.PHONY: deps-ui
deps-ui: ui/node_modules/.package-lock.json

ui/node_modules/.package-lock.json: ui/package.json ui/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or newer (Debian: apt-get install nodejs npm)"; exit 1; }
	$(NPM) ci --no-audit --no-fund
	@touch $@

.PHONY: deps-tools deps-chromium deps-nix
deps-tools: ## a C compiler for the race detector, and what the scripts call
	@scripts/apt-need.sh gcc gcc
	@scripts/apt-need.sh curl curl
	@scripts/apt-need.sh python3 python3
deps-chromium: ## Chromium for the page's tests
	@scripts/apt-need.sh chromium chromium
deps-nix: ## the Nix evaluator for the module's tests
	@scripts/apt-need.sh nix-instantiate nix-bin

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
$(TOOLS)/gofumpt:
	GOBIN=$(TOOLS) $(GO) install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)
$(TOOLS)/grpcurl:
	GOBIN=$(TOOLS) $(GO) install github.com/fullstorydev/grpcurl/cmd/grpcurl@$(GRPCURL_VERSION)

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin .cache ui/test-results ui/playwright-report
