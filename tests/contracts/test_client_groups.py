"""Our own client as a member of groups, and as their operator, against a real node."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.groups import GroupAdmin
from headrace.client.connections.cluster import ClusterSettings, system_cluster
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import refuse_unless_ok
from headrace.client.groups.assignors import ASSIGNORS, COOPERATIVE_STICKY
from headrace.client.groups.group_consumer import GroupConsumer, GroupConsumerSettings
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.client.reading.offsets import Edge
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.testing import Broker
from headrace.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.batches.records import Record

TOPIC = "events"
PARTITIONS = 4
PATIENCE_S = 60.0
PROMPT = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
SETTINGS = ClusterSettings(retry_for_s=PATIENCE_S, backoff_first_s=0.01, backoff_max_s=0.1)
LIVELY = GroupConsumerSettings(heartbeat_interval_ms=20)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(configs=PROMPT) as running:
        running.create_topic(TOPIC, partitions=PARTITIONS)
        yield running


@pytest.fixture
async def cluster(broker: Broker) -> AsyncIterator[Cluster]:
    async with system_cluster(broker.bootstrap_servers, SETTINGS) as reached:
        yield reached


@pytest.fixture
def admin(cluster: Cluster) -> GroupAdmin:
    return GroupAdmin(cluster)


def names(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, index) for index in indexes]


async def produce(cluster: Cluster, values: range, topic: str = TOPIC) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0)) as producer:
        for value in values:
            await producer.send(topic, None, b"%d" % value, partition=value % PARTITIONS)


def values(taken: dict[TopicPartition, list[Record]]) -> list[int]:
    return [int(record.value or b"") for found in taken.values() for record in found]


async def read(consumer: GroupConsumer, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += values(await consumer.poll(wait_s=1.0))
    return found


async def together(consumers: list[GroupConsumer], is_so: Callable[[], bool]) -> list[int]:
    """Let all poll until it is so. Returns what they read meanwhile."""
    found: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            for taken in await asyncio.gather(*(consumer.poll(wait_s=0.02) for consumer in consumers)):
                found += values(taken)
    return found


def is_shared_out(consumers: list[GroupConsumer]) -> bool:
    owned = [name for consumer in consumers for name in consumer.assignment]
    return all(consumer.is_joined for consumer in consumers) and sorted(owned) == names(*range(PARTITIONS))


# Members.


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_members_come_and_go_and_every_partition_has_one_reader(cluster: Cluster, assignor: str) -> None:
    settings = GroupConsumerSettings(heartbeat_interval_ms=20, assignors=(assignor,))
    async with AsyncExitStack() as stack:
        members: list[GroupConsumer] = []
        for _ in range(3):
            members.append(await stack.enter_async_context(GroupConsumer(cluster, "g", [TOPIC], settings)))
            await together(members, lambda: is_shared_out(members))
        assert sorted(len(member.assignment) for member in members) == [1, 1, 2]
        await produce(cluster, range(100))
        found: list[int] = []
        found += await together(members, lambda: sum(sum(m.assignment.values()) for m in members) == 100)
        for member in members:
            await member.commit()
        await members.pop().close()
        found += await together(members, lambda: is_shared_out(members))
        assert sorted(found) == list(range(100))


class HeldUp(GroupConsumer):
    """Is told to join again right after it has found its places, and has to wait for the others then."""

    def __init__(self, cluster: Cluster, settings: GroupConsumerSettings) -> None:
        super().__init__(cluster, "group", [TOPIC], settings)
        self.others_are_there = asyncio.Event()
        self.has_found_places = False

    async def _find_places(self) -> None:
        await super()._find_places()
        self._membership.needs_join = not self.has_found_places
        self.has_found_places = True

    async def _join(self) -> None:
        if self.has_found_places:
            await self.others_are_there.wait()
        await super()._join()


async def test_nothing_is_handed_out_of_a_partition_before_the_caller_has_heard_of_it(cluster: Cluster) -> None:
    await produce(cluster, range(8))
    heard: list[TopicPartition] = []

    async def assigned(fresh: list[TopicPartition]) -> None:
        heard.extend(fresh)

    async with HeldUp(cluster, replace(LIVELY, assignors=(COOPERATIVE_STICKY,))) as consumer:
        consumer.on_assigned = assigned
        while not consumer.has_found_places:
            assert await consumer.poll(wait_s=0.1) == {}
        for _ in range(3):  # by then what was fetched has arrived
            assert await consumer.poll(wait_s=0.2) == {}
        assert heard == []
        consumer.others_are_there.set()
        assert sorted(await read(consumer, 8)) == list(range(8))
        assert sorted(heard) == names(0, 1, 2, 3)


async def test_a_group_goes_on_where_it_stopped(cluster: Cluster) -> None:
    await produce(cluster, range(40))
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        first = values(await consumer.poll(10, PATIENCE_S))
        await consumer.commit()
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        rest = await read(consumer, 40 - len(first))
    assert sorted(first + rest) == list(range(40))


async def test_what_was_not_committed_comes_again(cluster: Cluster) -> None:
    await produce(cluster, range(8))
    for _ in range(2):
        async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
            assert sorted(await read(consumer, 8)) == list(range(8))


async def test_auto_commit_commits_on_the_way_out(cluster: Cluster, admin: GroupAdmin) -> None:
    await produce(cluster, range(8))
    async with GroupConsumer(cluster, "g", [TOPIC], GroupConsumerSettings(auto_commit=True)) as consumer:
        await read(consumer, 8)
    assert {name: place.offset for name, place in (await admin.offsets("g")).items()} == dict.fromkeys(
        names(*range(PARTITIONS)), 2
    )


async def test_from_the_end_only_what_is_new_is_read(cluster: Cluster) -> None:
    await produce(cluster, range(8))
    settings = GroupConsumerSettings(start=Edge.LATEST)
    async with GroupConsumer(cluster, "g", [TOPIC], settings) as consumer:
        await together([consumer], lambda: consumer.is_joined)
        await produce(cluster, range(100, 104))
        assert sorted(await read(consumer, 4)) == [100, 101, 102, 103]


async def test_a_member_that_was_replaced_cannot_commit(cluster: Cluster) -> None:
    await produce(cluster, range(8))
    absent_minded = GroupConsumerSettings(heartbeat_interval_ms=20, rebalance_timeout_ms=100)
    async with (
        GroupConsumer(cluster, "g", [TOPIC], absent_minded) as zombie,
        GroupConsumer(cluster, "g", [TOPIC], LIVELY) as successor,
    ):
        await read(zombie, 8)  # and never polls again
        assert sorted(await read(successor, 8)) == list(range(8))
        await successor.commit()
        with pytest.raises(Refusal) as refusal:
            await zombie.commit()
        assert refusal.value.code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


async def test_a_static_member_finds_its_partitions_again_without_a_rebalance(cluster: Cluster) -> None:
    def settings(name: str) -> GroupConsumerSettings:
        return GroupConsumerSettings(heartbeat_interval_ms=20, instance_id=name)

    async with GroupConsumer(cluster, "g", [TOPIC], settings("one")) as stays:
        async with GroupConsumer(cluster, "g", [TOPIC], settings("two")) as goes:
            await together([stays, goes], lambda: is_shared_out([stays, goes]))
            before, generation_id = set(goes.assignment), goes.group_metadata.generation_id
        async with GroupConsumer(cluster, "g", [TOPIC], settings("two")) as returned:
            await together([returned], lambda: returned.is_joined)
            assert set(returned.assignment) == before
            assert returned.group_metadata.generation_id == generation_id


async def test_new_partitions_are_shared_out(broker: Broker, cluster: Cluster) -> None:
    from headrace.client.admin.admin import Admin

    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        await together([consumer], lambda: consumer.is_joined)
        await Admin(cluster).add_partitions(TOPIC, PARTITIONS + 2)
        await cluster.refresh()
        await together([consumer], lambda: len(consumer.assignment) == PARTITIONS + 2)


async def test_a_topic_may_come_after_its_readers(broker: Broker, cluster: Cluster) -> None:
    async with GroupConsumer(cluster, "g", ["later"], LIVELY) as consumer:
        await together([consumer], lambda: consumer.is_joined)
        broker.create_topic("later", partitions=PARTITIONS)
        await together([consumer], lambda: len(consumer.assignment) == PARTITIONS)
        await produce(cluster, range(4), "later")
        assert sorted(await read(consumer, 4)) == [0, 1, 2, 3]


async def test_a_node_that_comes_back_is_gone_on_with(tmp_path_factory: pytest.TempPathFactory) -> None:
    data_dir = tmp_path_factory.mktemp("node")
    first = Broker(data_dir=data_dir, configs=PROMPT, is_durable=True)
    await asyncio.to_thread(first.start)
    first.create_topic(TOPIC, partitions=PARTITIONS)
    port = int(first.bootstrap_servers.rpartition(":")[2])
    async with (
        system_cluster(first.bootstrap_servers, SETTINGS) as cluster,
        GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer,
    ):
        await produce(cluster, range(20))
        assert sorted(await read(consumer, 20)) == list(range(20))
        await consumer.commit()
        await asyncio.to_thread(first.stop)
        async with Broker(data_dir=data_dir, port=port, configs=PROMPT, is_durable=True):
            await produce(cluster, range(20, 40))
            assert sorted(await read(consumer, 20)) == list(range(20, 40))
            await consumer.commit()
            assert sum(consumer.assignment.values()) == 40
            await consumer.close()


# Operators.


async def test_groups_are_listed_and_described(cluster: Cluster, admin: GroupAdmin) -> None:
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        await together([consumer], lambda: consumer.is_joined)
        await admin.commit("other", {names(0)[0]: 0})
        assert await admin.list_groups() == [
            ("g", "Stable", "classic", "consumer"),
            ("other", "Empty", "classic", ""),
        ]
        assert [listing.group_id for listing in await admin.list_groups(states=["Stable"])] == ["g"]
        assert await admin.list_groups(types=["consumer"]) == []
        group = await admin.describe("g")
        assert (group.type, group.state, group.coordinator, group.assignor) == ("classic", "Stable", 1, "range")
        (member,) = group.members
        assert (member.member_id, member.client_id) == (consumer.group_metadata.member_id, "headrace")
        assert member.partitions == names(*range(PARTITIONS))
    assert (await admin.describe("g")).state == "Empty"


async def test_a_group_of_the_newer_protocol_is_described_too(cluster: Cluster, admin: GroupAdmin) -> None:
    def heartbeat(epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            "modern", "m-1", epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC], topic_partitions=[]
        )

    def check(answer: ConsumerGroupHeartbeatResponse) -> None:
        refuse_unless_ok(answer.error_code, "the heartbeat", answer.error_message)

    coordinator = Coordinator(cluster, CoordinatorKind.GROUP, "modern")
    await coordinator.ask(heartbeat(0), ConsumerGroupHeartbeatResponse, check)
    group = await admin.describe("modern")
    assert (group.type, group.assignor) == ("consumer", "uniform")
    assert [(member.member_id, member.partitions) for member in group.members] == [("m-1", names(*range(PARTITIONS)))]
    assert [listing.group_id for listing in await admin.list_groups(types=["consumer"])] == ["modern"]


async def test_a_group_that_is_not_there_is_told(admin: GroupAdmin) -> None:
    for question in (admin.describe("nobody"), admin.delete("nobody"), admin.lag("nobody")):
        with pytest.raises(Refusal) as refusal:
            await question
        assert refusal.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await admin.offsets("nobody") == {}


async def test_offsets_are_set_from_outside_only_while_nobody_reads(cluster: Cluster, admin: GroupAdmin) -> None:
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        await together([consumer], lambda: consumer.is_joined)
        with pytest.raises(Refusal, match="has members; stop them first") as refusal:
            await admin.commit("g", {names(0)[0]: 3})
        assert refusal.value.code == ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(Refusal) as refusal:
            await admin.delete("g")
        assert refusal.value.code == ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(Refusal) as refusal:
            await admin.delete_offsets("g", names(0))
        assert refusal.value.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    await admin.commit("g", {names(0)[0]: 3, names(1)[0]: 4})
    await admin.delete_offsets("g", names(0))
    assert {name: place.offset for name, place in (await admin.offsets("g")).items()} == {names(1)[0]: 4}
    await admin.delete("g")
    assert await admin.list_groups() == []


async def test_lag_is_counted_in_offsets_and_in_time(broker: Broker, cluster: Cluster, admin: GroupAdmin) -> None:
    zero, one, two, _ = names(0, 1, 2, 3)
    written_ms = cluster.clock.wall_ms() - 60_000
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0)) as producer:
        for position in range(10):
            await producer.send(TOPIC, None, b"v", partition=0, timestamp_ms=written_ms + position)
        await producer.send(TOPIC, None, b"v", partition=1)
    broker.create_topic("gone")
    await admin.commit("g", {zero: 4, one: 1, two: 0, TopicPartition("gone", 0): 0})
    broker.delete_topic("gone")
    await cluster.refresh()
    before_ms = cluster.clock.wall_ms()
    lags = {lag.partition: lag for lag in await admin.lag("g")}
    after_ms = cluster.clock.wall_ms()
    assert sorted(lags) == [zero, one, two]
    behind = lags[zero]
    assert (behind.committed, behind.start, behind.end, behind.lag, behind.member) == (4, 0, 10, 6, None)
    assert behind.lag_ms is not None
    assert before_ms - written_ms - 4 <= behind.lag_ms <= after_ms - written_ms - 4
    assert (lags[one].lag, lags[one].lag_ms) == (0, 0)
    assert (lags[two].lag, lags[two].lag_ms) == (0, 0)


async def test_lag_names_the_reader_and_what_is_not_known(cluster: Cluster, admin: GroupAdmin) -> None:
    async with GroupConsumer(cluster, "g", [TOPIC], LIVELY) as consumer:
        await together([consumer], lambda: consumer.is_joined)
        lags = await admin.lag("g")
        assert [(lag.partition, lag.committed, lag.lag, lag.lag_ms) for lag in lags] == [
            (name, None, None, None) for name in names(*range(PARTITIONS))
        ]
        assert {lag.member.member_id if lag.member else None for lag in lags} == {consumer.group_metadata.member_id}
