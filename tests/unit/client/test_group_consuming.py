from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.pool import MAIN_LANE
from headrace.client.errors import ClientError
from headrace.client.groups.consumer_protocol import encode_assignment
from headrace.client.groups.group_consumer import GroupConsumer, GroupConsumerSettings
from headrace.client.reading.offsets import Edge, IsolationLevel
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.heartbeat import HeartbeatResponse
from headrace.wire.messages.join_group import JoinGroupResponse
from headrace.wire.messages.sync_group import SyncGroupResponse
from tests.unit.client.scripted_node import SILENCE, TOPIC, ScriptedNode, commit_refused, offsets_fetched, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.batches.records import Record
    from headrace.wire.messages.fetch import FetchRequest
    from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)
ZERO, ONE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
PATIENCE_S = 120.0  # against hangs only
LIVELY = GroupConsumerSettings(heartbeat_interval_ms=1)
COOPERATIVE = GroupConsumerSettings(heartbeat_interval_ms=1, assignors=("cooperative-sticky",))


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode(partitions=2).start()
    yield running
    await running.stop()


@pytest.fixture
async def cluster(node: ScriptedNode) -> AsyncIterator[Cluster]:
    async with node.cluster(QUICK) as reached:
        yield reached


def batch(first: int, count: int = 1) -> bytes:
    return bytes(encode_batch([(0, None, b"v", ())] * count, base_offset=first))


def offsets(taken: dict[TopicPartition, list[Record]]) -> dict[int, list[int]]:
    return {name.partition: [record.offset for record in found] for name, found in taken.items()}


def fetch_offsets(request: FetchRequest) -> dict[int, int]:
    return {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}


def assigned(*names: TopicPartition) -> SyncGroupResponse:
    return SyncGroupResponse(assignment=encode_assignment(names))


def rebalance(node: ScriptedNode) -> None:
    node.script[ApiKey.HEARTBEAT] = [HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)]


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.001)


async def poll_until(consumer: GroupConsumer, is_so: Callable[[], object]) -> None:
    """Poll while there is nothing to read."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            assert await consumer.poll(wait_s=0.001) == {}


class Witness:
    """Writes down what a consumer is told."""

    def __init__(self, consumer: GroupConsumer) -> None:
        self.seen: list[tuple[str, list[int]]] = []
        consumer.on_assigned = self._assigned
        consumer.on_revoked = self._revoked

    async def _assigned(self, names: list[TopicPartition]) -> None:
        self.seen.append(("assigned", [name.partition for name in names]))

    async def _revoked(self, names: list[TopicPartition]) -> None:
        self.seen.append(("revoked", [name.partition for name in names]))


# Reading.


async def test_it_reads_on_from_what_the_group_has_committed(node: ScriptedNode, cluster: Cluster) -> None:
    node.committed = {0: 5}
    node.script[ApiKey.FETCH] = [records(batch(5, 2))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        witness = Witness(consumer)
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [5, 6]}
        assert consumer.is_joined
        assert consumer.assignment == {ZERO: 7, ONE: 0}
        assert consumer.position(ZERO) == 7
        assert consumer.group_metadata == ("g", 1, "m-1", None)
    assert witness.seen == [("assigned", [0, 1]), ("revoked", [0, 1])]
    assert fetch_offsets(node.asked(ApiKey.FETCH)[0]) == {0: 5, 1: 0}
    assert [len(request.members) for request in node.asked(ApiKey.LEAVE_GROUP)] == [1]


@pytest.mark.parametrize(("start", "timestamp"), [(Edge.EARLIEST, -2), (Edge.LATEST, -1)])
async def test_without_a_commit_it_starts_where_it_is_told(
    node: ScriptedNode, cluster: Cluster, start: Edge, timestamp: int
) -> None:
    async with GroupConsumer(cluster, "g", [TOPIC], GroupConsumerSettings(start=start)) as consumer:
        await poll_until(consumer, lambda: node.asked(ApiKey.FETCH))
    asked = {part.timestamp for request in node.asked(ApiKey.LIST_OFFSETS) for part in request.topics[0].partitions}
    assert asked == {timestamp}


async def test_poll_returns_in_time_while_the_group_takes_its_own(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.JOIN_GROUP] = [SILENCE]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        for _ in range(3):
            assert await consumer.poll(wait_s=0.01) == {}
        assert len(node.asked(ApiKey.JOIN_GROUP)) == 1
        assert not consumer.is_joined
        assert consumer.assignment == {}


async def test_a_member_without_partitions_waits_for_some(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.SYNC_GROUP] = [assigned(), assigned(ONE)]
    node.script[ApiKey.FETCH] = [records(batch(0), partition=1)]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        await poll_until(consumer, lambda: consumer.is_joined)
        assert consumer.assignment == {}
        rebalance(node)
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {1: [0]}


async def test_offsets_in_an_open_transaction_are_waited_for(node: ScriptedNode, cluster: Cluster) -> None:
    node.committed = {0: 3, 1: 0}

    def unstable(request: OffsetFetchRequest) -> OffsetFetchResponse:
        return offsets_fetched(node, request, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    node.script[ApiKey.OFFSET_FETCH] = [unstable] * 3
    node.script[ApiKey.FETCH] = [records(batch(3))]
    settings = GroupConsumerSettings(isolation=IsolationLevel.READ_COMMITTED)
    async with GroupConsumer(cluster, "g", [TOPIC], settings) as consumer:
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [3]}
    assert [request.require_stable for request in node.asked(ApiKey.OFFSET_FETCH)] == [True] * 4
    assert {request.isolation_level for request in node.asked(ApiKey.FETCH)} == {1}


async def test_the_group_does_not_wait_for_a_member_that_waits_for_an_open_transaction(
    node: ScriptedNode, cluster: Cluster
) -> None:
    def unstable(request: OffsetFetchRequest) -> OffsetFetchResponse:
        return offsets_fetched(node, request, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    node.script[ApiKey.SYNC_GROUP] = [assigned(ZERO), assigned(ONE)]
    node.script[ApiKey.OFFSET_FETCH] = [unstable] * 100_000
    settings = GroupConsumerSettings(heartbeat_interval_ms=1, isolation=IsolationLevel.READ_COMMITTED)
    async with GroupConsumer(cluster, "g", [TOPIC], settings) as consumer:
        await poll_until(consumer, lambda: node.asked(ApiKey.OFFSET_FETCH))
        rebalance(node)
        await poll_until(consumer, lambda: len(node.asked(ApiKey.SYNC_GROUP)) == 2)
        node.script[ApiKey.OFFSET_FETCH] = []
        await poll_until(consumer, lambda: consumer.is_joined)
        assert list(consumer.assignment) == [ONE]


async def test_what_cannot_be_mended_is_raised_by_poll_and_can_be_tried_again(
    node: ScriptedNode, cluster: Cluster
) -> None:
    node.script[ApiKey.JOIN_GROUP] = [JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    node.script[ApiKey.FETCH] = [records(batch(0))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        with pytest.raises(Refusal, match="group authorization failed"):
            await consumer.poll(10, PATIENCE_S)
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [0]}


async def test_one_that_was_cast_out_stays_out(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.HEARTBEAT] = [HeartbeatResponse(0, ErrorCode.FENCED_INSTANCE_ID)]
    settings = GroupConsumerSettings(heartbeat_interval_ms=1, instance_id="i")
    async with GroupConsumer(cluster, "g", [TOPIC], settings) as consumer:
        for _ in range(2):
            with pytest.raises(Refusal, match="fenced instance id"):
                await consumer.poll(10, PATIENCE_S)
    assert len(node.asked(ApiKey.JOIN_GROUP)) == 1


async def test_a_closed_consumer_says_so(cluster: Cluster) -> None:
    consumer = GroupConsumer(cluster, "g", [TOPIC])
    await consumer.close()
    await consumer.close()
    with pytest.raises(ClientError, match="closed"):
        await consumer.poll()


async def test_whoever_has_no_time_for_a_farewell_reads_no_more_all_the_same(
    node: ScriptedNode, cluster: Cluster
) -> None:
    node.script[ApiKey.LEAVE_GROUP] = [SILENCE]
    consumer = GroupConsumer(cluster, "g", [TOPIC], LIVELY)
    await poll_until(consumer, lambda: node.asked(ApiKey.FETCH))
    closing = asyncio.create_task(consumer.close())
    await until(lambda: node.asked(ApiKey.LEAVE_GROUP))
    closing.cancel()
    await asyncio.wait([closing])
    assert cluster._pool.living_lanes() == [MAIN_LANE]
    assert not len(consumer._reader._scope)


# Rebalances.


async def test_nothing_of_a_revoked_partition_is_returned(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.SYNC_GROUP] = [assigned(ZERO, ONE), assigned(ONE)]
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        witness = Witness(consumer)
        assert offsets(await consumer.poll(3, PATIENCE_S)) == {0: [0, 1, 2]}
        rebalance(node)
        await until(lambda: not consumer.is_joined)
        node.links[-1].abort()  # the long poll that is open asks for the wrong partitions
        node.script[ApiKey.FETCH] = [records(batch(0), partition=1)]
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {1: [0]}
        assert list(consumer.assignment) == [ONE]
        with pytest.raises(Refusal, match="events-0: not, or not any more") as refusal:
            consumer.position(ZERO)
        assert refusal.value.code == ErrorCode.ILLEGAL_GENERATION
    assert witness.seen[:3] == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [1])]


async def test_what_poll_returned_can_be_committed_until_the_next_poll(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        await consumer.poll(3, PATIENCE_S)
        rebalance(node)
        await until(lambda: not consumer.is_joined)
        await consumer.commit()
        assert node.committed[0] == 3


async def test_partitions_are_committed_as_they_are_taken_away(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.SYNC_GROUP] = [assigned(ZERO), assigned(ONE)]
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:

        async def finish(names: list[TopicPartition]) -> None:
            await consumer.commit({name: consumer.position(name) for name in names})

        consumer.on_revoked = finish
        await consumer.poll(4, PATIENCE_S)
        rebalance(node)
        await until(lambda: not consumer.is_joined)
        await poll_until(consumer, lambda: ONE in consumer.assignment)
        assert node.committed == {0: 4}


async def test_a_callback_that_fails_is_heard_and_holds_nothing_back(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.SYNC_GROUP] = [assigned(ZERO), assigned(ONE)]
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:

        async def fail(_: list[TopicPartition]) -> None:
            consumer.on_revoked = None
            raise ZeroDivisionError

        consumer.on_revoked = fail
        await consumer.poll(1, PATIENCE_S)
        rebalance(node)
        await until(lambda: not consumer.is_joined)
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(1, PATIENCE_S)
        assert consumer.assignment == {}
        await poll_until(consumer, lambda: consumer.is_joined)
        assert consumer.group_metadata.generation_id == 2


async def test_a_member_that_was_expelled_gives_up_all_and_starts_anew(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC], COOPERATIVE) as consumer:
        witness = Witness(consumer)
        await consumer.poll(3, PATIENCE_S)
        node.committed = {0: 8}  # by whoever had it meanwhile
        node.script[ApiKey.HEARTBEAT] = [HeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID)]
        await until(lambda: not consumer.is_joined)
        await poll_until(consumer, lambda: consumer.is_joined)
        assert consumer.assignment[ZERO] == 8
    assert witness.seen[:3] == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1])]
    assert [request.member_id for request in node.asked(ApiKey.JOIN_GROUP)] == ["", ""]


async def test_a_member_that_is_expelled_as_it_begins_to_join_gives_up_all(
    node: ScriptedNode, cluster: Cluster
) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    settings = GroupConsumerSettings(assignors=("cooperative-sticky",))
    async with GroupConsumer(cluster, "g", [TOPIC], settings) as consumer:
        witness = Witness(consumer)
        await consumer.poll(3, PATIENCE_S)
        node.committed = {0: 8}  # by whoever had it meanwhile
        who, member, before = consumer.group_metadata, consumer._membership, consumer._step
        member.refused(who, ErrorCode.REBALANCE_IN_PROGRESS)
        polling = asyncio.create_task(consumer.poll(3, 0.001))
        while consumer._step is before:
            await asyncio.sleep(0)
        member.refused(who, ErrorCode.UNKNOWN_MEMBER_ID)  # as a commit, in the moment before the join is sent
        await polling
        while not consumer.is_joined:
            await consumer.poll(3, 0.001)
        assert consumer.assignment[ZERO] == 8
    assert witness.seen[:3] == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1])]


async def test_a_cooperative_member_keeps_what_does_not_move(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.SYNC_GROUP] = [assigned(ZERO, ONE), assigned(ZERO), assigned(ZERO)]
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC], COOPERATIVE) as consumer:
        witness = Witness(consumer)
        assert offsets(await consumer.poll(3, PATIENCE_S)) == {0: [0, 1, 2]}
        rebalance(node)
        await until(lambda: not consumer.is_joined)
        read: list[int] = []
        while len(node.asked(ApiKey.SYNC_GROUP)) < 3 or not consumer.is_joined:
            read += offsets(await consumer.poll(1, 0.01)).get(0, [])
        read += offsets(await consumer.poll(10, 0.01)).get(0, [])
        assert read == [3, 4, 5, 6, 7, 8, 9]
        assert list(consumer.assignment) == [ZERO]
        assert witness.seen == [("assigned", [0, 1]), ("revoked", [1])]
    assert len(node.asked(ApiKey.OFFSET_FETCH)) == 1


# Committing.


async def test_commit_takes_what_poll_returned_and_nothing_twice(node: ScriptedNode, cluster: Cluster) -> None:
    node.committed = {1: 0}
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        await consumer.poll(4, PATIENCE_S)
        await consumer.commit()
        await consumer.commit()
        await consumer.commit({ZERO: 2})
        await consumer.commit({})
    first, second = node.asked(ApiKey.OFFSET_COMMIT)
    assert (first.generation_id_or_member_epoch, first.member_id) == (1, "m-1")
    assert [
        [(part.partition_index, part.committed_offset) for part in request.topics[0].partitions]
        for request in (first, second)
    ] == [[(0, 4)], [(0, 2)]]


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS]
)
async def test_a_commit_after_the_generation_is_over_is_refused_and_leads_to_a_join(
    node: ScriptedNode, cluster: Cluster, code: ErrorCode
) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    async with GroupConsumer(cluster, "g", [TOPIC]) as consumer:
        await consumer.poll(4, PATIENCE_S)
        node.script[ApiKey.OFFSET_COMMIT] = [commit_refused(code)]
        with pytest.raises(Refusal) as refusal:
            await consumer.commit()
        assert refusal.value.code == code
        assert not consumer.is_joined
        await poll_until(consumer, lambda: len(node.asked(ApiKey.JOIN_GROUP)) == 2)


async def test_partitions_of_others_cannot_be_committed(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.SYNC_GROUP] = [assigned(ZERO)]
    async with GroupConsumer(cluster, "g", [TOPIC]) as consumer:
        await poll_until(consumer, lambda: consumer.is_joined)
        with pytest.raises(Refusal, match="events-1"):
            await consumer.commit({ONE: 3})
    assert node.asked(ApiKey.OFFSET_COMMIT) == []


async def test_auto_commit_covers_earlier_polls_only(node: ScriptedNode, cluster: Cluster) -> None:
    node.committed = {1: 0}
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    settings = GroupConsumerSettings(auto_commit=True, auto_commit_interval_s=0.0)
    async with GroupConsumer(cluster, "g", [TOPIC], settings) as consumer:
        await consumer.poll(4, PATIENCE_S)
        assert 0 not in node.committed
        await consumer.poll(4, PATIENCE_S)
        assert node.committed[0] == 4
    assert node.committed[0] == 8  # on the way out


async def test_auto_commit_does_not_mind_a_rebalance(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 10))]
    node.script[ApiKey.OFFSET_COMMIT] = [commit_refused(ErrorCode.ILLEGAL_GENERATION)]
    settings = GroupConsumerSettings(auto_commit=True, auto_commit_interval_s=0.0)
    async with GroupConsumer(cluster, "g", [TOPIC], settings) as consumer:
        await consumer.poll(4, PATIENCE_S)
        await poll_until(consumer, lambda: len(node.asked(ApiKey.JOIN_GROUP)) == 2)
    assert len(node.asked(ApiKey.OFFSET_COMMIT)) >= 1, "nothing was refused"


async def test_rewinding_reads_again_from_the_commit(node: ScriptedNode, cluster: Cluster) -> None:
    node.committed = {0: 2, 1: 0}
    node.script[ApiKey.FETCH] = [records(batch(2, 3))]
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        witness = Witness(consumer)
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [2, 3, 4]}
        await until(lambda: len(node.asked(ApiKey.FETCH)) == 2)
        consumer.rewind()
        assert consumer.assignment == {}
        node.links[-1].abort()  # the long poll that is open asks from elsewhere
        node.script[ApiKey.FETCH] = [records(batch(2, 3))]
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [2, 3, 4]}
        assert witness.seen == [("assigned", [0, 1])]
