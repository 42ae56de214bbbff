"""The examples of Spark's guide to its Kafka connector do the same with our word for `format` as with the guide's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.clients.nodes import PATIENCE_S, new_name
from tests.spark import documented_examples
from tests.spark.spark_process import SparkFailed
from tests.spark.topic_contents import everything_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.nodes import NodeProcess
    from tests.spark.spark_process import SparkProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.spark.connector_fixtures"]

BOTH = ("kafka", "headrace")
HEADER = ("trace", b"\x01")
RECORDS_EACH = 10  # of each topic; half of them in each of its two partitions


@pytest.fixture
def topics(node: NodeProcess) -> list[str]:
    """Two topics with records; the name of the first begins the name of the second, as a pattern needs it."""
    first = node.create_topic(new_name("topic"), partitions=2)
    second = node.create_topic(f"{first}-2", partitions=2)
    for topic in (first, second):
        _send(node, topic, "before")
    return [first, second]


def _send(node: NodeProcess, topic: str, when: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for number in range(RECORDS_EACH):
        key, value = f"{topic} {number}", f"{when} {number}"
        producer.produce(topic, key=key, value=value, partition=number % 2, headers=[HEADER])
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("name", "row_count"), [("one topic", RECORDS_EACH), ("ranges", 2 + 5 + 5 + 2), ("a pattern", 2 * RECORDS_EACH)]
)
def test_reading_what_is_there(
    both: SparkProcess, node: NodeProcess, topics: list[str], name: str, row_count: int
) -> None:
    theirs, ours = (
        Counter(both.run(documented_examples.rows_of_batch, name, word, node.bootstrap_servers, topics))
        for word in BOTH
    )
    assert ours == theirs
    assert ours.total() == row_count


@pytest.mark.parametrize("name", documented_examples.STREAMS)
def test_reading_a_stream(both: SparkProcess, node: NodeProcess, topics: list[str], name: str) -> None:
    for word in BOTH:
        both.run(documented_examples.begin_stream, name, word, node.bootstrap_servers, topics, f"rows_{word}")
    for topic in topics:
        _send(node, topic, "after")
    theirs, ours = (both.run(documented_examples.end_stream, f"rows_{word}") for word in BOTH)

    headers = ([HEADER],) if name == "with headers" else ()
    heard = topics if name in {"several topics", "a pattern"} else topics[:1]
    expected = [(f"{topic} {n}", f"after {n}", *headers) for topic in heard for n in range(RECORDS_EACH)]
    assert sorted(theirs) == sorted(expected)
    assert sorted(ours) == sorted(expected)


@pytest.mark.parametrize("name", documented_examples.WRITES)
def test_writing(both: SparkProcess, node: NodeProcess, topics: list[str], tmp_path: Path, name: str) -> None:
    source = everything_in(node, topics[0])
    for word in BOTH:
        target = node.create_topic(new_name(word), partitions=2)
        place = str(tmp_path / word)
        both.run(documented_examples.write, name, word, node.bootstrap_servers, topics[0], target, place)
        written = everything_in(node, target)
        assert {(each.key, each.value) for each in written} == {(each.key, each.value) for each in source}
        assert len(written) == len(source)


def test_a_batch_must_say_that_it_adds(both: SparkProcess, node: NodeProcess, topics: list[str]) -> None:
    """The one difference: Spark's default is to create what is written to, which it lets no Python source do."""
    target = node.create_topic(new_name("headrace"))
    with pytest.raises(SparkFailed, match='use either the "Append"'):
        both.run(
            documented_examples.write_in_the_default_mode,
            *("headrace", node.bootstrap_servers, topics[0], target, ""),
        )
