"""Fetches that wait: an append looks at those that it may complete, and at no others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.partitions.deletion import delete_records
from headrace.broker.partitions.fetch_session import FetchSession
from headrace.model.errors import ErrorCode
from headrace.model.names import Epoch, NodeId
from headrace.servers.kafka.limits import parked_fetches
from headrace.wire.frames import decode_response
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.servers.living_server import Client, LivingServer, fetch, living_server, produce, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.broker.partitions.partition import Partition

WAIT_MS = 60_000
VERSION = 11


@pytest.fixture
async def living(tmp_path: Path) -> AsyncIterator[LivingServer]:
    async with living_server(tmp_path) as running:
        await running.create_topic("topic", 3)
        yield running
        await running.close_clients()
        await until(lambda: running.server.parked.count == 0 and running.leased_files() == 0)
        assert not running.node.failed.done()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[FetchSession]:
    """Every look at what there is for a fetch."""
    made: list[FetchSession] = []
    collect = FetchSession.collect

    def counted(session: FetchSession, *arguments: Any, **options: Any) -> Any:
        made.append(session)
        return collect(session, *arguments, **options)

    monkeypatch.setattr(FetchSession, "collect", counted)
    return made


def partition_of(living: LivingServer, index: int = 0) -> Partition:
    return living.node.topics.partition("topic", index)


def fetch_of_all(min_bytes: int, **options: int) -> FetchRequest:
    parts = [FetchPartition(index, fetch_offset=0, partition_max_bytes=64 << 20) for index in range(3)]
    topic = FetchTopic("topic", partitions=parts)
    return FetchRequest(topics=[topic], max_wait_ms=WAIT_MS, min_bytes=min_bytes, max_bytes=64 << 20, **options)


async def parked(living: LivingServer, request: FetchRequest, connections: int, each: int = 1) -> list[Client]:
    before = living.server.parked.count
    clients = [await living.connect() for _ in range(connections)]
    for client in clients:
        for _ in range(each):
            client.begin(request, VERSION)
    await until(lambda: living.server.parked.count == before + connections * each)
    return clients


async def test_appends_do_not_look_at_fetches_that_cannot_have_enough(
    living: LivingServer, looks: list[FetchSession]
) -> None:
    """100 parked fetches and 1,000 appends: as many looks as fetches, and a few."""
    count, appends = 100, 1000
    await parked(living, fetch("topic", 0, max_wait_ms=WAIT_MS, min_bytes=2**31 - 1), 10, each=10)
    assert len(looks) == count
    producer = await living.connect()
    for _ in range(appends):
        assert (await producer.ask(produce("topic", b"x" * 100), 7)).responses[0].partition_responses[0].error_code == 0
    assert len(looks) == count


async def test_looks_are_few_when_the_bytes_come_in_small_steps(
    living: LivingServer, looks: list[FetchSession]
) -> None:
    clients = await parked(living, fetch_of_all(100_000), 20)
    producer = await living.connect()
    while partition_of(living).log.size_bytes < 100_000:
        assert living.server.parked.count == 20
        await producer.ask(produce("topic", b"x" * 100), 7)
    assert all([await client.frame() is not None for client in clients])
    assert len(looks) < 20 * 25


async def test_a_fetch_is_answered_with_the_append_that_gives_it_enough(living: LivingServer) -> None:
    (client,) = await parked(living, fetch("topic", 0, max_wait_ms=WAIT_MS, min_bytes=10_000), 1)
    answer = asyncio.ensure_future(client.frame())
    producer = await living.connect()
    for _ in range(4):
        await producer.ask(produce("topic", b"x" * 2000), 7)
    assert not answer.done()
    await producer.ask(produce("topic", b"x" * 2000), 7)
    assert len(await answer or b"") > 10_000


async def test_one_byte_is_enough_for_most_and_wakes_them_at_once(living: LivingServer) -> None:
    clients = await parked(living, fetch_of_all(1), 20)
    producer = await living.connect()
    await producer.ask(produce("topic", b"x"), 7)
    assert all([await client.frame() is not None for client in clients])


async def test_the_last_byte_may_be_lacking(living: LivingServer) -> None:
    """What is there already counts."""
    producer = await living.connect()
    await producer.ask(produce("topic", b"x"), 7)
    size = partition_of(living).log.size_bytes
    (client,) = await parked(living, fetch("topic", 0, max_wait_ms=WAIT_MS, min_bytes=size + 1), 1)
    await producer.ask(produce("topic", b"x"), 7)
    assert await client.frame() is not None


async def test_whoever_waits_for_bytes_hears_of_a_new_leader(living: LivingServer) -> None:
    (client,) = await parked(living, fetch("topic", 0, max_wait_ms=WAIT_MS, min_bytes=10_000), 1)
    partition = partition_of(living)
    partition.follow(Epoch(partition.replica.leader_epoch + 1), NodeId(9), [NodeId(0), NodeId(9)])
    answer = decode_response(await client.frame() or b"", FetchRequest.API_KEY, VERSION)[1]
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_and_of_records_that_are_deleted(living: LivingServer) -> None:
    producer = await living.connect()
    for _ in range(3):
        await producer.ask(produce("topic", b"x"), 7)
    await until(lambda: partition_of(living).high_watermark == 3)
    (client,) = await parked(living, fetch("topic", 1, max_wait_ms=WAIT_MS, min_bytes=10_000), 1)
    delete_records(partition_of(living), partition_of(living).high_watermark)
    answer = decode_response(await client.frame() or b"", FetchRequest.API_KEY, VERSION)[1]
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_session_that_has_nothing_under_way_is_told_once(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[FetchSession] = []
    readable = FetchSession.partition_readable

    def counted(session: FetchSession, partition: Partition, *, is_stable: bool) -> None:
        told.append(session)
        readable(session, partition, is_stable=is_stable)

    monkeypatch.setattr(FetchSession, "partition_readable", counted)
    count = 30
    for _ in range(count):
        client = await living.connect()
        await client.ask(fetch("topic", 0, max_wait_ms=0, session_epoch=0), VERSION)
    assert len(living.node.fetch_sessions) == count
    producer = await living.connect()
    for _ in range(20):
        await producer.ask(produce("topic", b"x"), 7)
    assert len(told) == count


async def test_many_parked_fetches_leave_each_connection_one(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked_fetches, "PARKED_MAX", 10)
    waiting = fetch("topic", 0, max_wait_ms=WAIT_MS, min_bytes=10_000)
    await parked(living, waiting, 1, each=10)
    newcomer = await living.connect()
    newcomer.begin(waiting, VERSION)
    newcomer.begin(waiting, VERSION)
    newcomer.begin(ApiVersionsRequest(), 0)
    other = await living.connect()
    await other.ask(ApiVersionsRequest(), 0)
    await until(lambda: living.server.parked.count == 11)
    await other.ask(produce("topic", b"x" * 10_000), 7)
    assert all([await newcomer.frame() is not None for _ in range(3)])
    assert living.server.parked.count == 0


async def test_fetches_of_too_many_partitions_do_not_wait(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked_fetches, "PARTITIONS_MAX", 7)
    await parked(living, fetch_of_all(10_000), 2)
    third = await living.connect()
    assert await third.ask(fetch_of_all(10_000), VERSION) is not None
    session = await third.ask(fetch_of_all(0, session_epoch=0), VERSION)
    third.begin(FetchRequest(session_id=session.session_id, session_epoch=1, max_wait_ms=WAIT_MS, min_bytes=9), VERSION)
    await until(lambda: living.server.parked.count == 3)
