# `make run` and `make test` need Python 3.11+ and a network, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test test-slow check bench bench-agents docs lock clean
run: $(READY)
	$(BIN)/murmura run examples/us-power-grid.toml

test: $(READY)
	$(BIN)/pytest -n 2

test-slow: $(READY)
	$(BIN)/pytest -m slow

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
	rm -rf $(VENV) murmura-out

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "murmura needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
