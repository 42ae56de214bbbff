"""A connection from the inside: what goes wrong stays with it, what it borrowed comes back, and it always goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from headrace.broker.partitions.fetch_session import FetchSession
from headrace.broker.partitions.writing import PartitionWriter
from headrace.model.errors import DiskFailure
from headrace.servers.kafka import server as kafka_server
from headrace.servers.kafka.connections.connection import IN_FLIGHT_MAX
from headrace.servers.kafka.handlers.cluster import api_versions
from headrace.servers.kafka.handlers.topics import create_topics
from headrace.servers.kafka.limits.answer_memory import OUTBOUND_MAX
from headrace.servers.kafka.limits.parked_fetches import LONG_POLLS_MAX
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.unit.servers.living_server import Client, LivingServer, fetch, living_server, produce, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.servers.kafka.connections.connection import Connection

ASK = ApiVersionsRequest()
CREATE = CreateTopicsRequest([CreatableTopic("new", 1, 1)])


@pytest.fixture
async def living(tmp_path: Path) -> AsyncIterator[LivingServer]:
    async with living_server(tmp_path) as running:
        await running.create_topic("topic", 3)
        yield running
        await until(lambda: running.leased_files() == 0)
        assert not running.node.failed.done()


def stumble(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("a bug")


async def is_served(living: LivingServer) -> bool:
    client = await living.connect()
    answer = await client.ask(ASK, 0)
    return bool(answer.error_code == 0)


async def the_only_connection(living: LivingServer) -> Connection:
    await until(lambda: len(living.server.connections) == 1)
    return next(iter(living.server.connections.seats()))


# ---- bugs of ours


async def test_a_bug_in_a_plain_handler_costs_one_connection(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    victim = await living.connect()
    with monkeypatch.context() as patch:
        patch.setattr(api_versions, "_ranges", stumble)
        victim.begin(ASK, 0)
        assert await victim.frame() is None
    assert "our fault" in caplog.text
    assert await is_served(living)


async def test_a_bug_in_a_slow_handler_costs_one_connection(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    victim = await living.connect()
    with monkeypatch.context() as patch:
        patch.setattr(living.node.quorum, "submit", stumble)
        victim.begin(CREATE, 4)
        assert await victim.frame() is None
    assert "our fault" in caplog.text
    assert await is_served(living)


async def test_an_answer_that_cannot_be_encoded_costs_one_connection(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = await living.connect()

    def endless(_: object) -> CreatableTopicResult:
        return CreatableTopicResult(error_message="x" * 40_000)

    with monkeypatch.context() as patch:
        patch.setattr(create_topics, "_result", endless)
        victim.begin(CREATE, 4)
        assert await victim.frame() is None
    assert await is_served(living)


async def test_a_bug_while_batches_are_staged_leaves_none_of_them_behind(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staged batches are views of this connection's buffer: whoever writes them later would write something else."""
    victim = await living.connect()
    admit = PartitionWriter.admit

    def admit_two(writer: PartitionWriter, *arguments: Any) -> Any:
        return stumble() if writer.partition.index == 2 else admit(writer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PartitionWriter, "admit", admit_two)
        victim.begin(produce("topic", b"x" * 100, partitions=3), 7)
        assert await victim.frame() is None
    client = await living.connect()
    answer = await client.ask(produce("topic", b"y", partitions=3), 7)
    offsets = [part.base_offset for part in answer.responses[0].partition_responses]
    assert offsets == [1, 1, 0], "what was staged before the bug was written then, and by nobody else"


async def test_a_bug_in_a_long_poll_does_not_reach_the_producer_that_wakes_it(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper, producer = await living.connect(), await living.connect()
    sleeper.begin(fetch("topic", max_wait_ms=30_000), 11)
    await until(lambda: any(connection._parked for connection in living.server.connections.seats()))
    with monkeypatch.context() as patch:
        patch.setattr(FetchSession, "collect", stumble)
        answer = await producer.ask(produce("topic"), 7)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert await sleeper.frame() is None


async def test_nothing_is_served_once_the_disk_has_failed(tmp_path: Path) -> None:
    async with living_server(tmp_path) as living:
        client = await living.connect()
        await client.ask(ASK, 0)
        living.node.health.failure.fail(DiskFailure("the disk is gone"))
        client.begin(ASK, 0)
        assert await client.frame() is None


# ---- what was borrowed comes back


async def fill_topic(living: LivingServer, mib: int) -> None:
    client = await living.connect()
    for _ in range(mib):
        await client.ask(produce("topic", b"x" * 900_000), 7)


@pytest.mark.parametrize("leaves", ["closed", "vanished"])
async def test_leases_come_back_when_a_reader_leaves_in_the_middle(living: LivingServer, leaves: str) -> None:
    await fill_topic(living, 16)
    deaf = [await living.connect() for _ in range(5)]
    for client in deaf:
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # only the transport can be deaf
        for _ in range(5):
            client.begin(fetch("topic"), 11)
    await until(lambda: living.leased_files() == 1)
    for client in deaf:
        if leaves == "closed":
            client.writer.close()
        else:
            client.vanish()
    await until(lambda: living.leased_files() == 0)


async def test_a_long_poll_of_a_client_that_left_listens_no_longer(living: LivingServer) -> None:
    client = await living.connect()
    client.begin(fetch("topic", max_wait_ms=30_000), 11)
    partition = living.node.topics.partition("topic", 0)
    await until(lambda: len(partition.watchers.readers) == 1)
    client.vanish()
    await until(lambda: not partition.watchers.readers)


async def test_no_task_outlives_its_request(living: LivingServer) -> None:
    tasks = len(living.server.tasks)
    for _ in range(20):
        client = await living.connect()
        client.begin(CREATE, 4)
        await client.writer.drain()
        client.vanish()
    await until(lambda: len(living.server.tasks) == tasks)
    await until(lambda: len(living.server.connections) == 0)


# ---- limits, and going on afterwards


async def test_a_full_turn_of_requests_does_not_stop_the_connection(living: LivingServer) -> None:
    """More requests lie in one buffer than may be in flight; all are answered in the turn that begins them."""
    client = await living.connect()
    await client.ask(produce("topic", b"x" * 500_000), 7)  # now the buffer is large
    count = 3 * IN_FLIGHT_MAX
    for _ in range(count):
        client.begin(produce("topic", b""), 7)
    for _ in range(count):
        assert await client.frame() is not None


async def test_answers_behind_a_long_poll_stop_at_the_limit_and_then_come(living: LivingServer) -> None:
    await living.create_topic("wide", 250)
    client = await living.connect()
    client.begin(fetch("topic", max_wait_ms=60_000), 11)
    count = 1000
    for _ in range(count):
        client.begin(MetadataRequest(None), 4)
    connection = await the_only_connection(living)
    await until(lambda: connection._waiting_bytes > OUTBOUND_MAX)
    assert connection._waiting_bytes < OUTBOUND_MAX + (1 << 20)
    await (await living.connect()).ask(produce("topic"), 7)
    for _ in range(count + 1):
        assert await client.frame() is not None
    assert connection._waiting_bytes == 0


async def test_long_polls_stop_at_the_limit_and_then_go_on(living: LivingServer) -> None:
    client = await living.connect()
    count = 3 * LONG_POLLS_MAX
    for _ in range(count):
        client.begin(fetch("topic", max_wait_ms=50), 11)
    connection = await the_only_connection(living)
    await until(lambda: len(connection._parked) == LONG_POLLS_MAX)
    for _ in range(count):
        assert await client.frame() is not None
        assert len(connection._parked) <= LONG_POLLS_MAX


async def test_a_chain_of_connections_that_wake_each_other_is_no_recursion(living: LivingServer) -> None:
    """Each has as many long polls as it may, and a produce behind them that wakes the next connection."""
    length = 150
    await living.create_topic("chain", length + 1)
    chain = []
    for link in range(length):
        client = await living.connect()
        client.begin(_fetch_partition(link), 11)
        for _ in range(LONG_POLLS_MAX - 1):
            client.begin(fetch("topic", max_wait_ms=60_000), 11)
        client.begin(_produce_partition(link + 1), 7)
        chain.append(client)
    await until(lambda: sum(len(each._parked) for each in living.server.connections.seats()) == length * LONG_POLLS_MAX)
    starter = await living.connect()
    starter.begin(_produce_partition(0), 7)
    assert await starter.frame() is not None
    for client in chain:
        assert await client.frame() is not None, "its own partition was written to"
    end = living.node.topics.partition("chain", length)
    await until(lambda: end.high_watermark == 1)


def _fetch_partition(index: int) -> Any:
    request = fetch("chain", max_wait_ms=60_000)
    request.topics[0].partitions[0].partition = index
    return request


def _produce_partition(index: int) -> Any:
    request = produce("chain")
    request.topic_data[0].partition_data[0].index = index
    return request


async def test_connections_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async with living_server(tmp_path, max_connections="3") as living:
        clients = [await living.connect() for _ in range(5)]
        for client in clients:
            client.begin(ASK, 0)
        answers = [await client.frame() for client in clients]
        assert sum(answer is not None for answer in answers) == 3
        clients[0].vanish()
        await until(lambda: len(living.server.connections) == 2)
        assert await is_served(living)


async def test_refusals_are_counted_all_and_logged_a_few_times(
    living: LivingServer, caplog: pytest.LogCaptureFixture
) -> None:
    count = kafka_server.REFUSALS_LOGGED + 10
    with caplog.at_level(logging.WARNING):
        for _ in range(count):
            client = await living.connect()
            client.writer.write(b"\xff" * 100)
            assert await client.frame() is None
    assert living.node.counters.refused_connections == count
    assert caplog.text.count("closed the connection") == kafka_server.REFUSALS_LOGGED


# ---- idle, and the end


async def test_an_idle_connection_is_closed_and_a_waiting_one_is_not(living: LivingServer) -> None:
    client = await living.connect()
    await client.ask(ASK, 0)
    client.begin(fetch("topic", max_wait_ms=300), 11)
    connection = await the_only_connection(living)
    await until(lambda: bool(connection._parked))
    connection.close_if_idle()
    assert await client.frame() is not None
    connection.close_if_idle()
    assert await client.frame() is None


async def test_an_idle_connection_that_never_read_its_answers_is_cut(living: LivingServer) -> None:
    await fill_topic(living, 16)
    await living.close_clients()
    client = await living.connect()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # only the transport can be deaf
    connection = await the_only_connection(living)
    client.begin(fetch("topic"), 11)
    await until(lambda: connection.link.queued_bytes > 0)
    connection.close_if_idle()
    assert not connection.is_gone, "it may still be reading"

    def look_again() -> bool:
        """The kernel's buffers take some of it for a while: only two looks at the same bytes are the end."""
        connection.close_if_idle()
        return connection.is_gone

    await until(look_again)
    await until(lambda: not living.server.connections)


async def test_stopping_answers_long_polls_and_cuts_those_who_do_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_server, "LEAVE_S", 2.0)  # time enough to answer, also on a busy machine
    async with living_server(tmp_path) as living:
        await living.create_topic("topic")
        await fill_topic(living, 16)
        sleeper, deaf, idle = [await living.connect() for _ in range(3)]
        sleeper.begin(fetch("topic", 16, max_wait_ms=60_000), 11)
        deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]  # only the transport can be deaf
        deaf.begin(fetch("topic"), 11)
        await idle.ask(ASK, 0)
        await until(lambda: living.leased_files() == 1)
        await until(lambda: any(connection._parked for connection in living.server.connections.seats()))
        answers = asyncio.gather(*map(_answers, (sleeper, idle)))
        await living.server.stop()
        assert await answers == [1, 0]
        assert not living.server.connections
        assert living.leased_files() == 0


async def _answers(client: Client) -> int:
    count = 0
    while await client.frame() is not None:
        count += 1
    return count


async def test_a_stop_in_the_middle_of_requests_is_quiet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with living_server(tmp_path) as living:
        await living.create_topic("topic")
        clients = [await living.connect() for _ in range(10)]
        raw = encode_request(RequestHeader(0, 7, 1, "busy"), produce("topic", acks=-1)) * 300
        raw += encode_request(RequestHeader(19, 4, 2, "busy"), CREATE) * 3
        for client in clients:
            client.writer.write(raw)
        await asyncio.sleep(0.02)
        await living.server.stop()
    assert "Traceback" not in caplog.text
    assert not living.node.failed.done()
