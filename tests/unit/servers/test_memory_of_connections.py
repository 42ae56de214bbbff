"""Connections and the memory that all of them share: large requests, idle buffers, answers that nobody reads."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from headrace.servers.kafka.limits import answer_memory, request_memory
from headrace.servers.kafka.limits.answer_memory import DEAF_LOOKS, OUTBOUND_MAX, OUTBOUND_SHORT, AnswerMemory, Unread
from headrace.servers.kafka.limits.request_memory import MIB
from headrace.servers.kafka.server import LARGE_AT_ONCE
from headrace.wire.api import ApiKey
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.unit.servers.living_server import SOON_S, Client, LivingServer, living_server, produce, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FRAME_MAX = 8 * MIB
LOOK_S = 0.05


@pytest.fixture
async def living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LivingServer]:
    """One request of the largest size fits, and `USUAL_SHARE` beside it."""
    monkeypatch.setattr(request_memory, "LOOK_S", LOOK_S)
    monkeypatch.setattr(answer_memory, "LOOK_S", LOOK_S)
    limits = {"queued_max_request_bytes": "1", "socket_request_max_bytes": str(FRAME_MAX)}
    async with living_server(tmp_path, **limits) as running:
        await running.create_topic("topic", 1, max_message_bytes=str(16 * MIB))
        await running.create_topic("wide", 400)
        yield running
        await running.close_clients()
        await until(lambda: running.server.requests.used == 0 and running.server.answers.total == 0)
        assert not running.node.failed.done()


def begin_frame(client: Client, size: int, sent: int) -> None:
    start = struct.pack(">ihhih", size, ApiKey.METADATA, 4, 1, -1)
    client.writer.write(start + b"\xff" * (sent - len(start)))


def end_frame(client: Client, size: int, sent: int) -> None:
    client.writer.write(b"\xff" * (4 + size - sent))


async def test_unfinished_large_requests_share_one_budget_and_are_served_in_their_turn(living: LivingServer) -> None:
    memory = living.server.requests
    size, sent = FRAME_MAX, MIB
    clients = [await living.connect() for _ in range(4)]
    for client in clients:
        begin_frame(client, size, sent)
    await until(lambda: memory.has_waiters)
    assert memory.used == 4 + size
    for client in clients:
        end_frame(client, size, sent)
    for client in clients:
        assert await client.frame() is not None


async def test_usual_requests_pass_while_large_ones_wait(living: LivingServer) -> None:
    large = [await living.connect() for _ in range(3)]
    for client in large:
        begin_frame(client, FRAME_MAX, MIB)
    await until(lambda: living.server.requests.has_waiters)
    client = await living.connect()
    for _ in range(5):
        answer = await client.ask(produce("topic", b"x" * MIB), 7)
        assert answer.responses[0].partition_responses[0].error_code == 0


async def test_a_client_that_sends_no_more_makes_way_for_others(
    living: LivingServer, caplog: pytest.LogCaptureFixture
) -> None:
    silent, other = await living.connect(), await living.connect()
    begin_frame(silent, FRAME_MAX, MIB)
    await until(lambda: living.server.requests.used > 0)
    begin_frame(other, FRAME_MAX, MIB)
    assert await silent.frame() is None
    assert "others wait for the 8388612 bytes of memory" in caplog.text
    end_frame(other, FRAME_MAX, MIB)
    assert await other.frame() is not None


async def test_buffers_that_are_kept_count_and_are_given_back_under_pressure(living: LivingServer) -> None:
    """More producers than buffers fit: each is served all the same."""
    memory = living.server.requests
    count = memory.limit // (3 * MIB) + 4
    clients = [await living.connect() for _ in range(count)]
    for _ in range(2):
        for client in clients:
            answer = await client.ask(produce("topic", b"x" * (3 * MIB)), 7)
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert memory.used <= memory.limit
    assert memory.used > memory.limit - 4 * MIB, "who was served last keeps its buffer"
    assert sum(it._buffer.capacity for it in living.server.connections.seats()) < memory.limit + count * (64 << 10)


async def test_whoever_leaves_in_the_middle_gives_everything_back(living: LivingServer) -> None:
    clients = [await living.connect() for _ in range(3)]
    for client in clients:
        begin_frame(client, FRAME_MAX, MIB)
    await until(lambda: living.server.requests.has_waiters)
    for client in clients:
        client.vanish()
    await until(lambda: living.server.requests.used == 0)
    assert not living.server.requests.has_waiters


# ---- answers


METADATA = encode_request(RequestHeader(ApiKey.METADATA, 1, 1, "deaf"), MetadataRequest(None))


async def test_the_deaf_make_way_when_all_together_leave_too_much_unread(
    living: LivingServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answer_memory, "TOTAL_MAX", 6 * MIB)
    answers = living.server.answers
    deaf = [await living.connect() for _ in range(4)]
    for client in deaf:
        client.writer.write(METADATA * 2000)
    await until(lambda: answers.is_short)
    listening = await living.connect()
    for _ in range(50):
        assert await listening.ask(MetadataRequest(None), 1)
    await until(lambda: not answers.is_short)
    assert "answers that nobody reads take too much memory" in caplog.text
    assert answers.total < 6 * MIB + 4 * MIB


def test_what_one_may_leave_unread_depends_on_all() -> None:
    calls: list[None] = []
    memory = AnswerMemory(lambda: calls.append(None))
    some, more = Unread(memory), Unread(memory)
    some.made = answer_memory.TOTAL_MAX
    some.count()
    assert memory.allowance == OUTBOUND_MAX
    more.made = 1
    more.count()
    more.made = 2
    more.count()
    assert (memory.allowance, len(calls)) == (OUTBOUND_SHORT, 1)
    some.forget()
    assert memory.allowance == OUTBOUND_MAX
    assert memory.total == 2


def test_only_who_takes_nothing_is_deaf() -> None:
    memory = AnswerMemory()
    unread = Unread(memory)
    unread.made = MIB
    unread.count()
    looks = [unread.is_deaf(queued) for queued in (100, 99, 99, 99, 99)]
    assert looks == [False, False, False, False, True]
    assert DEAF_LOOKS == 3
    few = Unread(memory)
    few.made = 1000
    few.count()
    assert not any(few.is_deaf(1000) for _ in range(10)), "what it leaves unread is no trouble"


async def test_no_large_answer_is_made_while_too_many_wait_to_be_read(living: LivingServer) -> None:
    client, other = await living.connect(), await living.connect()
    answers = living.server.answers
    answers.changed(answer_memory.TOTAL_MAX + 1)
    client.begin(DescribeGroupsRequest(["g"]), 5)
    assert await other.ask(MetadataRequest([]), 9) is not None
    await until(lambda: client_barrier(living), SOON_S)
    assert not client.reader._buffer  # type: ignore[attr-defined]  # to read would be to wait
    answers.changed(-answer_memory.TOTAL_MAX - 1)
    assert await client.frame() is not None


def client_barrier(living: LivingServer) -> bool:
    return any(connection._slow.is_one_under_way for connection in living.server.connections.seats())


async def test_only_few_large_answers_are_made_at_a_time(living: LivingServer) -> None:
    clients = [await living.connect() for _ in range(5)]
    answers = living.server.answers
    answers.changed(answer_memory.TOTAL_MAX + 1)
    for client in clients:
        client.begin(DescribeGroupsRequest(["g"]), 5)
    await until(lambda: len(living.server.large_answers) == 5 - LARGE_AT_ONCE, SOON_S)
    answers.changed(-answer_memory.TOTAL_MAX - 1)
    for client in clients:
        assert await client.frame() is not None
