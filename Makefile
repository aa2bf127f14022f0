# Everything here works in a fresh clone with Python 3.11+, pip, git and make: the first
# target that needs the environment makes it.

SHELL := /bin/sh
.DEFAULT_GOAL := help
# Not called PYTHON: that one belongs to the user, who names an interpreter for scripts/install with it.
IN_VENV := .venv/bin/python
# Twice the cores: much of the time goes into waiting for processes that are killed, cut and restarted.
WORKERS ?= $$($(IN_VENV) -c 'import os; print(2 * (os.cpu_count() or 1))')
# Kept bytecode halves the start of every process and of every later run; git ignores it.
unexport PYTHONDONTWRITEBYTECODE
# What `make check` reads besides the packages, as far as it is there.
SOURCES := $(wildcard app engine agents evaluators migrations bench scripts tests examples client)

.PHONY: help install runtime check format test test-long demo run cluster golden bench lock replay openapi web audit clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | while IFS='	' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

install: ## set up .venv from the lock (every target does, when needed)
	@scripts/install

# What serving and playing need, without the tools of tests and development: a third of the packages.
runtime:
	@scripts/install --runtime

check: install ## format, lint, strict types
	$(IN_VENV) -m ruff format --check $(SOURCES)
	$(IN_VENV) -m ruff check $(SOURCES)
	$(IN_VENV) -m mypy

format: install ## put the sources into shape
	$(IN_VENV) -m ruff format $(SOURCES)
	$(IN_VENV) -m ruff check --fix $(SOURCES)

# A test that ends its process is begun again in a new one: once tells enough.
PYTEST = $(IN_VENV) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 1

test: install ## the tests, SQLite and a real PostgreSQL included (ARGS="-k vote -x")
	$(PYTEST) -m "not long" $(ARGS)

test-long: install ## the tests that take long: kills, floods, outages, generators
	$(PYTEST) -m long $(ARGS)

demo: runtime ## start the service, play 20 games on it, show the results (ARGS=--exit to stop then)
	@$(IN_VENV) scripts/demo.py $(ARGS)

run: runtime ## serve on localhost (ARGS="--port 9000")
	@$(IN_VENV) -m app.cli serve $(ARGS)

cluster: install ## PostgreSQL, two APIs, workers, nginx and Prometheus on this machine (ARGS="--workers 2")
	@scripts/machine
	@$(IN_VENV) -m tests.cluster $(ARGS)

golden: install ## write the golden playthroughs again; say why in the commit
	$(IN_VENV) -m tests.golden $(ARGS)

bench: install ## print the table of speeds
	@$(IN_VENV) -m bench $(ARGS)

replay: runtime ## show a log as a readable playthrough (GAME=file)
	@test -n "$(GAME)" || { echo 'make replay GAME=...' >&2; exit 2; }
	@$(IN_VENV) -m app.cli replay show "$(GAME)" $(ARGS)

openapi: install ## write openapi/ and docs/problems.md again
	$(IN_VENV) -m app.cli.openapi openapi/openapi.json
	$(IN_VENV) -m app.protocol.asyncapi openapi/asyncapi.json
	$(IN_VENV) -m app.base.problem_kinds docs/problems.md

web: install ## build the pages in web/ into app/pages
	$(IN_VENV) -m scripts.web $(ARGS)

audit: install ## ask for known weaknesses of all locked packages (3: a database cannot be reached)
	@$(IN_VENV) -m scripts.audit

lock: ## resolve the dependencies again (ARGS=--upgrade for the newest)
	scripts/lock $(ARGS)

clean: ## remove the environment and every cache
	rm -rf .venv .venv.turn .mypy_cache .pytest_cache .ruff_cache .hypothesis .schemathesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
