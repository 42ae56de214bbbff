"""What is read of transactions: all of it, or what was committed; never their markers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from tests.spark.source_topics import StreamWalk, new_topic, produce, source, tasks_of, values_of

if TYPE_CHECKING:
    from headrace.testing import Broker

pytestmark = pytest.mark.xdist_group("spark")

EARLIEST = {"startingOffsets": "earliest"}
COMMITTED = {"kafka__isolation__level": "read_committed"}


def transactional(broker: Broker) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": uuid4().hex})
    producer.init_transactions(30)
    return producer


def write(producer: Producer, topic: str, values: list[str], *, end: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    if end == "commit":
        producer.commit_transaction(30)
    elif end == "abort":
        producer.abort_transaction(30)


@pytest.fixture
def topic(broker: Broker) -> str:
    return new_topic(broker)


def test_aborted_records_are_seen_by_default_and_not_under_read_committed(broker: Broker, topic: str) -> None:
    producer = transactional(broker)
    write(producer, topic, ["a", "b"], end="commit")
    write(producer, topic, ["c", "d"], end="abort")
    produce(broker, topic, ["e"])
    write(producer, topic, ["f"], end="abort")  # the range ends with an aborted record and a marker
    assert values_of(source(broker, subscribe=topic)) == ["a", "b", "c", "d", "e", "f"]
    assert values_of(source(broker, subscribe=topic, **COMMITTED)) == ["a", "b", "e"]


def test_tasks_that_hold_nothing_but_markers_end(broker: Broker, topic: str) -> None:
    producer = transactional(broker)
    for value in ("a", "b", "c"):
        write(producer, topic, [value], end="abort")
    write(producer, topic, ["d"], end="commit")
    one_offset_each = tasks_of(source(broker, subscribe=topic, maxRecordsPerPartition="1", **COMMITTED))
    assert [len(task) for task in one_offset_each] == [0, 0, 0, 0, 0, 0, 1, 0]
    by_default = tasks_of(source(broker, subscribe=topic, maxRecordsPerPartition="1"))
    assert [len(task) for task in by_default] == [1, 0] * 4


def test_an_open_transaction_ends_what_is_read(broker: Broker, topic: str) -> None:
    produce(broker, topic, ["a"])
    producer = transactional(broker)
    write(producer, topic, ["b"], end="later")
    produce(broker, topic, ["c"])
    walk = StreamWalk(source(broker, subscribe=topic, **EARLIEST, **COMMITTED))
    assert walk.next_batch() == ["a"]
    assert walk.ends[-1] == {topic: {"0": 1}}
    assert walk.next_batch() is None
    assert values_of(source(broker, subscribe=topic)) == ["a", "b", "c"]
    producer.commit_transaction(30)
    assert walk.next_batch() == ["b", "c"]
    walk.stop()


def test_a_query_that_becomes_stricter_waits_and_loses_nothing(broker: Broker, topic: str) -> None:
    producer = transactional(broker)
    write(producer, topic, ["a", "b"], end="later")
    lax, strict = source(broker, subscribe=topic, **EARLIEST), source(broker, subscribe=topic, **EARLIEST, **COMMITTED)
    walk = StreamWalk(lax)
    assert walk.next_batch() == ["a", "b"]
    walk.stop()
    walk.restart(strict)
    assert walk.next_batch() is None
    producer.commit_transaction(30)
    produce(broker, topic, ["c"])
    assert walk.next_batch() == ["c"]
    walk.stop()
