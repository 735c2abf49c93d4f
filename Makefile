# Two commands do everything on a fresh machine: make serve, make test.
# They need make and Python 3.11 or newer; PYTHON=… names another one.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
DATA_DIR ?= ../shared/data
BIN := .venv/bin

.PHONY: serve test lint format clean

serve: .venv/installed
	@exec $(BIN)/memphant serve

test: .venv/developed
	$(BIN)/pytest tests --data-dir=$(DATA_DIR)

lint: .venv/developed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: .venv/developed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "memphant needs Python 3.11 or newer: install it, or name one with PYTHON=…" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/developed: pyproject.toml .venv/installed
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

clean:
	rm -rf .venv dist build
