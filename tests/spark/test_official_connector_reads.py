"""Spark's official Kafka connector reads from a node, and our format gives the same rows for the same options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import either_format
from tests.spark.connector_topics import COMPRESSED, EMPTY, FIRST_MS, MIXED, PER_RECORD_MS, PLAIN
from tests.spark.spark_process import SparkFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.nodes import NodeProcess
    from tests.spark.connector_topics import History, Record
    from tests.spark.spark_process import SparkProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.spark.connector_fixtures"]

BOTH = ("kafka", "headrace")
LATER_MS = FIRST_MS + 5 * PER_RECORD_MS  # when the record at offset 5 was made, in each partition
EARLIEST, LATEST = -2, -1


def _by_partition(plain: int, mixed: int, compressed: int, empty: int) -> dict[str, int]:
    return {str(PLAIN): plain, str(MIXED): mixed, str(COMPRESSED): compressed, str(EMPTY): empty}


# name -> (options, which records they choose). `TOPIC` stands for the topic's name.
READS: dict[str, tuple[dict[str, Any], Callable[[Record], bool]]] = {
    "all of a topic": ({"subscribe": "TOPIC"}, lambda record: True),
    "a pattern": ({"subscribePattern": "TOP.*|TOPIC"}, lambda record: True),
    "some partitions": (
        {"assign": {"TOPIC": [PLAIN, EMPTY]}},
        lambda record: record.partition == PLAIN,
    ),
    "from offsets": (
        {"subscribe": "TOPIC", "startingOffsets": {"TOPIC": _by_partition(18, EARLIEST, 49, 0)}},
        lambda record: record.offset >= {PLAIN: 18, MIXED: 0, COMPRESSED: 49}[record.partition],
    ),
    "up to offsets": (
        {"subscribe": "TOPIC", "endingOffsets": {"TOPIC": _by_partition(3, LATEST, 1, 0)}},
        lambda record: record.offset < {PLAIN: 3, MIXED: 12, COMPRESSED: 1}[record.partition],
    ),
    "within a compressed batch": (
        {
            "assign": {"TOPIC": [COMPRESSED]},
            "startingOffsets": {"TOPIC": {str(COMPRESSED): 14}},
            "endingOffsets": {"TOPIC": {str(COMPRESSED): 17}},
        },
        lambda record: record.partition == COMPRESSED and 14 <= record.offset < 17,
    ),
    "an empty range": (
        {
            "assign": {"TOPIC": [PLAIN]},
            "startingOffsets": {"TOPIC": {str(PLAIN): 4}},
            "endingOffsets": {"TOPIC": {str(PLAIN): 4}},
        },
        lambda record: False,
    ),
    "from a time": (
        {"assign": {"TOPIC": [PLAIN, COMPRESSED]}, "startingTimestamp": LATER_MS},
        lambda record: record.partition != MIXED and record.offset >= 5,
    ),
    "up to a time": (
        {"assign": {"TOPIC": [PLAIN, COMPRESSED]}, "endingTimestamp": LATER_MS},
        lambda record: record.partition != MIXED and record.offset < 5,
    ),
    "from times of partitions": (
        {
            "assign": {"TOPIC": [PLAIN, COMPRESSED]},
            "startingOffsetsByTimestamp": {"TOPIC": {str(PLAIN): LATER_MS - 1, str(COMPRESSED): LATER_MS + 1}},
        },
        lambda record: record.offset >= {PLAIN: 5, COMPRESSED: 6, MIXED: 99}[record.partition],
    ),
    "up to times of partitions": (
        {
            "assign": {"TOPIC": [PLAIN, COMPRESSED]},
            "endingOffsetsByTimestamp": {"TOPIC": {str(PLAIN): LATER_MS - 1, str(COMPRESSED): LATER_MS + 1}},
        },
        lambda record: record.offset < {PLAIN: 5, COMPRESSED: 6, MIXED: 0}[record.partition],
    ),
    "from a time that no record has reached": (
        {
            "assign": {"TOPIC": [PLAIN]},
            "startingTimestamp": FIRST_MS * 2,
            "startingOffsetsByTimestampStrategy": "latest",
        },
        lambda record: False,
    ),
    "up to a time that no record has reached": (
        {"assign": {"TOPIC": [PLAIN]}, "endingTimestamp": FIRST_MS * 2},
        lambda record: record.partition == PLAIN,
    ),
    "in more tasks than partitions": ({"subscribe": "TOPIC", "minPartitions": 9}, lambda record: True),
    "few records a task": ({"subscribe": "TOPIC", "maxRecordsPerPartition": 7}, lambda record: True),
    "what was committed": (
        {"subscribe": "TOPIC", "kafka.isolation.level": "read_committed"},
        lambda record: not record.is_aborted,
    ),
    "what was committed, in pieces": (
        {"subscribe": "TOPIC", "kafka.isolation.level": "read_committed", "maxRecordsPerPartition": 2},
        lambda record: not record.is_aborted,
    ),
    "with a prefix for group names": ({"subscribe": "TOPIC", "groupIdPrefix": "spark-here"}, lambda record: True),
    "with a group's name": ({"subscribe": "TOPIC", "kafka.group.id": "spark-there"}, lambda record: True),
    "with losses allowed": ({"subscribe": "TOPIC", "failOnDataLoss": "false"}, lambda record: True),
    "with headers": ({"subscribe": "TOPIC", "includeHeaders": "true"}, lambda record: True),
}


def _options(node: NodeProcess, topic: str, written: dict[str, Any]) -> dict[str, str]:
    spelt = {name: each if isinstance(each, str) else json.dumps(each) for name, each in written.items()}
    named = {name: each.replace("TOPIC", topic) for name, each in spelt.items()}
    return {"kafka.bootstrap.servers": node.bootstrap_servers, **named}


@pytest.mark.parametrize("format_", BOTH)
@pytest.mark.parametrize("name", READS)
def test_options_choose_the_records(
    both: SparkProcess, node: NodeProcess, history: History, name: str, format_: str
) -> None:
    written, is_chosen = READS[name]
    expected = history.rows(filter(is_chosen, history.records), with_headers=written.get("includeHeaders") == "true")
    assert both.run(either_format.read, format_, _options(node, history.topic, written)) == expected


@pytest.mark.parametrize("headers", ["true", "false"])
def test_the_columns_are_the_same(both: SparkProcess, node: NodeProcess, history: History, headers: str) -> None:
    options = _options(node, history.topic, {"subscribe": "TOPIC", "includeHeaders": headers})
    theirs, ours = (both.run(either_format.schema, format_, options) for format_ in BOTH)
    assert ours == theirs


def test_the_work_is_divided_alike(both: SparkProcess, node: NodeProcess, history: History) -> None:
    options = _options(node, history.topic, {"subscribe": "TOPIC", "minPartitions": 9})
    theirs, ours = (both.run(either_format.partition_count, format_, options) for format_ in BOTH)
    assert ours == theirs


@pytest.mark.parametrize("format_", BOTH)
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"subscribe": "TOPIC", "assign": {"TOPIC": [0]}},
        {"subscribe": "TOPIC", "startingOffsets": "latest"},
        {"subscribe": "TOPIC", "endingOffsets": "earliest"},
        {"subscribe": "TOPIC", "startingOffsets": {"TOPIC": {"0": 0}}},
        {"subscribe": "TOPIC", "startingOffsets": "yesterday"},
        {"subscribe": "TOPIC", "kafka.auto.offset.reset": "earliest"},
        {"subscribe": "TOPIC", "minPartitions": "0"},
        {"assign": "not JSON"},
        # Both ask several times before they believe it.
        pytest.param({"subscribe": "TOPIC", "startingTimestamp": str(FIRST_MS * 2)}, marks=pytest.mark.long),
    ],
    ids=lambda wrong: "+".join(wrong) or "no topic",
)
def test_what_cannot_be_meant_is_refused(
    both: SparkProcess, node: NodeProcess, history: History, wrong: dict[str, Any], format_: str
) -> None:
    with pytest.raises(SparkFailed):
        both.run(either_format.read, format_, _options(node, history.topic, wrong))
