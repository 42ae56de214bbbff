"""Transactions as each client does them, and what each client's readers see of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.clients.four_clients import CLIENTS, READ_COMMITTED, READ_UNCOMMITTED, client_name
from tests.clients.nodes import PATIENCE_S, new_name
from tests.clients.raw_transactions import wait_until_stable
from tests.clients.transactional_clients import PRODUCERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.clients.four_clients import Client
    from tests.clients.nodes import NodeProcess

    NewProducer = Callable[..., Any]

pytest_plugins = ["tests.clients.node_fixtures"]

SHORT_MS = 1_000  # of a transaction that is meant to take too long

every_producer = pytest.mark.parametrize("kind", PRODUCERS)


@pytest.fixture
def new_producer(node: NodeProcess) -> Iterator[NewProducer]:
    with ExitStack() as made:

        def make(kind: str, transactional_id: str | None = None, **settings: Any) -> Any:
            producer = PRODUCERS[kind](node.bootstrap_servers, transactional_id or new_name("tx"), **settings)
            made.callback(producer.close)
            return producer

        yield make


def values(node: NodeProcess, reader: Client, topic: str, isolation: str = READ_COMMITTED) -> list[bytes | None]:
    return [seen.message.value for seen in reader.read(node.bootstrap_servers, topic, isolation=isolation)]


def committed(node: NodeProcess, *places: tuple[str, int]) -> list[list[bytes]]:
    """All committed records of each partition."""
    wait_until_stable(node.bootstrap_servers, *places)
    consumer = assigned(node, *places)
    found: dict[tuple[str, int], list[bytes]] = {place: [] for place in places}
    unfinished = set(places)
    while unfinished:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"the end of {unfinished} is missing"
        place = (message.topic(), message.partition())
        if message.error() is None:
            found[place].append(message.value())
        else:
            unfinished.discard(place)
    consumer.close()
    return list(found.values())


def assigned(node: NodeProcess, *places: tuple[str, int]) -> Consumer:
    """A reader of committed records, which hears of every end that it reaches."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": READ_COMMITTED,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(*place, 0) for place in places])
    return consumer


@pytest.fixture(scope="module")
def topic_of_all(node: NodeProcess) -> str:
    """A topic in which each client has committed two transactions and aborted two."""
    topic = node.create_topic(new_name("all"))
    for kind, new in PRODUCERS.items():
        producer = new(node.bootstrap_servers, new_name("tx"))
        for text, is_kept in (("a", True), ("b", False), ("c", False), ("d", True)):
            producer.begin()
            producer.send(topic, *(f"{kind} {text}{number}".encode() for number in range(3)))
            if is_kept:
                producer.commit()
            else:
                producer.abort()
        producer.close()
    wait_until_stable(node.bootstrap_servers, (topic, 0))
    return topic


@pytest.mark.parametrize("reader", CLIENTS, ids=client_name)
def test_readers_see_what_they_should(node: NodeProcess, topic_of_all: str, reader: Client) -> None:
    def written(texts: str) -> list[bytes]:
        return [f"{kind} {text}{number}".encode() for kind in PRODUCERS for text in texts for number in range(3)]

    assert values(node, reader, topic_of_all) == written("ad")
    assert values(node, reader, topic_of_all, READ_UNCOMMITTED) == written("abcd")


@every_producer
def test_a_transaction_spans_topics_and_partitions(node: NodeProcess, new_producer: NewProducer, kind: str) -> None:
    topics = [node.create_topic(new_name(), partitions=2) for _ in range(2)]
    places = [(topic, partition) for topic in topics for partition in range(2)]
    producer = new_producer(kind)
    for text in (b"kept", b"dropped", b"kept too"):
        producer.begin()
        for topic, partition in places:
            producer.send(topic, text, partition=partition)
        if text == b"dropped":
            producer.abort()
        else:
            producer.commit()
    assert committed(node, *places) == [[b"kept", b"kept too"]] * len(places)


@every_producer
def test_a_transaction_may_be_empty(node: NodeProcess, topic: str, new_producer: NewProducer, kind: str) -> None:
    producer = new_producer(kind)
    for end in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        end()
    producer.begin()
    producer.send(topic, b"something")
    producer.commit()
    assert committed(node, (topic, 0)) == [[b"something"]]


@every_producer
def test_offsets_count_if_the_transaction_commits(
    node: NodeProcess, topic: str, new_producer: NewProducer, kind: str
) -> None:
    producer, group = new_producer(kind), new_name("group")
    for offset, end, expected in ((3, producer.commit, 3), (5, producer.abort, 3), (7, producer.commit, 7)):
        producer.begin()
        producer.send(topic, b"one")
        producer.send_offsets(group, topic, {0: offset})
        end()
        assert committed_offset(node, group, topic) == expected


def committed_offset(node: NodeProcess, group: str, topic: str) -> int:
    """As a reader of committed records asks for it: an open transaction makes it wait."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": group})
    (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    consumer.close()
    return int(place.offset)


@every_producer
def test_a_second_instance_fences_the_first(
    node: NodeProcess, topic: str, new_producer: NewProducer, kind: str
) -> None:
    transactional_id = new_name("tx")
    first = new_producer(kind, transactional_id)
    first.begin()
    first.send(topic, b"never")
    second = new_producer(kind, transactional_id)
    second.begin()
    second.send(topic, b"second")

    def go_on() -> None:
        first.send(topic, b"neither")
        first.commit()

    with pytest.raises(Exception) as refused:
        go_on()
    assert first.is_fencing(refused.value), repr(refused.value)
    second.commit()
    assert committed(node, (topic, 0)) == [[b"second"]]


@every_producer
def test_a_transaction_that_takes_too_long_is_aborted(
    node: NodeProcess, topic: str, new_producer: NewProducer, kind: str
) -> None:
    producer = new_producer(kind, timeout_ms=SHORT_MS)
    producer.begin()
    producer.send(topic, b"too late")
    wait_for_end(node, topic, 2)  # the record, and the marker of its abort
    with pytest.raises(Exception) as refused:
        producer.commit()
    assert producer.is_fencing(refused.value), repr(refused.value)
    assert committed(node, (topic, 0)) == [[]]
    assert latest(node, topic, IsolationLevel.READ_UNCOMMITTED) == 2


def wait_for_end(node: NodeProcess, topic: str, end: int) -> None:
    """Wait until readers of committed records get as far as `end`."""
    consumer = assigned(node, (topic, 0))
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{topic} does not get to {end}"
        if message.offset() >= end:
            break
    consumer.close()


def test_compressed_transactions_of_several_producers_interleave(
    node: NodeProcess, topic: str, new_producer: NewProducer
) -> None:
    codecs = ("lz4", "zstd", "gzip")
    first, second, third = (new_producer(kind, codec=codec) for kind, codec in zip(PRODUCERS, codecs, strict=True))
    for number in range(3):
        for producer in (first, second, third):
            producer.begin()
        for producer, name in ((first, "first"), (second, "second"), (third, "third"), (first, "first")):
            producer.send(topic, *(f"{name} {number}".encode() * 20 for _ in range(5)))
        third.commit()
        first.abort()
        second.commit()
    wait_until_stable(node.bootstrap_servers, (topic, 0))
    kept = [f"{name} {number}".encode() * 20 for number in range(3) for name in ("second", "third") for _ in range(5)]
    for reader in CLIENTS:
        assert values(node, reader, topic) == kept, reader.name


def test_a_waiting_reader_wakes_up_when_the_transaction_ends(
    node: NodeProcess, topic: str, new_producer: NewProducer
) -> None:
    strict, lenient = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    slow, quick = new_producer("confluent-kafka"), new_producer("confluent-kafka")
    consumer = assigned(node, (topic, 0))
    assert consumer.poll(PATIENCE_S).error() is not None  # the end: it waits now
    slow.begin()
    slow.send(topic, b"slow")
    quick.begin()
    quick.send(topic, b"quick")
    quick.commit()
    while latest(node, topic, lenient) < 3:  # until the marker is written
        pass
    # The older transaction holds back what was committed after its beginning.
    assert latest(node, topic, strict) == 0
    assert consumer.poll(0.3) is None
    slow.commit()
    arrived = [consumer.poll(PATIENCE_S) for _ in range(2)]
    assert [message.value() for message in arrived] == [b"slow", b"quick"]
    assert latest(node, topic, strict) == latest(node, topic, lenient) == 4
    consumer.close()


def latest(node: NodeProcess, topic: str, isolation: IsolationLevel) -> int:
    """The end of partition 0 as such a reader counts its lag from."""
    place = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    found = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)
    return int(found[place].result(PATIENCE_S).offset)
