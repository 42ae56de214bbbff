"""What becomes of every fenced block in README.md and docs/: the test that runs it, or why none can.

In the order of each page, each block named by how its first line begins. Whoever writes a block adds it here; a test is
handed its blocks by `told_blocks.py`, and fails if it leaves one of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class RunBy(NamedTuple):
    tests: tuple[str, ...]


class NotRun(NamedTuple):
    why: str


def by(*tests: str) -> RunBy:
    return RunBy(tuple(f"tests/{test}" for test in tests))


Fate = RunBy | NotRun

ONE_NODE: Final = "docs/test_pages_on_one_node.py"
CLUSTER: Final = "docs/test_pages_on_a_cluster.py"
DEVELOPERS: Final = "docs/test_pages_for_developers.py"
SPARK: Final = "spark/test_pages_with_spark.py"
WALK: Final = by("spark/test_walk_through.py::test_every_command_prints_what_the_page_shows")
SAMPLES: Final = by("spark/test_walk_through.py::test_the_files_on_the_page_are_those_of_the_demo")
SPARK_PAGE: Final = by("spark/test_spark_page.py::test_the_programs_run_as_they_stand")
CLUSTER_PAGE: Final = by("clients/test_cluster_page.py::test_every_command_prints_what_the_page_shows")
DELIVERY: Final = by("clients/test_delivery_examples.py::test_a_consumer_that_crashes_keeps_its_promise")

ACCESS_RULES: Final = by("clients/security/test_access_rules.py::test_rules_as_the_page_has_them")

SECURED: Final = by("docs/test_secured_cluster_page.py::test_from_nothing_to_a_secured_cluster")

MAKE: Final = by(f"{DEVELOPERS}::test_make_knows_what_it_is_told")

INSTALLS: Final = NotRun("builds or installs packages; tests/house/test_wheel.py builds and installs the wheel")

PLAN: Final[dict[str, list[tuple[str, Fate]]]] = {
    "README.md": [
        ("make run ", MAKE),
        ("$ . .venv/bin/activate", by(f"{ONE_NODE}::test_first_steps")),
        ("$ headrace dev --nodes 3", by(f"{CLUSTER}::test_three_nodes_are_as_easy")),
        ("from confluent_kafka import Producer", by(f"{ONE_NODE}::test_the_client_that_is_used_already")),
        (
            "$ headrace pipeline run",
            by("spark/test_walk_through.py::test_commands_of_the_front_page_are_shown_to_work"),
        ),
        ("events = (", by(f"{SPARK}::test_a_stream_in_a_program_of_ones_own")),
        ("def test_my_service(", by(f"{ONE_NODE}::test_fixtures_in_a_suite_of_ones_own")),
        ("cli ", NotRun("a map, no command")),
    ],
    "docs/cluster.md": [
        ("$ headrace dev --nodes 3", CLUSTER_PAGE),
        ("$ headrace topics create --name orders", CLUSTER_PAGE),
        ("kill -9 ", CLUSTER_PAGE),
        ("$ seq 1001 2000", CLUSTER_PAGE),
        ("headrace serve --node-id 2", CLUSTER_PAGE),
        ("$ headrace cluster under-replicated", CLUSTER_PAGE),
        ("HEADRACE_ROUNDS=30 pytest", by(f"{DEVELOPERS}::test_a_campaign_is_found_where_it_is_told_to_be")),
        ("headrace serve --node-id 1", by("clients/test_cluster_page.py::test_three_machines_make_a_cluster")),
        ("$ headrace cluster drain", CLUSTER_PAGE),
        ("$ headrace cluster rebalance", CLUSTER_PAGE),
    ],
    "docs/command-line.md": [
        ("$ headrace topics create --name events", by(f"{ONE_NODE}::test_the_command_line")),
        ("$ headrace dev --nodes 3", by(f"{CLUSTER}::test_three_nodes_are_as_easy")),
        ("$ headrace topics create --name copy", by(f"{ONE_NODE}::test_the_command_line")),
        ('{"topic": "events"', by(f"{ONE_NODE}::test_the_command_line")),
        ("$ headrace groups describe", by(f"{ONE_NODE}::test_a_group_and_its_lag")),
        ("$ headrace groups reset-offsets", by(f"{ONE_NODE}::test_a_group_and_its_lag")),
        ("$ headrace lag", by(f"{ONE_NODE}::test_a_group_and_its_lag")),
        ("$ headrace export", by(f"{SPARK}::test_a_month_is_exported_and_imported")),
        ("$ headrace import", by(f"{SPARK}::test_a_month_is_exported_and_imported")),
        ("$ headrace cluster status", by(f"{CLUSTER}::test_three_nodes_are_as_easy")),
        ("$ headrace cluster rebalance", by(f"{CLUSTER}::test_a_fourth_node_takes_its_share")),
        ("$ headrace rescue inspect", by("clients/test_rescue.py::test_the_page_shows_what_a_directory_holds")),
    ],
    "docs/delivery.md": [
        ("$ python examples/delivery/at_most_once.py", DELIVERY),
        ("$ python examples/delivery/at_least_once.py", DELIVERY),
        ("$ python examples/delivery/exactly_once.py", DELIVERY),
    ],
    "docs/kafka-tools.md": [
        (
            "python -m tools.kafka_tools",
            NotRun("needs Apache Kafka and Java; tests/clients/test_kafka_tools.py asks both"),
        ),
    ],
    "docs/malformed-batches.md": [],
    "docs/offline.md": [
        ("pip install ", INSTALLS),
        ("$ headrace export --topic orders --out", by(f"{SPARK}::test_export_and_import")),
        ("exports/orders/", by(f"{SPARK}::test_export_and_import")),
        ("spark.read.parquet(", by(f"{SPARK}::test_export_and_import")),
        ("$ headrace export --topic orders --from", by(f"{SPARK}::test_export_and_import")),
    ],
    "docs/operating.md": [
        ("headrace serve --data-dir", by(f"{ONE_NODE}::test_a_node_is_run")),
        ("headrace serve --config", by(f"{ONE_NODE}::test_a_node_is_run")),
        (
            "clusters = kafka, headrace",
            by("clients/test_mirror_maker.py::test_the_settings_on_the_page_are_those_of_the_move"),
        ),
        ("replication-offset-checkpoint", by(f"{ONE_NODE}::test_a_node_is_run")),
        ("headrace serve --node-id 1", by("clients/test_cluster_page.py::test_three_nodes_found_a_cluster")),
    ],
    "docs/pipelines.md": [
        ("headrace pipeline validate", by(f"{SPARK}::test_a_pipeline_from_its_file")),
        (
            'name = "orders-per-minute"',
            by(f"{SPARK}::test_a_pipeline_from_its_file", f"{SPARK}::test_a_pipeline_in_a_test"),
        ),
        ("orders.toml:8:", by(f"{SPARK}::test_a_pipeline_from_its_file")),
        ("def join(", by(f"{SPARK}::test_a_function_that_joins")),
        (
            "Pipeline:   orders-per-minute",
            NotRun("a pipeline in trouble, as it is shown; tests/unit/spark/test_pipeline_display.py shows one"),
        ),
    ],
    "docs/planted-bugs.md": [
        ("make planted", MAKE),
    ],
    "docs/security.md": [
        ("headrace security init", SECURED),
        ("headrace serve --config secure/node.toml", SECURED),
        ("$ export HEADRACE_COMMAND_CONFIG", SECURED),
        ("security.protocol=SASL_SSL", SECURED),
        ("$ echo tea", SECURED),
        ("listeners = ", by("docs/test_security_page.py::test_listeners_for_those_inside_and_outside")),
        (
            "listener.security.protocol.map = ",
            by("docs/test_security_page.py::test_nodes_that_know_each_other_by_certificates"),
        ),
        ("openssl rand ", by("docs/test_security_page.py::test_nodes_that_know_each_other_by_a_secret")),
        (
            "authorizer.class.name=headrace",
            by("clients/security/test_access_rules.py::test_rules_as_the_page_has_them"),
        ),
        ("$ headrace acls add", by("clients/security/test_access_rules.py::test_rules_as_the_page_has_them")),
        ("$ headrace quotas set", by("clients/test_quotas_of_clients.py::test_quotas_as_the_page_has_them")),
        ("$ headrace audit", by("docs/test_secured_cluster_page.py::test_what_was_refused_is_in_the_audit")),
    ],
    "docs/settings.md": [
        ("headrace topics create", by(f"{ONE_NODE}::test_settings_are_given_and_shown")),
    ],
    "docs/simulator.md": [
        ("python -m headrace.simulation --seeds 1000", by(f"{DEVELOPERS}::test_the_simulator_takes_its_options")),
    ],
    "docs/spark.md": [
        ("pip install ", INSTALLS),
        ("from headrace_spark.session", SPARK_PAGE),
        ("events = (", SPARK_PAGE),
        ("shouts = (", SPARK_PAGE),
        ("def publish(", SPARK_PAGE),
        ("from headrace_spark.progress", SPARK_PAGE),
        (
            "spark-class org.apache.spark.deploy.master",
            NotRun("machines of a Spark cluster; tests/spark/test_on_a_standalone_cluster.py starts them"),
        ),
        ("PYSPARK_PYTHON=", NotRun("a server on a fixed port; tests/spark/test_through_spark_connect.py starts one")),
    ],
    "docs/testing.md": [
        ("from confluent_kafka import", by(f"{ONE_NODE}::test_fixtures_in_a_suite_of_ones_own")),
        ("from headrace.testing import Broker", by(f"{ONE_NODE}::test_a_broker_of_ones_own")),
        ("from headrace.testing import pipeline_result", by(f"{SPARK}::test_a_pipeline_in_a_test")),
    ],
    "docs/walk-through.md": [
        ("make wheel", MAKE),
        ("tea|", SAMPLES),
        ("$ headrace topics create", WALK),
        ("# How much is sold", SAMPLES),
        ("$ headrace pipeline run", WALK),
        ("$ headrace consume", WALK),
        ("$ headrace lag", WALK),
        ("$ headrace consume --topic orders-per-minute.dead-letters", WALK),
        ("$ echo 'coffee|", WALK),
        ("$ headrace export", WALK),
    ],
}
