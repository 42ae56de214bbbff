"""Spark's official Kafka connector streams from and to a node; ours steps through the same offsets, and takes over."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.clients.nodes import PATIENCE_S, new_name
from tests.spark import either_format
from tests.spark.connector_topics import MIXED
from tests.spark.topic_contents import everything_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.nodes import NodeProcess
    from tests.spark.connector_topics import History, Record
    from tests.spark.either_format import Options, Progress
    from tests.spark.spark_process import SparkProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.spark.connector_fixtures"]

BOTH = ("kafka", "headrace")


def _source(node: NodeProcess, topic: str, **options: str) -> Options:
    servers = {"kafka.bootstrap.servers": node.bootstrap_servers}
    return {**servers, "subscribe": topic, "startingOffsets": "earliest", **options}


def _sink(node: NodeProcess, topic: str, **options: str) -> Options:
    return {"kafka.bootstrap.servers": node.bootstrap_servers, "topic": topic, **options}


def _send(node: NodeProcess, topic: str, values: range, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for value in values:
        producer.produce(topic, value=f"{value}", partition=value % partitions)
    assert producer.flush(PATIENCE_S) == 0


def _numbers_in(node: NodeProcess, topic: str) -> list[int]:
    return sorted(int(each.value or b"") for each in everything_in(node, topic))


def _steps(batches: list[Progress]) -> list[dict[str, Any]]:
    """What a progress says about offsets."""
    sources = [batch["sources"][0] for batch in batches]
    return [
        {name: _of_partitions(source[name]) for name in ("startOffset", "endOffset", "latestOffset")}
        for source in sources
    ]


@pytest.mark.parametrize("format_", BOTH)
def test_a_topic_is_copied(
    both: SparkProcess, node: NodeProcess, history: History, tmp_path: Path, format_: str
) -> None:
    copy = node.create_topic(new_name("copy"))
    both.run(
        either_format.copy_available,
        (format_, _source(node, history.topic, includeHeaders="true", maxOffsetsPerTrigger="40")),
        (format_, _sink(node, copy, includeHeaders="true")),
        str(tmp_path / "checkpoint"),
    )
    found = Counter((each.key, each.value, each.headers) for each in everything_in(node, copy))
    assert found == _contents(history.records)


@pytest.mark.parametrize("format_", BOTH)
def test_only_what_was_committed_is_copied(
    both: SparkProcess, node: NodeProcess, history: History, tmp_path: Path, format_: str
) -> None:
    copy = node.create_topic(new_name("copy"))
    source = _source(node, history.topic, maxOffsetsPerTrigger="25", **{"kafka.isolation.level": "read_committed"})
    both.run(
        either_format.copy_available, (format_, source), (format_, _sink(node, copy)), str(tmp_path / "checkpoint")
    )
    found = Counter(each.value for each in everything_in(node, copy))
    assert found == Counter(record.value for record in history.records if not record.is_aborted)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxOffsetsPerTrigger": "30"},
        {"maxOffsetsPerTrigger": "30", "kafka.isolation.level": "read_committed"},
        pytest.param({"maxOffsetsPerTrigger": "7"}, marks=pytest.mark.long),
        pytest.param({"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "50"}, marks=pytest.mark.long),
    ],
    ids=lambda options: ", ".join(f"{name}={value}" for name, value in options.items()) or "all at once",
)
def test_both_step_through_the_same_offsets(
    both: SparkProcess, node: NodeProcess, history: History, tmp_path: Path, options: dict[str, str]
) -> None:
    steps, logs = [], []
    for format_ in BOTH:
        source, checkpoint = _source(node, history.topic, **options), tmp_path / format_
        batches = both.run(either_format.drain, (format_, source), str(checkpoint))
        assert sum(batch["numInputRows"] for batch in batches) == _row_count(history, options)
        steps.append(_steps(batches))
        logs.append([_logged(path) for path in sorted(checkpoint.glob("offsets/[0-9]*"), key=_batch_id)])
    assert steps[0] == steps[1]
    assert logs[0] == logs[1]  # that is what lets one take over from the other


@pytest.mark.parametrize(("first", "second"), [("kafka", "kafka"), ("kafka", "headrace"), ("headrace", "kafka")])
def test_a_checkpoint_is_continued(
    both: SparkProcess, node: NodeProcess, tmp_path: Path, first: str, second: str
) -> None:
    source = node.create_topic(new_name(f"{first} then {second}"), partitions=2)
    copy = node.create_topic(new_name("copy"))
    for format_, values in ((first, range(10)), (second, range(10, 25)), (first, range(25, 30))):
        _send(node, source, values)
        batches = both.run(
            either_format.copy_available,
            (format_, _source(node, source)),
            (format_, _sink(node, copy)),
            str(tmp_path / "checkpoint"),
        )
        assert sum(batch["numInputRows"] for batch in batches) == len(values)
    assert _numbers_in(node, copy) == list(range(30))


@pytest.mark.long
@pytest.mark.parametrize("format_", BOTH)
def test_records_are_followed_as_they_come(both: SparkProcess, node: NodeProcess, tmp_path: Path, format_: str) -> None:
    source, copy = (node.create_topic(new_name(name), partitions=2) for name in ("live", "copy"))
    both.run(
        either_format.begin_copy,
        (format_, _source(node, source, startingOffsets="latest")),
        (format_, _sink(node, copy)),
        str(tmp_path / "checkpoint"),
        query_name=f"follow with {format_}",
    )
    for values in (range(50), range(50, 60)):
        _send(node, source, values)
        both.run(either_format.catch_up, f"follow with {format_}")
        assert _numbers_in(node, copy) == list(range(values.stop))
    both.run(either_format.stop, f"follow with {format_}")


def _contents(records: list[Record]) -> Counter[tuple[object, ...]]:
    return Counter((record.key, record.value, tuple(record.headers or ())) for record in records)


def _row_count(history: History, options: dict[str, str]) -> int:
    committed_only = options.get("kafka.isolation.level") == "read_committed"
    return sum(not (committed_only and record.partition == MIXED and record.is_aborted) for record in history.records)


def _logged(path: Path) -> Any:
    """The source's line in a file of the offset log."""
    return _of_partitions(path.read_text().splitlines()[-1])


def _of_partitions(offsets: str | dict[str, Any] | None) -> Any:
    """Without the ids of topics, which ours has besides, and the official connector reads past."""
    found = json.loads(offsets) if isinstance(offsets, str) else offsets
    return found and {topic: partitions for topic, partitions in found.items() if partitions}


def _batch_id(path: Path) -> int:
    return int(path.name)
