"""What Fetch, ListOffsets and DescribeProducers say about transactions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.model.names import ProducerId
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import decode_response
from headrace.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.unit.servers.living_server import fetch, living_server, until
from tests.unit.storage.small_logs import headers_in

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.broker.partitions.partition import Partition
    from headrace.wire.messages.fetch import FetchResponse, PartitionData
    from tests.unit.servers.living_server import Client, LivingServer

FETCH = 12
LIST_OFFSETS = 8
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST, MAX_TIMESTAMP = -1, -3
NOON = 1_700_000_000_000
PRODUCER = ProducerId(7)


def append(partition: Partition, timestamp_ms: int = NOON, *, is_transactional: bool = True) -> None:
    partition.writer.append(
        encode_batch(
            [(timestamp_ms, b"k", b"v", ())],
            producer_id=PRODUCER if is_transactional else -1,
            producer_epoch=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
    )


def end(partition: Partition, *, is_commit: bool) -> None:
    partition.writer.write_marker(PRODUCER, 0, is_commit=is_commit, coordinator_epoch=3, transaction_version=1)


async def topic(server: LivingServer) -> Partition:
    await server.create_topic("orders", segment_ms=str(1 << 60))  # markers are of today, the records here are not
    return server.node.topics.partition("orders", 0)


def only(response: FetchResponse) -> PartitionData:
    (found,) = response.responses[0].partitions
    return found


def is_waiting(server: LivingServer, partition: Partition) -> bool:
    return bool(partition.watchers.readers) and not server.leased_files()


async def latest(client: Client, level: int, timestamp: int = LATEST, replica_id: int = -1) -> int:
    wanted = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, timestamp)])
    response = await client.ask(ListOffsetsRequest(replica_id, level, [wanted]), LIST_OFFSETS)
    (found,) = response.topics[0].partitions
    assert found.error_code == ErrorCode.NONE
    offset: int = found.offset
    return offset


async def test_a_client_that_says_that_it_is_a_replica_is_told_what_clients_are(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        partition = await topic(server)
        client = await server.connect()
        append(partition)
        assert await latest(client, READ_COMMITTED, replica_id=1) == 0, "a replica would be told where the log ends"
        assert await latest(client, READ_UNCOMMITTED, replica_id=1) == 1


async def test_fetch_stops_at_what_is_stable_and_names_what_was_aborted(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        partition = await topic(server)
        client = await server.connect()
        append(partition)
        end(partition, is_commit=False)
        append(partition)

        committed = only(await client.ask(fetch("orders", isolation_level=READ_COMMITTED), FETCH))
        assert (committed.high_watermark, committed.last_stable_offset) == (3, 2)
        assert committed.aborted_transactions is not None
        assert [(item.producer_id, item.first_offset) for item in committed.aborted_transactions] == [(7, 0)]
        everything = only(await client.ask(fetch("orders", isolation_level=READ_UNCOMMITTED), FETCH))
        assert (everything.high_watermark, everything.last_stable_offset) == (3, 2)
        assert everything.aborted_transactions is None
        assert len(everything.records or b"") > len(committed.records or b"") > 0


async def test_a_waiting_fetch_counts_stable_bytes_alone_and_wakes_on_commit_and_abort(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        partition = await topic(server)
        client = await server.connect()
        for is_commit in (True, False):
            offset = partition.high_watermark
            client.begin(fetch("orders", offset, max_wait_ms=30_000, isolation_level=READ_COMMITTED), FETCH)
            answer = asyncio.create_task(client.frame())
            await until(lambda: is_waiting(server, partition))
            append(partition)
            end(partition, is_commit=is_commit)
            frame = await answer
            assert frame is not None
            found = only(decode_response(frame, FetchRequest.API_KEY, FETCH)[1])
            batches = headers_in(bytes(found.records or b""))
            assert [batch.base_offset for batch in batches] == [offset, offset + 1], "it did not answer before the end"


async def test_an_incremental_session_hears_of_what_becomes_stable(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        partition = await topic(server)
        client = await server.connect()
        append(partition)
        first = await client.ask(fetch("orders", isolation_level=READ_COMMITTED, session_id=0, session_epoch=0), FETCH)
        assert first.session_id
        assert not only(first).records
        again = fetch("orders", isolation_level=READ_COMMITTED, session_id=first.session_id, session_epoch=1)
        again.topics = []
        nothing = await client.ask(again, FETCH)
        assert nothing.responses == []
        end(partition, is_commit=True)
        again.session_epoch = 2
        news = only(await client.ask(again, FETCH))
        assert (news.high_watermark, news.last_stable_offset) == (2, 2)
        assert news.records


async def test_list_offsets_knows_both_ends(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        partition = await topic(server)
        client = await server.connect()
        append(partition, NOON, is_transactional=False)
        append(partition, NOON + 10)
        assert await latest(client, READ_UNCOMMITTED) == 2
        assert await latest(client, READ_COMMITTED) == 1
        assert await latest(client, READ_UNCOMMITTED, NOON + 5) == 1
        assert await latest(client, READ_COMMITTED, NOON + 5) == -1
        assert await latest(client, READ_COMMITTED, NOON) == 0
        assert await latest(client, READ_UNCOMMITTED, MAX_TIMESTAMP) == 1
        assert await latest(client, READ_COMMITTED, MAX_TIMESTAMP) == -1
        end(partition, is_commit=True)
        assert await latest(client, READ_COMMITTED) == 3
        assert await latest(client, READ_COMMITTED, NOON + 5) == 1


async def test_producers_are_described(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        partition = await topic(server)
        client = await server.connect()
        append(partition)
        append(partition)
        request = DescribeProducersRequest([TopicRequest("orders", [0, 5]), TopicRequest("nowhere", [0])])
        known, unknown = (await client.ask(request, 0)).topics
        found, missing = known.partitions
        assert found.active_producers == [ProducerState(7, 0, -1, NOON, -1, 0)]
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        end(partition, is_commit=True)
        (state,) = (await client.ask(request, 0)).topics[0].partitions[0].active_producers
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (3, -1)
