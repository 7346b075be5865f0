PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench bench-full docs nightly clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

demo: $(STAMP)  ## curate a sample conversation and explain every decision
	$(BIN)/history-curator demo

test: $(STAMP)  ## run every test, notebooks and documentation included
	$(BIN)/python -m pytest -n 2 -m "not nightly"

nightly: $(STAMP)  ## the properties with ten times the examples, and everything slow
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -n 2

lint: $(STAMP)  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## side by side with the peers, the quick part
	$(BIN)/python -m benchmarks

bench-full: $(STAMP)  ## side by side with the peers, everything
	$(BIN)/python -m benchmarks --full

docs: $(STAMP)  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean:  ## remove what the other commands made, except .venv
	rm -rf site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
