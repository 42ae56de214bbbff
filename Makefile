# Two commands do everything on a fresh machine with Python 3.11+: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# How many processes share the tests: more than two cores, as each waits for nodes half of its time.
WORKERS ?= 3
# What mypyc compiles, and what that takes: a change of these installs anew.
HOT     := src/headrace/wire/walk.py tools/compiling.py tools/build_hook.py

INPUTS ?= 200000
# What is installed is what was pinned, to the byte: the pins carry the hashes of what the index gave when they were made.
INSTALL := $(BIN)/pip install -q --disable-pip-version-check --require-hashes
COMPILE := $(BIN)/pip-compile -q --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras --upgrade

.PHONY: run spark wheel test test-long test-secured check compile format generate setup bench fuzz lock planted kafka-tools clean help

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.run ## start one node on 127.0.0.1:9092
	$(BIN)/headrace serve $(ARGS)

spark: $(VENV)/.spark ## add what pipelines on Spark need to .venv

setup: $(VENV)/.dev ## prepare .venv for development: commands, tools, client libraries

test: $(VENV)/.dev $(VENV)/.connect ## run every test but the long ones; properties with the same examples each time
	tools/install-optional
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not long" --hypothesis-profile=ci $(ARGS)

test-long: $(VENV)/.dev ## run the campaigns: crashes, power cuts, thousands of seeds, properties with new examples
	tools/install-optional
	$(BIN)/pytest -m long $(ARGS)
	$(BIN)/pytest tests/properties --hypothesis-profile=default

# What clients, groups, transactions and failovers show on a plain cluster holds on a secured one. Left out is what
# starts processes of its own, which have not heard of the settings.
SECURED := $(addprefix tests/clients/test_,groups_share_the_work.py groups_in_every_version.py group_errors_on_the_wire.py \
	every_codec_between_all_clients.py transactions_of_every_client.py transactions_on_the_wire.py \
	consumers_find_their_place.py admin_with_confluent.py admin_with_aiokafka.py admin_with_kafka_python.py \
	metadata_on_the_wire.py produce_on_the_wire.py fetch_on_the_wire.py places_and_epochs_on_the_wire.py \
	nodes_come_and_go.py cluster_reassignment.py clients_ride_out_restarts.py following_through_an_absence.py \
	compaction_in_a_cluster.py) tests/faults/test_cluster_loses_processes.py tests/faults/test_in_sync_sets.py

test-secured: $(VENV)/.dev ## run tests of clients, groups, transactions and failover with secured nodes
	tools/install-optional
	$(BIN)/pytest --secured -n $(WORKERS) --dist loadgroup -m "not long" -k "not falls_silent" $(SECURED) $(ARGS)

check: $(VENV)/.dev ## format, lint, types, import contracts, generated code, shape
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_messages.py --check
	$(BIN)/python tools/write_settings_page.py --check
	$(BIN)/python -m tools.write_malformed_page --check
	$(BIN)/python -m tools.write_rooms_map --check
	$(BIN)/python -m tools.write_rights_table --check
	$(BIN)/python -m tools.planted --check
	$(BIN)/python -m tools.shape --check

format: $(VENV)/.dev ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(VENV)/.dev ## write wire/messages from wire/schemas, docs/settings.md, docs/malformed-batches.md, the map of rooms and the table of rights
	$(BIN)/python tools/generate_messages.py
	$(BIN)/python tools/write_settings_page.py
	$(BIN)/python -m tools.write_malformed_page
	$(BIN)/python -m tools.write_rooms_map
	$(BIN)/python -m tools.write_rights_table

wheel: $(VENV)/bin/python ## build the package for `pip install --find-links dist headrace`
	$(BIN)/pip wheel -q --disable-pip-version-check --no-deps -w dist .
	@ls dist/headrace-*.whl

compile: $(VENV)/.dev ## compile the hottest modules again, which installing does by itself
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .

bench: $(VENV)/.dev ## measure speed; one JSON file per run in bench/out
	$(BIN)/python -m bench $(ARGS)

planted: $(VENV)/.dev ## plant known bugs in a copy, see that tests catch each, and write docs/planted-bugs.md
	$(BIN)/python -m tools.planted --write $(ARGS)

kafka-tools: $(VENV)/.dev ## give Kafka's tools the same commands for Apache Kafka and for us, and write docs/kafka-tools.md
	$(BIN)/python -m tools.kafka_tools --write $(ARGS)

fuzz: $(VENV)/.fuzz ## try INPUTS inputs, chosen by what they reach, on everything that reads others' bytes
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS) $(ARGS)

lock: $(VENV)/.dev ## pin dependencies anew, with hashes; no index address gets in
	$(COMPILE) -o requirements/run.txt pyproject.toml
	$(COMPILE) --extra spark -c requirements/run.txt -o requirements/spark.txt pyproject.toml
	$(COMPILE) -c requirements/spark.txt -o requirements/dev.txt requirements/dev.in
	$(COMPILE) -c requirements/dev.txt -c requirements/spark.txt -o requirements/connect.txt requirements/connect.in
	$(COMPILE) -c requirements/dev.txt -o requirements/fuzz.txt requirements/fuzz.in

clean: ## remove what was built
	find src -name '*.so' -delete -o -name '*.so.source' -delete
	rm -rf $(VENV) dist build bench/bin .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements/run.txt pyproject.toml $(HOT)
	$(INSTALL) -r requirements/run.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.spark: $(VENV)/.run requirements/spark.txt
	@echo "installing Spark (half a gigabyte, a minute or two)"
	$(INSTALL) -r requirements/spark.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run $(VENV)/.spark requirements/dev.txt
	$(INSTALL) -r requirements/dev.txt
	@touch $@

$(VENV)/.connect: $(VENV)/.dev requirements/connect.txt
	$(INSTALL) --upgrade --target $(VENV)/connect -r requirements/connect.txt
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev requirements/fuzz.txt
	$(INSTALL) --only-binary :all: -r requirements/fuzz.txt || { echo "missing: atheris, which has no wheel for this Python and machine; to build it takes clang" >&2; exit 1; }
	@touch $@
