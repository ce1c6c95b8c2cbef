# The commands of this project. Each is enough alone: it sets up what it needs, builds what is stale, and runs.
#
#   make demo  PYTHON=python3     uses that interpreter as it is (it must have torch) and installs nothing
#   make demo                     makes .venv from the package index
#
# TILEON_CPU_ONLY=1 builds without CUDA even where nvcc is; MAX_JOBS=<n> compiles n files at a time.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BASE_PYTHON ?=
RESULTS := benchmarks/results
MYPY_TARGETS := tileon_ops benchmarks tests/soak examples setup.py docs/conf.py $(wildcard .ci/*.py) .ci/compare_sass
# Files of tests run side by side, a process a core but no more than eight; one after the other without pytest-xdist.
SIDE_BY_SIDE ?= --numprocesses=auto --maxprocesses=8 --dist=loadfile --no-loadscope-reorder
SOAK_ARGS ?= --seconds 120 --processes 2
CXX_SOURCES = $(shell find csrc tests examples -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu')

ifeq ($(strip $(PYTHON)),)
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
LINT_READY := $(VENV)/.ready-lint
CLANG_FORMAT ?= $(firstword $(wildcard $(VENV)/bin/clang-format) clang-format)
else
PY := $(PYTHON)
READY := check-interpreter
LINT_READY :=
CLANG_FORMAT ?= clang-format
endif

.PHONY: help
help:
	@echo 'make demo      build, verify against torch, and a short benchmark with a plot'
	@echo 'make test      build, and run the test suite'
	@echo 'make lint      ruff, mypy, clang-format, and whether the pages say what the results say'
	@echo 'make docs      the documentation, with the reference of every function, in build/docs'
	@echo 'make linkcheck whether the links to other sites lead anywhere (needs the network)'
	@echo 'make soak      random calls of every op for two minutes, each checked'
	@echo 'make evidence  on a GPU machine: suite, sanitizers and benchmarks into $(RESULTS)/<gpu>'
	@echo 'make library   build only'
	@echo 'make watchdog  build build/watchdog/tileon_ops/_C.so, whose Hopper kernels fail instead of hanging'
	@echo 'make simulate  the GPU tests on a simulated GPU, for hours; make simulation: only its library'
	@echo 'make pictures  draw the pictures of $(RESULTS)/h200 that are missing or stale'
	@echo 'make wheel     dist/*.whl, of the library as it stands'
	@echo 'make compat    the built library under the oldest and the newest torch; make compat-wheel: the wheel'
	@echo 'make COMMIT    note the commit in a file, before the tree is copied to a machine without git'
	@echo 'make clean     remove what was built;  make distclean: and .venv'
	@echo
	@echo 'PYTHON=<interpreter with torch> is used as it is; without it everything goes into .venv.'

# Main jobs.

.PHONY: demo
demo: library
	@echo '== verify: every case of the tutorials against torch'
	@$(PY) -m tileon_ops
	@echo '== benchmark'
	@$(PY) benchmarks/matmul.py --preset demo --csv $(RESULTS)/demo/matmul.csv --plot $(RESULTS)/demo/matmul.png
	@echo '== block-scaled products: every format against dequantization, then a short benchmark'
	@$(PY) benchmarks/block_scaled_matmul.py --preset demo --seconds 0.1 \
	  --csv $(RESULTS)/demo/block_scaled.csv --plot $(RESULTS)/demo/block_scaled.png

.PHONY: test
test: library
	@$(PY) -c 'import pytest' 2>/dev/null || { \
	  echo '$(PY) has no pytest: install pytest and hypothesis there, or leave PYTHON= out and let make set up .venv'; exit 1; }
	$(PY) -m pytest $(shell $(PY) -c 'import xdist' 2>/dev/null && echo '$(SIDE_BY_SIDE)') $(PYTEST_ARGS)

.PHONY: soak
soak: library
	$(PY) tests/soak $(SOAK_ARGS)

.PHONY: evidence
evidence: library
	$(PY) benchmarks/run_all.py $(EVIDENCE_ARGS)

.PHONY: pictures
pictures: $(READY)
	$(PY) -m benchmarks.report.pictures $(PICTURES_ARGS)

.PHONY: compat
compat: library
	.ci/compat $(COMPAT_PYTHONS)

# The documentation. Sphinx reads the tree from its top, and imports the package for the reference.

SPHINX = $(PY) -m sphinx -c docs -W --keep-going -n -q

.PHONY: docs linkcheck check-sphinx
docs: library check-sphinx
	$(SPHINX) -b html . build/docs
	@echo 'build/docs/index.html'

linkcheck: library check-sphinx
	$(SPHINX) -b linkcheck . build/linkcheck

check-sphinx: library
	@$(PY) -c 'import furo, myst_parser, sphinx' 2>/dev/null || { \
	  echo '$(PY) has no Sphinx: install sphinx, myst-parser and furo there, or leave PYTHON= out and let make set up .venv'; exit 1; }

.PHONY: wheel compat-wheel
wheel: library
	@rm -f dist/*.whl
	$(PY) -W ignore setup.py -q bdist_wheel
	@ls -l dist/*.whl

compat-wheel: wheel
	.ci/compat --wheel dist/*.whl $(COMPAT_PYTHONS)

# The library. A fingerprint of the sources is compared with that of the library that is there, and nothing is done where
# they agree; file times do not matter, so a library built elsewhere can be dropped in.

.PHONY: library
library: $(READY)
	@$(PY) .ci/build_library.py

# Another library, of the same sources, for TILEON_LIBRARY to name.
.PHONY: watchdog
watchdog: $(READY)
	@TILEON_WATCHDOG=1 $(PY) .ci/build_library.py

# One whose kernels run on the CPU, beside a simulated GPU, and the GPU's tests with it.
.PHONY: simulation simulate
simulation: $(READY)
	@$(PY) tests/simulation/library.py

# A process a core shares the tests of a file too: test_config_rows.py takes most of the time.
simulate: simulation
	TILEON_LIBRARY=$(CURDIR)/build/simulation/tileon_ops/_C.so TILEON_TEST_LIMIT=900 OMP_NUM_THREADS=1 \
	  $(PY) -m pytest -q -m gpu --durations=10 \
	  $(shell $(PY) -c 'import xdist' 2>/dev/null && echo '--numprocesses=auto --dist=worksteal') $(PYTEST_ARGS)

# The interpreter: one that was named must have torch, and is left as it is.

.PHONY: check-interpreter
check-interpreter:
	@command -v $(PY) >/dev/null || { echo 'PYTHON=$(PY): there is no such program'; exit 1; }
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo 'PYTHON=$(PY) is older than Python 3.10'; exit 1; }
	@$(PY) -c 'import torch' || { \
	  echo 'PYTHON=$(PY) has no torch that can be imported: install torch >= 2.11 there, or leave PYTHON= out'; exit 1; }

# Otherwise .venv, made anew when what it must hold has changed or when it is broken.

$(VENV)/.ready: pyproject.toml .ci/requirements.py
	@set -e; \
	if ! $(VENV)/bin/python -m pip --version >/dev/null 2>&1; then \
	  base=''; \
	  for candidate in $(BASE_PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then base=$$candidate; break; fi; \
	  done; \
	  if [ -z "$$base" ]; then echo 'no Python from 3.10 on was found: name one with BASE_PYTHON='; exit 1; fi; \
	  echo "== making $(VENV) with $$($$base --version)"; \
	  rm -rf $(VENV); \
	  $$base -m venv $(VENV) || { \
	    rm -rf $(VENV); \
	    echo "$$base cannot make a virtual environment; on Debian and Ubuntu the package python3-venv is missing"; exit 1; }; \
	fi
	@echo '== installing torch and the packages of tests, benchmarks and documentation into $(VENV) (some GB, once)'
	@$(PY) .ci/requirements.py build project test bench docs > $(VENV)/requirements.txt
	@$(PY) -m pip install --disable-pip-version-check -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.ready-lint: $(VENV)/.ready pyproject.toml
	@echo '== installing the linters into $(VENV)'
	@$(PY) .ci/requirements.py dev > $(VENV)/requirements-lint.txt
	@$(PY) -m pip install --disable-pip-version-check -r $(VENV)/requirements-lint.txt
	@touch $@

# Linters.

.PHONY: lint lint-ruff lint-ruff-format lint-mypy lint-clang-format lint-tables
lint: lint-ruff lint-ruff-format lint-mypy lint-clang-format lint-tables

lint-ruff: $(LINT_READY)
	$(PY) -m ruff check .

lint-ruff-format: $(LINT_READY)
	$(PY) -m ruff format --check .

lint-mypy: $(LINT_READY)
	$(PY) -m mypy $(MYPY_TARGETS)

lint-clang-format: $(LINT_READY)
	@command -v $(CLANG_FORMAT) >/dev/null || { echo 'clang-format (14 or later) is missing: install it, or set CLANG_FORMAT='; exit 1; }
	@echo '$(CLANG_FORMAT) --dry-run -Werror <all C++ and CUDA files>'
	@$(CLANG_FORMAT) --dry-run -Werror $(CXX_SOURCES)

lint-tables: $(LINT_READY)
	$(PY) -m benchmarks.report.pages --check

# Whether the pictures show what the results say.
.PHONY: lint-pictures
lint: lint-pictures
lint-pictures: $(LINT_READY)
	$(PY) -m benchmarks.report.pictures --check

.PHONY: format
format: $(LINT_READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(CLANG_FORMAT) -i $(CXX_SOURCES)

# Housekeeping.

.PHONY: COMMIT
COMMIT:
	@rm -f $@; commit=$$($(if $(strip $(PYTHON)),$(PYTHON),python3) -m benchmarks.common.commit) && echo "$$commit" | tee $@

.PHONY: clean distclean
clean:
	rm -rf build dist *.egg-info tileon_ops/_C.so tileon_ops/_C.json COMMIT $(RESULTS)/demo
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find tileon_ops tests benchmarks examples .ci -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
