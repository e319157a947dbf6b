# `make demo` and `make test` are all a newcomer needs. PYTHON chooses the interpreter (3.11 or 3.12).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CLUSTER_STAMP := $(VENV)/.cluster
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed
VERIFIERS := .venv-verifiers
VERIFIERS_STAMP := $(VERIFIERS)/.installed
# Files of tests that run side by side; 0 runs one after the other.
TEST_JOBS ?= 2
SIDE_BY_SIDE := -n $(TEST_JOBS) --dist loadfile

.PHONY: demo test test-all test-long ready vllm verifiers lint docs bench chaos damage capacity suite clean

demo: $(STAMP)
	$(BIN)/envwright run tiny

test: $(STAMP)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-all: $(CLUSTER_STAMP) $(VLLM_STAMP)
	ENVWRIGHT_VLLM_REQUIRED=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not gpu and not long" --durations=15

# What does not fit into CI; needs PostgreSQL's server and Chromium.
test-long: $(CLUSTER_STAMP) $(VLLM_STAMP) $(VERIFIERS_STAMP)
	ENVWRIGHT_POSTGRES_REQUIRED=1 ENVWRIGHT_BROWSER_REQUIRED=1 ENVWRIGHT_VLLM_REQUIRED=1 $(BIN)/python -m pytest -m long

vllm: $(VLLM_STAMP)

verifiers: $(VERIFIERS_STAMP)

# All that lint and test-all need; with -j2 both environments are installed side by side.
ready: $(CLUSTER_STAMP) $(VLLM_STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/pyright --pythonpath $(BIN)/python

# The documentation as a site in build/site; a dead link or anchor fails.
docs: $(STAMP)
	$(BIN)/python tests/documentation/pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python tests/perf/bench.py

chaos: $(STAMP)
	$(BIN)/python tests/chaos/kill_matrix.py

# Ten thousand damaged files, an hour; DAMAGE="--files 50 --only Parquet" for some of them.
damage: $(STAMP)
	$(BIN)/python tests/chaos/damage.py $(DAMAGE)

capacity: $(STAMP)
	$(BIN)/python tests/perf/capacity_table.py

# The digest that it prints belongs into envgen/mapf/benchmark.py.
suite: $(STAMP)
	$(BIN)/python -c "from envgen.mapf.benchmark import write_suite; print(write_suite())"

# torch first: with the tested version in place, nothing asks for another build of it.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 13) else "envwright needs Python 3.11 or 3.12; choose one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m envgen.mapf.precompile
	touch $(STAMP)

# What only the tests of Ray, Kubernetes and reasoning-gym need (0.4 GB).
$(CLUSTER_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ray,kubernetes,reasoning-gym]'
	touch $(CLUSTER_STAMP)

# For the tests of the engine, and a server to ask; in an environment of its own: vLLM wants other versions of numba and xgrammar.
$(VLLM_STAMP): requirements-vllm.txt
	$(PYTHON) -m venv --clear $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-vllm.txt
	touch $(VLLM_STAMP)

# For the test of exported packages; in an environment of its own (0.7 GB): verifiers wants another version of openai.
$(VERIFIERS_STAMP):
	$(PYTHON) -m venv --clear $(VERIFIERS)
	$(VERIFIERS)/bin/python -m pip install --quiet --disable-pip-version-check verifiers==0.4.0 drawsvg numba numpy pyarrow
	touch $(VERIFIERS_STAMP)

clean:
	rm -rf $(VENV) $(VLLM) $(VERIFIERS)
