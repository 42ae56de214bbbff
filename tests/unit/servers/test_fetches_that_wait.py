"""Fetches that wait, for more to read or for cold bytes, and what becomes of them; and how much one may take."""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import TYPE_CHECKING, Any

from headrace.model.errors import ErrorCode
from headrace.runtime.disk import ReadFault, SystemFile
from headrace.servers.kafka.handlers.records import fetch as fetching
from headrace.storage.segments.segment import Segment
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.fetch import FetchPartition, FetchRequest
from tests.unit.servers.living_server import fetch, living_server, produce, until
from tests.unit.storage.small_logs import headers_in

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from headrace.broker.partitions.partition import Partition
    from tests.unit.servers.living_server import LivingServer

TOPIC = "events"
FETCH = 12
PRODUCE = 9
LONG_MS = 60_000
PATIENCE_S = 10.0  # against hangs only
VALUE = b"v" * 1000


async def partition_of(server: LivingServer) -> Partition:
    await server.create_topic(TOPIC)
    return server.node.topics.partition(TOPIC, 0)


async def test_what_comes_while_a_fetch_rests_is_looked_at_when_the_rest_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has just looked and found too little. What comes next is enough, and nothing comes after it."""
    monkeypatch.setattr(fetching, "REST_FACTOR", 1)
    async with living_server(tmp_path) as server:
        partition = await partition_of(server)
        client = await server.connect()
        client.begin(fetch(TOPIC, max_wait_ms=LONG_MS, min_bytes=2 * len(VALUE)), FETCH)
        await until(lambda: bool(partition.watchers.readers))
        for _ in range(2):  # in one turn of the loop: the second surely meets the rest
            partition.writer.append(encode_batch([(1_700_000_000_000, None, VALUE, ())]))
        async with asyncio.timeout(PATIENCE_S):
            assert await client.frame() is not None


async def test_a_client_that_is_gone_when_its_cold_bytes_are_read_holds_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reading, may_end = threading.Event(), threading.Event()

    def warm(*_: object) -> None:
        is_reading.set()
        may_end.wait(30)

    monkeypatch.setattr(SystemFile, "is_cached", lambda *_: False)
    monkeypatch.setattr(SystemFile, "warm", warm)
    async with living_server(tmp_path) as server:
        await partition_of(server)
        client = await server.connect()
        await client.ask(produce(TOPIC, VALUE), PRODUCE)
        client.begin(fetch(TOPIC), FETCH)
        await until(is_reading.is_set)
        assert server.leased_files() == 1
        client.vanish()
        await until(lambda: not server.server.connections)
        may_end.set()
        await until(lambda: "warm a fetch" not in {task.get_name() for task in asyncio.all_tasks()})
        assert server.leased_files() == 0


async def test_cold_bytes_that_cannot_be_read_are_an_error_of_their_partition_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others come with the same answer, and the connection stays: a follower has one for all that it follows."""
    honest = SystemFile.read

    def read(file: SystemFile, position: int, size: int) -> bytes:
        if file.path == bad:
            raise ReadFault(OSError(errno.EIO, "Input/output error"), file.path, position)
        return honest(file, position, size)

    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC, partitions=3)
        client = await server.connect()
        await client.ask(produce(TOPIC, VALUE, partitions=3), PRODUCE)
        bad = server.node.topics.partition(TOPIC, 1).log.segments[0].log_path
        monkeypatch.setattr(SystemFile, "is_cached", lambda *_: False)
        monkeypatch.setattr(SystemFile, "warm", read)
        monkeypatch.setattr(SystemFile, "read", read)
        request = fetch(TOPIC)
        request.topics[0].partitions = [FetchPartition(index, partition_max_bytes=1 << 20) for index in range(3)]
        answer = await client.ask(request, FETCH)
        found = {part.partition_index: part for part in answer.responses[0].partitions}
        assert [found[index].error_code for index in range(3)] == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert [len(headers_in(bytes(found[index].records or b""))) for index in range(3)] == [1, 0, 1]
        await until(lambda: server.node.damage.damaged_count == 1)
        request.topics[0].partitions = request.topics[0].partitions[:1]
        assert (await client.ask(request, FETCH)).responses[0].partitions[0].error_code == 0
        assert server.leased_files() == 0


async def test_a_fetch_waits_for_a_lost_index_and_the_loop_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, makers = Segment.rebuild_indexes, []

    def rebuild(segment: Segment, *arguments: Any) -> None:
        makers.append(threading.current_thread())
        honest(segment, *arguments)

    monkeypatch.setattr(Segment, "rebuild_indexes", rebuild)
    async with living_server(tmp_path) as server:
        partition = await partition_of(server)
        client = await server.connect()
        for _ in range(20):
            await client.ask(produce(TOPIC, VALUE), PRODUCE)
        partition.log.roll()
        lost = partition.log.segments[0]
        for path in lost.index_paths:
            partition.log.disk.remove(path)
        lost.unload_index()
        partition.log._positions.forget()
        answer = await client.ask(fetch(TOPIC, 7, max_wait_ms=LONG_MS), FETCH)
        (found,) = answer.responses[0].partitions
        assert headers_in(bytes(found.records))[0].base_offset == 7
        assert makers
        assert threading.main_thread() not in makers


async def test_a_fetch_takes_no_more_than_the_node_allows(tmp_path: Path) -> None:
    async with living_server(tmp_path, fetch_max_bytes="4096") as server:
        await partition_of(server)
        client = await server.connect()
        for _ in range(8):
            await client.ask(produce(TOPIC, VALUE), PRODUCE)
        request = fetch(TOPIC)
        assert isinstance(request, FetchRequest)
        request.max_bytes = 1 << 30
        answer = await client.ask(request, FETCH)
        (found,) = answer.responses[0].partitions
        assert 1 <= len(headers_in(bytes(found.records))) <= 3
