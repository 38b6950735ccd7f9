# One command each; `make` alone lists them. Needs Python 3.11 or newer and pip, no compiler.
#   make test PYTHON=python3.12          another interpreter
#   make test WORKERS=0 ARGS='-k gamma'  one process, some of the tests

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Old releases are deprecated by what they import themselves.
OLD_WARNINGS := -W ignore::DeprecationWarning -W ignore::FutureWarning

# Every worker computes on one thread, so that workers do not fight for cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -q

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-slow test-minimum check format docs bench dist clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## audit two small networks, the norm before and after; write demo/index.html
	$(BIN)/python examples/demo.py --out demo

test: $(VENV)/.installed-develop ## run the tests (but for those that take minutes)
	$(PYTEST) -m "not slow" $(ARGS)

test-browser: $(VENV)/.installed-develop ## run the tests of reports in a real browser (installs Chromium on Debian)
	@command -v chromium >/dev/null && command -v npm >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium npm; }
	FIRSTLIGHT_REQUIRE_BROWSER=1 $(PYTEST) -m browser tests/reporting $(ARGS)

test-slow: $(VENV)/.installed-develop ## run the tests that take minutes
	$(PYTEST) -m slow $(ARGS)

test-minimum: ## run the tests with the oldest dependencies that pyproject.toml admits, in .venv-minimum
	$(MAKE) test VENV=.venv-minimum EXTRAS=test,models,metrics,lightning CONSTRAINTS=constraints-minimum.txt ARGS='$(OLD_WARNINGS) $(ARGS)'

check: $(VENV)/.installed-develop ## lint, formatting, strict types, import staircase
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/hygiene/test_import_staircase.py

format: $(VENV)/.installed-develop ## rewrite the formatting and what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-develop ## build docs/_build/html, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.installed-develop ## run the benchmarks, print them beside their targets
	$(BIN)/python benchmarks/run.py $(ARGS)

dist: $(VENV)/.installed-develop ## build the wheel and the source archive into dist/
	$(BIN)/python -m hatchling build -d dist

clean: ## remove what these commands made, but for .venv
	rm -rf .venv-minimum demo dist build docs/_build docs/generated benchmarks/results
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests docs examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Installation: once, and again only when what is to be installed has changed.

EXTRAS      ?= develop
CONSTRAINTS ?= constraints.txt

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "firstlight needs Python 3.11 or newer; this is $$($(PYTHON) --version). Name another: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-develop: pyproject.toml constraints.txt $(CONSTRAINTS) | $(BIN)/python
	$(PIP) -c $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
	@touch $(VENV)/.installed $@
