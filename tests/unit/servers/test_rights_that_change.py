"""Rights that are taken away while somebody uses them: what is under way ends, and goes on once they are back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.servers.living_server import fetch, produce, until
from tests.unit.servers.ruled_server import (
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    rule,
    ruled_server,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.unit.servers.living_server import Client
    from tests.unit.servers.ruled_server import RuledServer

T = ErrorCode.TOPIC_AUTHORIZATION_FAILED
X = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
READS = rule("alice", READ, TOPIC, "topic")
WRITES = rule("alice", WRITE, TOPIC, "topic")
NAMES, IDS = 11, 13
"""Versions of Fetch and Produce that name topics, and that give their ids."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RuledServer]:
    async with ruled_server(tmp_path) as running:
        await running.living.create_topic("topic")
        await running.allow(READS, WRITES)
        yield running
        assert not running.node.failed.done()


def topic_id(server: RuledServer) -> Any:
    topic = server.node.image.topic_named("topic")
    assert topic is not None
    return topic.topic_id


def code_of(answer: Any) -> int:
    (topic,) = answer.responses
    parts = topic.partitions if hasattr(topic, "partitions") else topic.partition_responses
    return int(parts[0].error_code)


def size_of(answer: Any) -> int:
    return sum(len(part.records or b"") for topic in answer.responses for part in topic.partitions)


async def a_record(client: Client) -> None:
    assert code_of(await client.ask(produce("topic"), 9)) == 0


@pytest.mark.parametrize("version", [3, 9, IDS])
async def test_a_producer_that_may_write_no_more_is_refused_its_next_batch(server, version):
    alice = await server.connect("alice")
    request = produce("topic")
    if version == IDS:
        request.topic_data[0].topic_id = topic_id(server)
    assert code_of(await alice.ask(request, version)) == 0
    await server.revoke(WRITES)
    assert code_of(await alice.ask(request, version)) == T
    await server.allow(WRITES)
    assert code_of(await alice.ask(request, version)) == 0
    assert server.node.topics.partition("topic", 0).log.next_offset == 2


async def test_of_several_topics_those_are_written_that_may_be(server):
    await server.living.create_topic("other")
    alice = await server.connect("alice")
    part = [PartitionProduceData(0, bytes(encode_batch([(0, None, b"value", ())])))]
    request = ProduceRequest(
        None, 1, 1000, [TopicProduceData(name, partition_data=part) for name in ("other", "topic")]
    )
    answer = await alice.ask(request, 9)
    assert [(it.name, it.partition_responses[0].error_code) for it in answer.responses] == [("other", T), ("topic", 0)]
    assert server.node.topics.partition("other", 0).log.next_offset == 0


@pytest.mark.parametrize("acks", [1, -1])
async def test_of_very_many_batches_each_is_asked_about(server, acks):
    alice = await server.connect("alice")
    part = [PartitionProduceData(0, bytes(encode_batch([(0, None, b"value", ())])))]
    names = [f"other-{number}" for number in range(150)] + ["topic"]
    request = ProduceRequest(None, acks, 10_000, [TopicProduceData(name, partition_data=part) for name in names])
    answer = await alice.ask(request, 9)
    assert [it.partition_responses[0].error_code for it in answer.responses] == [T] * 150 + [0]


async def test_a_producer_without_answers_loses_its_connection(server):
    bob = await server.connect("bob")
    bob.begin(produce("topic", acks=0), 9)
    assert await bob.frame() is None
    assert server.node.topics.partition("topic", 0).log.next_offset == 0


async def test_a_transaction_takes_the_right_to_its_id(server):
    alice = await server.connect("alice")
    request = produce("topic")
    request.transactional_id = "hers"
    assert code_of(await alice.ask(request, 9)) == X
    await server.allow(rule("alice", WRITE, TRANSACTION, "hers"))
    assert code_of(await alice.ask(request, 9)) == 0  # a batch without a transaction, as every client may send
    assert code_of(await (await server.connect("bob")).ask(request, 9)) == X


@pytest.mark.parametrize("count", [1, 2])
async def test_nobody_writes_into_the_transaction_of_another_without_its_id(server, count):
    """It is open here, and its producer's number is no secret."""
    await server.living.create_topic("other")
    alice, root = await server.connect("alice"), await server.connect("root")
    await server.allow(rule("alice", WRITE, TOPIC, "other"))
    assert not (await root.ask(FindCoordinatorRequest("his", 1), 3)).error_code
    producer = await root.ask(InitProducerIdRequest("his", 60_000), 4)
    assert not producer.error_code

    def batch(sequence: int) -> list[PartitionProduceData]:
        numbers = (producer.producer_id, producer.producer_epoch, sequence)
        record = [(0, None, b"value", ())]
        names = ("producer_id", "producer_epoch", "base_sequence")
        told = encode_batch(record, is_transactional=True, **dict(zip(names, numbers, strict=True)))
        return [PartitionProduceData(0, bytes(told))]

    names = ["topic", "other"][:count]
    his = ProduceRequest("his", -1, 10_000, [TopicProduceData(name, partition_data=batch(0)) for name in names])
    assert {it.partition_responses[0].error_code for it in (await root.ask(his, 12)).responses} == {0}
    hers = ProduceRequest(None, -1, 10_000, [TopicProduceData(name, partition_data=batch(1)) for name in names])
    assert {it.partition_responses[0].error_code for it in (await alice.ask(hers, 12)).responses} == {X}
    assert server.node.topics.partition("topic", 0).log.next_offset == 1


@pytest.mark.parametrize("version", [NAMES, IDS])
async def test_a_fetch_that_waits_gets_nothing_that_came_after_it_might_not_be_read_any_more(server, version):
    alice, root = await server.connect("alice"), await server.connect("root")
    request = fetch("topic", max_wait_ms=60_000)
    if version == IDS:
        request.topics[0].topic_id = topic_id(server)
    alice.begin(request, version)
    await until(lambda: server.living.server.parked.count == 1)
    await server.revoke(READS)
    await a_record(root)
    frame = await alice.frame()
    assert frame is not None
    answer = await alice.ask(request, version)
    assert (code_of(answer), size_of(answer)) == (T, 0)
    assert b"value" not in frame


@pytest.mark.parametrize("version", [NAMES, IDS])
async def test_a_session_that_lasts_reads_while_it_may(server, version):
    """Its partition is named once, and nothing happens in it when the right goes."""
    alice, root = await server.connect("alice"), await server.connect("root")
    opening = fetch("topic", session_epoch=0)
    if version == IDS:
        opening.topics[0].topic_id = topic_id(server)
    session_id = (await alice.ask(opening, version)).session_id
    assert session_id

    async def next_fetch(epoch: int) -> Any:
        return await alice.ask(FetchRequest(session_id=session_id, session_epoch=epoch), version)

    assert (await next_fetch(1)).responses == []
    await server.revoke(READS)
    assert code_of(await next_fetch(2)) == T
    await a_record(root)
    answer = await next_fetch(3)
    assert (code_of(answer), size_of(answer)) == (T, 0)
    await server.allow(READS)
    assert size_of(await next_fetch(4)) > 0


async def test_nobody_goes_on_with_the_session_of_somebody_else(server):
    alice, bob = await server.connect("alice"), await server.connect("bob")
    session_id = (await alice.ask(fetch("topic", session_epoch=0), NAMES)).session_id
    stolen = FetchRequest(session_id=session_id, session_epoch=1)
    assert (await bob.ask(stolen, NAMES)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    await bob.ask(FetchRequest(session_id=session_id, session_epoch=-1), NAMES)  # nor ends it
    assert (await alice.ask(stolen, NAMES)).error_code == 0


async def test_a_member_that_may_read_no_more_is_told_so_by_its_heartbeat(server):
    alice, root = await server.connect("alice"), await server.connect("root")
    assert not (await root.ask(FindCoordinatorRequest("any", 0), 3)).error_code
    belongs = rule("alice", READ, GROUP, "hers")
    await server.allow(belongs)
    heartbeat = HeartbeatRequest("hers", 1, "a-member")
    assert (await alice.ask(heartbeat, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await server.revoke(belongs)
    assert (await alice.ask(heartbeat, 4)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_very_many_rules_at_once_are_obeyed_when_it_is_said_that_they_are_there(server):
    """They are compiled in slices; meanwhile those before them hold, of which one is among those that go."""
    bob = await server.connect("bob")
    many = [
        rule("bob", WRITE, TOPIC, f"prefix-{number}", PREFIXED if number % 2 else LITERAL) for number in range(1999)
    ]
    await server.allow(*many, rule("bob", WRITE, TOPIC, "topic"))
    assert code_of(await bob.ask(produce("topic"), 9)) == 0
    await server.revoke(*many, WRITES)
    alice = await server.connect("alice")
    assert code_of(await alice.ask(produce("topic"), 9)) == T
    assert code_of(await bob.ask(produce("topic"), 9)) == 0


async def test_many_names_are_not_remembered_without_end(server, monkeypatch):
    monkeypatch.setattr("headrace.broker.access.authorizer.VERDICTS_MAX", 100)
    authorizer = server.node.authorizer
    alice = await server.connect("alice")
    for number in range(10):
        part = [PartitionProduceData(0, b"")]
        topics = [TopicProduceData(f"{number}-{index}", partition_data=part) for index in range(50)]
        await alice.ask(ProduceRequest(None, 1, 1000, topics), 9)
    assert sum(len(verdicts.known) for verdicts in authorizer._remembering) <= 100
    assert code_of(await alice.ask(produce("topic"), 9)) == 0
