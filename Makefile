PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SMALL  := $(VENV)/.installed-cli

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench docs nightly package versions clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e ".[dev]"
	touch $@ $(SMALL)

# The demo needs the base and the command line only: seconds, where the rest takes minutes.
$(SMALL): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e ".[cli]"
	touch $@

demo: $(SMALL)  ## an agent's session, curated in front of you
	@$(BIN)/history-curator demo

test: $(STAMP)  ## run every test, notebooks and documentation included
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not nightly"

nightly: $(STAMP)  ## the properties with ten times the examples, and everything slow
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## measure costs and what views hold, and write docs/generated
	$(BIN)/python -m benchmarks

package: $(STAMP)  ## build the wheel, install it with each extra in an empty place, run it
	$(BIN)/python -m tests.packaging.try_wheel

versions:  ## the core on every Python that is installed, adapters on old and new frameworks
	$(PYTHON) -m tests.packaging.try_versions

docs: $(STAMP)  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean:  ## remove what the other commands made, except .venv
	rm -rf site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
