"""Spark's official Kafka connector writes to a node, and our format writes the same records to the same places."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from headrace.wire.batches.header import Codec
from tests.clients.nodes import new_name
from tests.spark import either_format
from tests.spark.spark_process import SparkFailed
from tests.spark.topic_contents import everything_in

if TYPE_CHECKING:
    from tests.clients.nodes import NodeProcess
    from tests.spark.spark_process import SparkProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.spark.connector_fixtures"]

BOTH = ("kafka", "headrace")
HEADERS = "headers array<struct<key string, value binary>>"


def _save(
    both: SparkProcess, node: NodeProcess, format_: str, rows: list[tuple[Any, ...]], columns: str, **options: str
) -> None:
    both.run(
        either_format.write, format_, rows, columns, {"kafka.bootstrap.servers": node.bootstrap_servers, **options}
    )


@pytest.mark.parametrize("format_", BOTH)
def test_keys_values_and_headers_arrive(both: SparkProcess, node: NodeProcess, format_: str) -> None:
    topic = node.create_topic(new_name(f"written by {format_}"))
    rows: list[tuple[Any, ...]] = [
        (b"key", b"value", [("a", b"1"), ("a", None)]),
        (None, b"without a key", None),
        (b"tombstone", None, []),
        (b"", b"", [("", b"")]),
        (b"\x00\xff", bytes(range(256)) * 40, None),
    ]
    _save(both, node, format_, rows, f"key binary, value binary, {HEADERS}", topic=topic, includeHeaders="true")
    found = [(each.key, each.value, each.headers) for each in everything_in(node, topic)]
    assert Counter(found) == Counter((key, value, tuple(headers or ())) for key, value, headers in rows)


@pytest.mark.parametrize("format_", BOTH)
def test_each_row_may_name_its_topic(both: SparkProcess, node: NodeProcess, format_: str) -> None:
    topics = [node.create_topic(new_name(name)) for name in ("red", "green")]
    _save(both, node, format_, [(topics[n % 2], f"{n}") for n in range(10)], "topic string, value string")
    for number, topic in enumerate(topics):
        values = {each.value for each in everything_in(node, topic)}
        assert values == {f"{n}".encode() for n in range(10) if n % 2 == number}


@pytest.mark.parametrize("format_", BOTH)
def test_the_topic_of_the_options_wins(both: SparkProcess, node: NodeProcess, format_: str) -> None:
    column, option = (node.create_topic(new_name(name)) for name in ("column", "option"))
    _save(both, node, format_, [(column, "here")], "topic string, value string", topic=option)
    assert [each.value for each in everything_in(node, option)] == [b"here"]
    assert everything_in(node, column) == []


@pytest.mark.parametrize("format_", BOTH)
def test_each_row_may_name_its_partition(both: SparkProcess, node: NodeProcess, format_: str) -> None:
    topic = node.create_topic(new_name("parted"), partitions=3)
    rows = [(f"{n}", n % 3) for n in range(12)]
    _save(both, node, format_, rows, "value string, partition int", topic=topic)
    found = {(each.value, each.partition) for each in everything_in(node, topic)}
    assert found == {(value.encode(), partition) for value, partition in rows}


def test_a_key_has_the_same_partition_in_both(both: SparkProcess, node: NodeProcess) -> None:
    rows = [(f"key {n}", f"{n}") for n in range(100)]
    places = []
    for format_ in BOTH:
        topic = node.create_topic(new_name("keyed"), partitions=5)
        _save(both, node, format_, rows, "key string, value string", topic=topic)
        places.append({each.key: each.partition for each in everything_in(node, topic)})
    assert len(places[0]) == len(rows)
    assert places[0] == places[1]


@pytest.mark.parametrize("format_", BOTH)
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec(both: SparkProcess, node: NodeProcess, format_: str, codec: str) -> None:
    topic = node.create_topic(new_name(codec))
    rows = [(f"value {n} " * 20,) for n in range(50)]
    _save(both, node, format_, rows, "value string", topic=topic, **{"kafka.compression.type": codec})
    assert {each.value for each in everything_in(node, topic)} == {value.encode() for (value,) in rows}
    assert {header.codec for header in node.stored_batches(topic)} == {Codec[codec.upper()]}


@pytest.mark.parametrize("format_", BOTH)
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([("k",)], "key string"),
        ([(1,)], "value int"),
        ([(1, "v")], "key int, value string"),
        ([("v", "0")], "value string, partition string"),
        ([("v", "x")], "value string, headers string"),
        ([(None, "v")], "topic string, value string"),
        ([("v",)], "value string"),
    ],
    ids=["no value", "value int", "key int", "partition string", "headers string", "topic null", "no topic"],
)
def test_rows_that_cannot_be_records_are_refused(
    both: SparkProcess, node: NodeProcess, format_: str, rows: list[tuple[Any, ...]], columns: str
) -> None:
    # Without a topic among the options only where the rows are to bring it.
    options = {} if "topic" in columns or columns == "value string" else {"topic": "never-written"}
    with pytest.raises(SparkFailed):
        _save(both, node, format_, rows, columns, **options)


@pytest.mark.parametrize("format_", BOTH)
@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_a_topic_is_only_ever_added_to(both: SparkProcess, node: NodeProcess, format_: str, mode: str) -> None:
    topic = node.create_topic(new_name(mode))
    options = {"kafka.bootstrap.servers": node.bootstrap_servers, "topic": topic}
    with pytest.raises(SparkFailed):
        both.run(either_format.write, format_, [("v",)], "value string", options, mode=mode)
    assert everything_in(node, topic) == []
