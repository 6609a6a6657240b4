# The steps of check are those of .ci/run, so a change that passes here passes there.
.DEFAULT_GOAL := help

FUZZTIME ?= 10s
SIMRUNS  ?= 2000
SIMFROM  ?= $(shell date +%s)
CHAOSRUNS ?= 10
CHAOSTIME ?= 60s
export PROMPT ?= Which Go files here are the longest, and what do they do?
tool     := go tool -modfile=.ci/tools/go.mod

.PHONY: help check test race vet lint fmt-check fmt fuzz sim chaos bench scale run cover build

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check: ## Run everything that a change must pass
	@.ci/run fmt-check lint test race

test: ## Run every test
race: ## Test the concurrent packages with the race detector
vet: ## Run go vet
lint: ## Run the linters; the first time builds them, which takes minutes
fmt-check: ## Show what fmt would change
test race vet lint fmt-check:
	@.ci/run $@

fmt: ## Format the source and its imports
	$(tool) golangci-lint fmt

fuzz: ## Run each fuzz target for FUZZTIME
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; \
	  done; \
	done

sim: ## Run SIMRUNS random sessions and cells, starting at seed SIMFROM
	go test ./tests/sim -run Survive -timeout 0 -sim.from $(SIMFROM) -sim.runs $(SIMRUNS) -sim.cells $$(($(SIMRUNS) / 10))

chaos: ## Torture CHAOSRUNS deployments for CHAOSTIME each, starting at seed SIMFROM
	go test ./tests/chaos -v -timeout 0 -chaos.seed $(SIMFROM) -chaos.runs $(CHAOSRUNS) -chaos.duration $(CHAOSTIME)

bench: ## Run the Go benchmarks, then measure round trips
	go test -run '^$$' -bench . -benchmem ./...
	go run ./cmd/turnlog bench

scale: ## Measure what a deployment holds, and work out what a million sessions take
	go test ./tests/scale -run '^$$' -bench Cell -benchtime 1x
	go run ./tests/scale

run: ## Ask PROMPT about this directory
	go run ./cmd/turnlog run "$$PROMPT"

cover: ## Show the coverage of each function
	@mkdir -p bin
	go test -coverpkg=./... -coverprofile=bin/cover.out ./...
	go tool cover -func=bin/cover.out

build: ## Build the binaries into bin/
	go build -o bin/ ./cmd/...
