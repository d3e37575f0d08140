# `make run` and `make test` need Python 3.11+ and a network, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Stamps, written when an installation is complete: what `make run` needs, and all the rest.
RUN := $(VENV)/.run
TEST := $(VENV)/.test

.PHONY: run test quick test-slow test-integration soak soak-fleet check coverage mutants bench bench-agents bench-growth docs site dist sbom sizes lock clean
run: $(RUN)
	$(BIN)/veilsum run examples/us-power-grid.toml --out veilsum-out/us-power-grid

test: $(TEST)
	$(BIN)/pytest -n 2

# Unit and property tests, without sockets or other processes: under a minute.
quick: $(TEST)
	$(BIN)/pytest -n 2 --quick

# What the tests execute; compiled kernels are not seen. Fails below the number in pyproject.toml.
coverage: $(TEST)
	$(BIN)/pytest -n 2 --cov --cov-report=xml --cov-report=term:skip-covered

# Change one expression of the privacy code at a time: does a test notice? Prints the score.
mutants: $(TEST)
	$(BIN)/python tools/mutants.py $(MUTANTS)

dist: $(RUN)
	$(BIN)/python -m hatchling build

# The software bill of materials: what the wheel and its extras bring, CycloneDX in JSON.
sbom: $(TEST)
	$(BIN)/python tools/sbom.py

# Installed size, import time and available wheels of every extra: docs/install.json. Needs a network.
sizes: $(TEST)
	$(BIN)/python tools/sizes.py

test-slow: $(TEST)
	$(BIN)/pytest -m slow

# A year of hourly readings of 50 agents in virtual time, then real processes over sockets: at most
# 20 minutes. Figures: tests/soak/soak.json. `make soak SOAK="--agents 8 --hours 168"` is a week.
soak: $(TEST)
	$(BIN)/python -m tests.soak $(SOAK)

# A year of 50 sites of a fleet that step every hour, in virtual time. Figures: tests/fleet/soak.json.
# `make soak-fleet SOAK="--sites 8 --hours 168"` is a week.
soak-fleet: $(TEST)
	$(BIN)/python -m tests.fleet.soak --record $(SOAK)

# Against mosquitto, PostgreSQL, Chromium, promtool and systemd-analyze of the system; notebooks, site and
# wheels too. With CI=true a skip is a failure.
test-integration: $(TEST)
	$(BIN)/pytest -n 2 --integration -m integration

check: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Ends with the targets that were missed, and why. MKL takes part where `pip install mkl` has been run.
bench: $(TEST)
	$(BIN)/python -m benchmarks

# Time and memory of a round as agents, links and runs grow: benchmarks/growth.json and its figure.
bench-growth: $(TEST)
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.growth --figure

bench-agents: $(TEST)
	$(BIN)/python -m benchmarks.agents

docs: $(TEST)
	$(BIN)/python docs/generate.py

# The site of all pages, in veilsum-out/site; a warning or a broken link fails.
site: $(TEST)
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet -j auto \
	  -d veilsum-out/site-doctrees docs veilsum-out/site
	$(BIN)/python -m docs.check_site veilsum-out/site

# Needs uv on the PATH; pins for every platform and Python. What is pinned stays: `make lock UPGRADE=--upgrade`.
COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --quiet $(UPGRADE) pyproject.toml
lock:
	$(COMPILE) --extra sim --extra plot --group build -o requirements.lock
	$(COMPILE) --all-extras --group build --group dev -c requirements.lock -o requirements-test.lock

clean:
	rm -rf $(VENV) veilsum-out dist veilsum.cdx.json coverage.xml .coverage

# A lock is complete: `--no-deps` installs what it pins and asks nothing else of an index (to resolve
# anew, a newer release of a package that another one wants with an extra fails); `pip check` says if
# something is missing after all.
# Always from an empty environment: `--clear` removes both stamps with everything else.
$(RUN): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "veilsum needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pip check --quiet
	@touch $@

# Adds to it: the versions are the same, so that nothing is installed twice.
$(TEST): requirements-test.lock $(RUN)
	@rm -f $@
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements-test.lock
	$(BIN)/pip check --quiet
	@touch $@
