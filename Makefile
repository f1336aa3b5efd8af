# The menu. Every verb makes what it needs first and is safe to run twice.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
export PYTHONUNBUFFERED := 1

.PHONY: help
help: ## list these verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.PHONY: demo
demo: setup-core ## set everything up, run the main example on this machine and show its result
	@scripts/demo

.PHONY: test
test: setup system-packages check ## set everything up, run all checks and the whole test suite
	@scripts/test

.PHONY: check
check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports

.PHONY: sim
sim: setup ## live through simulated worlds:  make sim SEEDS=100 FROM=0  (one: SEED=7; how often each broken rule is seen: MUTANTS=all)
ifdef ARGS
	$(BIN)/python -m pytest tests/sim $(ARGS)
else ifdef MUTANTS
	$(BIN)/python -m placet.testing.world --mutants $(filter-out all,$(MUTANTS)) --rates --seeds $(or $(SEEDS),30) --from $(or $(FROM),0) --processes $(or $(PROCESSES),$(shell nproc))
else ifdef SEED
	$(BIN)/python -m placet.testing.world --seed $(SEED)
else
	$(BIN)/python -m placet.testing.world --seeds $(or $(SEEDS),100) --from $(or $(FROM),0) --processes $(or $(PROCESSES),$(shell nproc))
endif

.PHONY: bench
bench: setup ## run one benchmark:  make bench NAME=line ARGS="--json"
	@test -n "$(NAME)" || { echo "which one? NAME=$$(grep -l __main__ bench/*.py | sed 's:bench/::;s:\.py::' | paste -sd'|')"; exit 2; }
	$(BIN)/python -m bench.$(NAME) $(ARGS)

.PHONY: docs
docs: setup ## write the generated parts of the docs
	$(BIN)/python scripts/generate_docs.py

.PHONY: serve
serve: setup-core ## run the server on this machine
	$(BIN)/placet server $(ARGS)

.PHONY: setup
setup: ## make .venv with everything for development
	@scripts/setup dev

.PHONY: setup-core
setup-core:
	@scripts/setup core

.PHONY: system-packages
system-packages:
	@scripts/system-packages

.PHONY: clean
clean: ## remove .venv, caches and what the demo left
	rm -rf .venv .placet .setup.lock build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
