# Two commands do everything on a fresh machine with Python 3.11+: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# How many processes share the tests: more than two cores, as each waits for nodes half of its time.
WORKERS ?= 3

.PHONY: run spark test test-long check format generate setup bench lock clean help

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.run ## start one node on 127.0.0.1:9092
	$(BIN)/headrace serve $(ARGS)

spark: $(VENV)/.spark ## add what pipelines on Spark need to .venv

setup: $(VENV)/.dev ## prepare .venv for development: commands, tools, client libraries

test: $(VENV)/.dev ## run every test but the long ones; properties with the same examples each time
	tools/install-optional
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not long" --hypothesis-profile=ci $(ARGS)

test-long: $(VENV)/.dev ## run the campaigns: crashes, power cuts, thousands of seeds, properties with new examples
	tools/install-optional
	$(BIN)/pytest -m long $(ARGS)
	$(BIN)/pytest tests/properties --hypothesis-profile=default

check: $(VENV)/.dev ## format, lint, types, import contracts, generated code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_messages.py --check
	$(BIN)/python tools/write_settings_page.py --check

format: $(VENV)/.dev ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(VENV)/.dev ## write wire/messages from wire/schemas, and docs/settings.md
	$(BIN)/python tools/generate_messages.py
	$(BIN)/python tools/write_settings_page.py

bench: $(VENV)/.dev ## measure speed; one JSON file per run in bench/out
	$(BIN)/python -m bench $(ARGS)

lock: $(VENV)/.dev ## pin dependencies anew; no index address gets in
	$(BIN)/pip-compile -q --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras --upgrade -o requirements/run.txt pyproject.toml
	$(BIN)/pip-compile -q --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras --upgrade --extra spark -c requirements/run.txt -o requirements/spark.txt pyproject.toml
	$(BIN)/pip-compile -q --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras --upgrade -c requirements/spark.txt -o requirements/dev.txt requirements/dev.in

clean: ## remove what was built
	rm -rf $(VENV) dist build bench/bin .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements/run.txt pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/run.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.spark: $(VENV)/.run requirements/spark.txt
	@echo "installing Spark (half a gigabyte, a minute or two)"
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/spark.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run $(VENV)/.spark requirements/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@
