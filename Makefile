# One command runs it, one tests it. `make help` lists the rest.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNS := $(VENV)/.runs
# Tests are spread over this many processes. Each has a service and a PostgreSQL of its own, and waits for them often:
# there may be one more than cores.
WORKERS ?= 3
# How many values are made up for each test on generated ones; `make unit` takes fewer.
EXAMPLES ?= 60
# Which values those are: the same each time, so that only a change can break a test. `make unit` makes up others each time.
SEED ?= 0
PYTEST := $(BIN)/python -m pytest
# Compiled files are kept: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test check fix unit bench clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv and install Hedgerow with everything its tests need

# Who only runs it waits for less.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hedgerow needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2])'
	@test -x $(BIN)/python || { echo "Making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing into $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '$(1)'
endef

$(STAMP): pyproject.toml constraints.txt
	$(call install,.[dev])
	@touch $@ $(RUNS)

$(RUNS): pyproject.toml constraints.txt
	$(call install,.)
	@touch $@

run: $(RUNS) ## Start the service on http://127.0.0.1:8000, data in ./hedgerow-data
	@exec $(BIN)/hedgerow serve

test: check ## Set up, run every check and every test: the same line CI runs
	HEDGEROW_TEST_EXAMPLES=$(EXAMPLES) $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --hypothesis-seed=$(SEED)

check: setup ## Formatting, lint, types and import contracts
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: setup ## Format and repair what can be repaired
	$(BIN)/ruff format src tests benchmarks examples
	$(BIN)/ruff check --fix src tests benchmarks examples

unit: setup ## Only the unit tests, a few seconds
	@$(MAKE) --no-print-directory --jobs=2 --output-sync unit-half-0 unit-half-1

# Each half in a process that reads no other's files; pytest-xdist would have both read all.
unit-half-%:
	@$(PYTEST) --quiet $$(find tests/unit -name 'test_*.py' | sort | awk 'NR % 2 == $*')

bench: setup ## Every benchmark, each beside its reference
	$(BIN)/python -m benchmarks.state
	$(BIN)/python -m benchmarks.http
	$(BIN)/python -m benchmarks.records
	$(BIN)/python -m benchmarks.decide
	$(BIN)/python -m benchmarks.definitions
	$(BIN)/python -m benchmarks.event_store
	$(BIN)/python -m benchmarks.events
	$(BIN)/python -m benchmarks.experiments
	$(BIN)/python -m benchmarks.capture
	$(BIN)/python -m benchmarks.deliver
	$(BIN)/python -m benchmarks.transforming

clean: ## Remove .venv and caches; never touches your data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
