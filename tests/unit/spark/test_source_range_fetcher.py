"""How a range is fetched, against a node that does what a test tells it to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.api import ApiKey
from headrace.wire.batches.records import encode_batch
from headrace_spark.kafka_options import KafkaOptions
from headrace_spark.source.data_loss import LossPolicy
from headrace_spark.source.range_reader import RangeFetcher
from headrace_spark.source.ranges import OffsetRange
from tests.unit.client.scripted_node import HANG_UP, TOPIC, ScriptedNode, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from headrace.wire.messages.fetch import FetchResponse

    FetcherMaker = Callable[[int, int], RangeFetcher]

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


@pytest.fixture
async def fetchers(node: ScriptedNode) -> AsyncIterator[FetcherMaker]:
    async with node.cluster(QUICK) as cluster:
        await cluster.topic(TOPIC)
        made: list[RangeFetcher] = []

        def fetcher(start: int, end: int) -> RangeFetcher:
            kafka = KafkaOptions("", QUICK)
            made.append(RangeFetcher(cluster, kafka, OffsetRange(TOPIC, 0, start, end), LossPolicy(is_fatal=True)))
            return made[-1]

        yield fetcher
        for each in made:
            await each.close()


def batch(first: int, count: int) -> bytes:
    return bytes(encode_batch([(0, None, b"v", ())] * count, base_offset=first))


def throttled() -> FetchResponse:
    answer = records()
    answer.throttle_time_ms = 1
    return answer


async def places(fetcher: RangeFetcher) -> list[tuple[int, int]]:
    """From where to where each answer goes."""
    found = []
    while (answer := await fetcher.next_fetched()) is not None:
        found.append((answer.first_offset, answer.next_offset))
    return found


def offsets_asked(node: ScriptedNode) -> list[int]:
    return [request.topics[0].partitions[0].fetch_offset for request in node.asked(ApiKey.FETCH)]


async def test_each_answer_begins_where_the_last_one_ended(node: ScriptedNode, fetchers: FetcherMaker) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 3), batch(3, 2)), records(batch(5, 10), batch(15, 10)[:70])]
    assert await places(fetchers(2, 15)) == [(2, 5), (5, 15)]
    assert offsets_asked(node) == [2, 5]


async def test_leaders_that_move_and_connections_that_break_are_ridden_out(
    node: ScriptedNode, fetchers: FetcherMaker
) -> None:
    node.script[ApiKey.FETCH] = [
        records(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        HANG_UP,
        records(batch(0, 4)),
        records(code=ErrorCode.FENCED_LEADER_EPOCH),
        records(batch(4, 1)),
    ]
    assert await places(fetchers(0, 5)) == [(0, 4), (4, 5)]


async def test_two_answers_are_fetched_ahead_and_no_more(node: ScriptedNode, fetchers: FetcherMaker) -> None:
    node.script[ApiKey.FETCH] = [records(batch(offset, 1)) for offset in range(50)]
    fetcher = fetchers(0, 50)
    while len(node.asked(ApiKey.FETCH)) < 2:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert len(node.asked(ApiKey.FETCH)) == 2
    assert len(await places(fetcher)) == 50


async def test_a_range_whose_end_was_compacted_away_ends(node: ScriptedNode, fetchers: FetcherMaker) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 4)), *(records() for _ in range(3))]
    assert await places(fetchers(0, 10)) == [(0, 4)]


async def test_a_throttled_node_is_not_taken_for_an_empty_one(node: ScriptedNode, fetchers: FetcherMaker) -> None:
    node.script[ApiKey.FETCH] = [*(throttled() for _ in range(5)), records(batch(0, 4))]
    assert await places(fetchers(0, 4)) == [(0, 4)]


async def test_a_gap_that_reaches_beyond_the_range_ends_it(node: ScriptedNode, fetchers: FetcherMaker) -> None:
    node.script[ApiKey.FETCH] = [records(batch(20, 4))]
    assert await places(fetchers(0, 10)) == [(0, 24)]


async def test_what_is_refused_is_raised_after_what_was_read(node: ScriptedNode, fetchers: FetcherMaker) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 4)), records(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    fetcher = fetchers(0, 10)
    answer = await fetcher.next_fetched()
    assert answer is not None
    assert answer.next_offset == 4
    with pytest.raises(Refusal, match="events-0 cannot be read: topic authorization failed"):
        await fetcher.next_fetched()
