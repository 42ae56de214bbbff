"""Clients over their quota are answered at once, told how long to wait, and not read from for that long."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from headrace.access.quotas.entity import CLIENT_ID, DEFAULT, USER, EntityPart
from headrace.access.quotas.keys import QuotaKey
from headrace.metadata.commands.quota_commands import EntityEdits, QuotaEdit, alter_quotas
from headrace.model.errors import ErrorCode
from headrace.wire.frames import decode_response
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.unit.servers.living_server import SOON_S, LivingServer, fetch, living_server, produce, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.servers.kafka.connections.connection import Connection

EVERYBODY = EntityPart(USER, DEFAULT)
OUR_ID = EntityPart(CLIENT_ID, "test")
OTHER_ID = EntityPart(CLIENT_ID, "somebody-else")
LITTLE = 8000.0  # bytes per second: a batch of a thousand bytes is an eighth of a second
HARDLY = 1.0  # the same batch is a quarter of an hour
BATCH = b"x" * 1000


@pytest.fixture
async def living(tmp_path: Path) -> AsyncIterator[LivingServer]:
    async with living_server(tmp_path) as running:
        await running.create_topic("topic")
        yield running
        assert not running.node.failed.done()


async def set_quota(living: LivingServer, key: QuotaKey, value: float | None, entity: EntityPart = EVERYBODY) -> None:
    wanted = [EntityEdits((entity,), (QuotaEdit(key.value, value),))]
    await living.node.commands.submit(lambda image: alter_quotas(image, wanted))


def only_connection(living: LivingServer) -> Connection:
    (connection,) = living.server.connections.seats()
    return connection


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [3, 8, 9, 12])
async def test_a_producer_over_its_quota_is_told_so_and_read_no_earlier(
    living: LivingServer, version: int, acks: int
) -> None:
    await set_quota(living, QuotaKey.PRODUCED_BYTES, LITTLE)
    client = await living.connect()
    began_s = time.monotonic()
    first = await client.ask(produce("topic", BATCH, acks=acks), version)
    assert first.responses[0].partition_responses[0].error_code == 0, "what was sent is taken"
    assert first.throttle_time_ms > 100
    await client.ask(produce("topic", BATCH, acks=acks), version)
    assert time.monotonic() - began_s >= first.throttle_time_ms / 1000


async def test_several_requests_of_one_read_wait_for_each_other(living: LivingServer) -> None:
    await set_quota(living, QuotaKey.PRODUCED_BYTES, LITTLE)
    client = await living.connect()
    began_s = time.monotonic()
    for _ in range(3):
        client.begin(produce("topic", BATCH), 8)
    for before in range(3):
        assert await client.frame() is not None
        assert time.monotonic() - began_s >= before * len(BATCH) / LITTLE, "those before it are not paid for"


async def test_a_producer_that_wants_no_answers_is_not_read_either(living: LivingServer) -> None:
    await set_quota(living, QuotaKey.PRODUCED_BYTES, HARDLY)
    client = await living.connect()
    for _ in range(2):
        client.begin(produce("topic", BATCH, acks=0), 8)
    partition = living.node.topics.partition("topic", 0)
    await until(lambda: partition.log.next_offset == 1 and only_connection(living).muting.is_on)
    other = await living.connect()
    await other.ask(ApiVersionsRequest(), 0)  # the loop has been round, with all that had come before this
    assert partition.log.next_offset == 1


async def test_whoever_has_no_quota_is_not_held_up(living: LivingServer) -> None:
    await set_quota(living, QuotaKey.PRODUCED_BYTES, HARDLY, OTHER_ID)
    client = await living.connect()
    for _ in range(20):
        answer = await client.ask(produce("topic", BATCH), 8)
        assert answer.throttle_time_ms == 0
    assert not only_connection(living).muting.is_on


async def test_a_quota_that_is_raised_or_removed_lets_those_go_on_who_wait(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.servers.kafka.connections.muting.LOOK_S", 0.01)
    await set_quota(living, QuotaKey.PRODUCED_BYTES, HARDLY)
    client = await living.connect()
    assert (await client.ask(produce("topic", BATCH), 8)).throttle_time_ms > 900_000
    client.begin(produce("topic", BATCH), 8)
    await set_quota(living, QuotaKey.PRODUCED_BYTES, None)
    async with asyncio.timeout(SOON_S):
        assert await client.frame() is not None


async def test_a_consumer_gets_no_more_than_its_quota(living: LivingServer) -> None:
    client = await living.connect()
    for _ in range(20):
        await client.ask(produce("topic", BATCH), 8)
    await set_quota(living, QuotaKey.FETCHED_BYTES, LITTLE)
    began_s, read, offset = time.monotonic(), 0, 0
    while offset < 14:
        answer = await client.ask(fetch("topic", offset), 11)
        assert time.monotonic() - began_s >= read / LITTLE, "what came before it is not paid for"
        records = answer.responses[0].partitions[0].records or b""
        read += len(records)
        offset += len(records) // (len(BATCH) + 60)


async def test_a_fetch_of_somebody_who_owes_is_answered_without_records(living: LivingServer) -> None:
    client, other = await living.connect(), await living.connect()
    for _ in range(3):
        await client.ask(produce("topic", BATCH), 8)
    await set_quota(living, QuotaKey.FETCHED_BYTES, HARDLY)
    first = await client.ask(fetch("topic", 0), 11)
    assert first.responses[0].partitions[0].records
    assert first.throttle_time_ms > 900_000
    for version in (4, 11):
        another = await living.connect()
        second = await another.ask(fetch("topic", 0), version)
        assert second.responses == []
        assert second.throttle_time_ms > 900_000
    opening = await other.ask(fetch("topic", 0, session_epoch=0), 11)
    assert (opening.error_code, opening.session_id, opening.responses) == (0, 0, [])


async def test_a_session_goes_on_after_an_answer_without_records(living: LivingServer) -> None:
    client, greedy = await living.connect(), await living.connect()
    for _ in range(2):
        await client.ask(produce("topic", BATCH), 8)
    opened = await client.ask(fetch("topic", 2, session_epoch=0), 11)
    await set_quota(living, QuotaKey.FETCHED_BYTES, LITTLE)
    assert (await greedy.ask(fetch("topic", 0), 11)).throttle_time_ms > 0
    session = {"session_id": opened.session_id, "max_wait_ms": 0, "min_bytes": 1}
    empty = await client.ask(FetchRequest(session_epoch=1, **session), 11)
    assert (empty.error_code, empty.session_id, empty.responses) == (0, opened.session_id, [])
    assert empty.throttle_time_ms > 0
    await set_quota(living, QuotaKey.FETCHED_BYTES, None)
    writer = await living.connect()
    await writer.ask(produce("topic", BATCH), 8)
    third = await client.ask(FetchRequest(session_epoch=2, **session), 11)
    assert third.error_code == ErrorCode.NONE
    assert third.responses[0].partitions[0].records


async def test_a_long_poll_that_waits_on_a_muted_connection_is_answered(living: LivingServer) -> None:
    await set_quota(living, QuotaKey.PRODUCED_BYTES, HARDLY, OUR_ID)
    client = await living.connect()
    client.begin(fetch("topic", 0, max_wait_ms=60_000), 11)
    await until(lambda: living.server.parked.count == 1)
    client.begin(produce("topic", BATCH, acks=0), 8)
    frame = await client.frame()
    assert frame is not None
    assert decode_response(frame, 1, 11)[1].responses[0].partitions[0].records
    assert only_connection(living).muting.is_on


async def test_time_that_requests_take_is_counted_for_all_of_them(living: LivingServer) -> None:
    await set_quota(living, QuotaKey.REQUEST_TIME, 0.001)
    for message, version in [(ApiVersionsRequest(), 3), (MetadataRequest(None), 12), (produce("topic"), 8)]:
        client = await living.connect()
        answer = await client.ask(message, version)
        assert answer.throttle_time_ms > 0, message
    await set_quota(living, QuotaKey.REQUEST_TIME, None)
    await set_quota(living, QuotaKey.REQUEST_TIME, 0.001, OTHER_ID)
    for message, version in [(ApiVersionsRequest(), 3), (MetadataRequest(None), 12), (MetadataRequest([]), 0)]:
        client = await living.connect()
        answer = await client.ask(message, version)
        assert answer.throttle_time_ms == 0, "no answer is anybody else's"


async def test_old_versions_whose_answers_have_no_place_for_it_are_answered_and_wait(living: LivingServer) -> None:
    await set_quota(living, QuotaKey.REQUEST_TIME, 0.001)
    for message, version in [(ApiVersionsRequest(), 0), (MetadataRequest(None), 1)]:
        client = await living.connect()
        await client.ask(message, version)
        assert all(connection.muting.is_on for connection in living.server.connections.seats())


async def test_a_muted_connection_is_not_idle_and_a_stop_does_not_wait_for_it(tmp_path: Path) -> None:
    async with living_server(tmp_path) as living:
        await living.create_topic("topic")
        await set_quota(living, QuotaKey.PRODUCED_BYTES, HARDLY)
        client = await living.connect()
        await client.ask(produce("topic", BATCH), 8)
        only_connection(living).close_if_idle()
        await asyncio.sleep(0)
        assert len(living.server.connections) == 1
        began_s = time.monotonic()
        await living.server.stop()
        assert time.monotonic() - began_s < 1.0, "a stop waits that long for those who are served"
        assert not living.server.connections


async def test_nodes_have_no_quotas(living: LivingServer) -> None:
    address = await living.listen_for_nodes()
    await set_quota(living, QuotaKey.PRODUCED_BYTES, HARDLY)
    await set_quota(living, QuotaKey.REQUEST_TIME, 0.001)
    node = await living.connect(address)
    for _ in range(3):
        assert (await node.ask(produce("topic", BATCH), 8)).throttle_time_ms == 0
        assert (await node.ask(MetadataRequest(None), 12)).throttle_time_ms == 0
