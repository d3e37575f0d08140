# `make run` and `make test` need Python 3.11+ and a network, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test quick test-slow test-integration check coverage mutants bench bench-agents docs dist lock clean
run: $(READY)
	$(BIN)/murmura run examples/us-power-grid.toml

test: $(READY)
	$(BIN)/pytest -n 2

# Unit and property tests, without sockets or other processes: under a minute.
quick: $(READY)
	$(BIN)/pytest -n 2 --quick

# What the tests execute; compiled kernels are not seen. Fails below the number in pyproject.toml.
coverage: $(READY)
	$(BIN)/pytest -n 2 --cov --cov-report=xml --cov-report=term:skip-covered

# Change one expression of the privacy code at a time: does a test notice? Prints the score.
mutants: $(READY)
	$(BIN)/python tools/mutants.py $(MUTANTS)

dist: $(READY)
	$(BIN)/python -m hatchling build

test-slow: $(READY)
	$(BIN)/pytest -m slow

# Against mosquitto, PostgreSQL and Chromium of the system; with CI=true a skip is a failure.
test-integration: $(READY)
	$(BIN)/pytest -n 2 --integration -m integration

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

bench-agents: $(READY)
	$(BIN)/python -m benchmarks.agents

docs: $(READY)
	$(BIN)/python docs/generate.py

# Needs uv on the PATH; pins every dependency of every extra, for every platform and Python.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --all-extras --group dev pyproject.toml \
	  -o requirements.lock

clean:
	rm -rf $(VENV) murmura-out dist coverage.xml .coverage

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "murmura needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
