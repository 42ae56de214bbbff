"""Readers who want only what was committed: which batches they see, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings
from headrace.client.reading.offsets import Edge, IsolationLevel, find_bounds, find_offsets
from headrace.client.reading.partition_buffer import PartitionBuffer
from headrace.model.errors import Refusal
from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.batches.records import ControlType, Record, encode_batch
from headrace.wire.messages.fetch import AbortedTransaction, FetchResponse
from tests.unit.client.scripted_node import TOPIC, ScriptedNode, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)
COMMITTED = ConsumerSettings(isolation=IsolationLevel.READ_COMMITTED)
NAME = TopicPartition(TOPIC, 0)
PATIENCE_S = 120.0  # against hangs only
NOBODY = -1


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


def written(first: int, count: int, producer_id: int = NOBODY) -> bytes:
    return bytes(
        encode_batch(
            [(0, None, b"v", ())] * count,
            base_offset=first,
            producer_id=producer_id,
            is_transactional=producer_id != NOBODY,
        )
    )


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    key = b"\0\0" + kind.to_bytes(2, "big")
    return bytes(
        encode_batch(
            [(0, key, b"\0\0\0\0\0\0", ())],
            base_offset=offset,
            producer_id=producer_id,
            is_transactional=True,
            is_control=True,
        )
    )


def aborted(*pairs: tuple[int, int]) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id, first_offset) for producer_id, first_offset in pairs]


def seen(buffer: PartitionBuffer) -> list[int]:
    return [record.offset for record in buffer.take(1_000_000)]


def filled(batches: list[bytes], gone: list[AbortedTransaction] | None, start: int = 0) -> PartitionBuffer:
    buffer = PartitionBuffer(NAME, start)
    buffer.add(memoryview(b"".join(batches)), gone)
    return buffer


def test_an_aborted_transaction_is_passed_over_and_others_are_not() -> None:
    batches = [
        written(0, 2, producer_id=1),
        written(2, 2, producer_id=2),
        written(4, 1),
        marker(5, 1, ControlType.ABORT),
        marker(6, 2, ControlType.COMMIT),
        written(7, 1, producer_id=1),
        marker(8, 1, ControlType.COMMIT),
    ]
    buffer = filled(batches, aborted((1, 0)))
    assert seen(buffer) == [2, 3, 4, 7]
    assert buffer.position == 9
    assert seen(filled(batches, None)) == [0, 1, 2, 3, 4, 7]


def test_a_producer_may_abort_twice_in_one_answer() -> None:
    batches = [
        written(0, 1, producer_id=1),
        marker(1, 1, ControlType.ABORT),
        written(2, 1, producer_id=1),
        marker(3, 1, ControlType.COMMIT),
        written(4, 1, producer_id=1),
        marker(5, 1, ControlType.ABORT),
    ]
    assert seen(filled(batches, aborted((1, 4), (1, 0)))) == [2]


def test_a_transaction_that_began_before_the_answer_counts() -> None:
    batches = [written(10, 2, producer_id=1), marker(12, 1, ControlType.ABORT)]
    buffer = filled(batches, aborted((1, 3)), start=10)
    assert seen(buffer) == []
    assert buffer.position == 13


def test_what_is_not_in_a_transaction_is_seen_whoever_wrote_it() -> None:
    plain = bytes(encode_batch([(0, None, b"v", ())], base_offset=0, producer_id=1))
    assert seen(filled([plain], aborted((1, 0)))) == [0]


def test_a_damaged_marker_is_told() -> None:
    damaged = bytearray(marker(1, 1, ControlType.ABORT))
    damaged[-1] ^= 1
    with pytest.raises(Refusal, match="at offset 1 is damaged"):
        filled([written(0, 1, producer_id=1), bytes(damaged)], aborted((1, 0)))


class Step(NamedTuple):
    producer: int
    count: int
    """Records, or none: then its transaction ends."""
    is_commit: bool


steps = st.lists(st.builds(Step, st.integers(-1, 2), st.integers(0, 3), st.booleans()), max_size=20)


@given(steps, st.integers(0, 10), st.integers(1, 5))
def test_any_log_shows_what_a_model_of_it_shows(history: list[Step], start: int, poll_records: int) -> None:
    batches: list[bytes] = []
    open_since: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    gone: list[tuple[int, int]] = []
    visible: list[int] = []
    end = 0
    for step in history:
        if step.producer != NOBODY and not step.count:
            if step.producer in open_since:
                kind = ControlType.COMMIT if step.is_commit else ControlType.ABORT
                first, offsets = open_since.pop(step.producer), pending.pop(step.producer)
                if step.is_commit:
                    visible += offsets
                else:
                    gone.append((step.producer, first))
                batches.append(marker(end, step.producer, kind))
                end += 1
            continue
        count = max(step.count, 1)
        batches.append(written(end, count, step.producer))
        if step.producer == NOBODY:
            visible += range(end, end + count)
        else:
            open_since.setdefault(step.producer, end)
            pending.setdefault(step.producer, []).extend(range(end, end + count))
        end += count
    stable = min(open_since.values(), default=end)  # a node sends nothing beyond this
    log = b"".join(batch for batch in batches if int.from_bytes(batch[:8], "big") < stable)
    buffer = PartitionBuffer(NAME, start, max(start, stable))
    if start < stable:  # else it sends nothing at all
        buffer.add(memoryview(log), aborted(*gone))
    shown: list[Record] = []
    while not buffer.is_finished:
        shown += buffer.take(poll_records)
    assert [record.offset for record in shown] == [offset for offset in sorted(visible) if start <= offset < stable]


# Through the consumer.


def answer(*batches: bytes, gone: list[AbortedTransaction]) -> FetchResponse:
    response = records(*batches)
    response.responses[0].partitions[0].aborted_transactions = gone
    return response


async def test_a_reader_comes_to_its_end_though_the_last_thing_there_is_a_marker(node: ScriptedNode) -> None:
    node.script[ApiKey.FETCH] = [
        answer(written(0, 2, producer_id=1), gone=aborted((1, 0))),
        answer(marker(2, 1, ControlType.ABORT), written(3, 1), marker(4, 9, ControlType.COMMIT), gone=aborted((1, 0))),
    ]
    async with node.cluster(QUICK) as cluster, AssignedConsumer(cluster, COMMITTED) as consumer:
        await consumer.assign({NAME: 0}, {NAME: 5})
        read: list[int] = []
        while not consumer.is_finished:
            for found in (await consumer.poll(10, PATIENCE_S)).values():
                read += [record.offset for record in found]
        assert read == [3]
        assert consumer.position(NAME) == 5
    assert {request.isolation_level for request in node.asked(ApiKey.FETCH)} == {1}


async def test_ends_are_asked_for_as_they_will_be_read(node: ScriptedNode) -> None:
    async with node.cluster(QUICK) as cluster:
        await find_offsets(cluster, {NAME: Edge.LATEST})
        await find_bounds(cluster, [NAME], IsolationLevel.READ_COMMITTED)
        async with AssignedConsumer(cluster, COMMITTED) as consumer:
            await consumer.assign({NAME: Edge.LATEST})
    asked = [
        (request.isolation_level, request.topics[0].partitions[0].timestamp)
        for request in node.asked(ApiKey.LIST_OFFSETS)
    ]
    assert asked == [(0, -1), (0, -2), (1, -1), (1, -1)]
