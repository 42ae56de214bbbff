"""What a task does while the node that it reads from restarts, or has less than was promised."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from headrace.testing import Broker
from headrace_spark.source.data_loss import DataLoss
from headrace_spark.source.options import SourceOptions
from headrace_spark.source.range_reader import read_range
from headrace_spark.source.ranges import OffsetRange
from tests.spark.source_topics import new_topic, produce, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("spark")

SMALL_ANSWERS = {"kafka__max__partition__fetch__bytes": "20000"}


def options(broker: Broker, topic: str, **more: str) -> SourceOptions:
    return SourceOptions.parse(source(broker, subscribe=topic, columns="value", **more).options)


def values(batches: Iterator[Any]) -> list[str]:
    return [value.decode() for batch in batches for value in batch.column(0).to_pylist()]


def test_a_node_that_restarts_in_the_middle_of_a_range(tmp_path: Path) -> None:
    written = [f"{number:05}" * 40 for number in range(5000)]
    broker = Broker(data_dir=tmp_path).start()
    try:
        topic = new_topic(broker)
        produce(broker, topic, written, 0, **{"batch.size": 10_000})
        batches = read_range(options(broker, topic, **SMALL_ANSWERS), OffsetRange(topic, 0, 0, len(written)))
        found = values(iter([next(batches)]))
        broker.stop()
        broker.start()  # at the address that it had
        found += values(batches)
    finally:
        broker.stop()
    assert found == written


def test_a_task_that_starts_while_the_node_is_away(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path).start()
    topic = new_topic(broker)
    produce(broker, topic, ["a", "b"])
    batches = read_range(options(broker, topic), OffsetRange(topic, 0, 0, 2))
    broker.stop()
    back = threading.Timer(0.5, broker.start)
    back.start()
    try:
        assert values(batches) == ["a", "b"]
    finally:
        back.join()
        broker.stop()


def test_a_log_that_is_shorter_than_promised(broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, ["a", "b"])
    hasty = {"kafka__default__api__timeout__ms": "600"}
    wanted = OffsetRange(topic, 0, 0, 5)
    says = "offsets 2 to 4 are wanted, but it holds offsets 0 to 1"
    with pytest.raises(DataLoss, match=says):
        values(read_range(options(broker, topic, **hasty), wanted))
    assert values(read_range(options(broker, topic, **hasty, failOnDataLoss="false"), wanted)) == ["a", "b"]


def test_a_topic_that_is_deleted_before_the_task(broker: Broker) -> None:
    topic = new_topic(broker)
    hasty = {"kafka__default__api__timeout__ms": "200"}
    strict, lenient = (options(broker, topic, **hasty, failOnDataLoss=word) for word in ("true", "false"))
    broker.delete_topic(topic)
    with pytest.raises(DataLoss, match=f"topic '{topic}', partition 0: .*no such partition any more"):
        values(read_range(strict, OffsetRange(topic, 0, 0, 5)))
    assert values(read_range(lenient, OffsetRange(topic, 0, 0, 5))) == []


def test_a_reader_that_is_left_early_lets_go(broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, [f"{number:05}" * 40 for number in range(2000)], 0, **{"batch.size": 10_000})
    batches = read_range(options(broker, topic, **SMALL_ANSWERS), OffsetRange(topic, 0, 0, 2000))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        next(batches)
