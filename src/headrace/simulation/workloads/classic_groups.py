"""Classic groups of the production client's members, who come and go, and commit what they were handed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.groups.assignors import COOPERATIVE_STICKY, RANGE, ROUND_ROBIN
from headrace.client.groups.group_consumer import GroupConsumer, GroupConsumerSettings
from headrace.client.groups.group_offsets import CommittedOffset, commit_offsets, fetch_offsets
from headrace.client.reading.consumer import ConsumerSettings
from headrace.client.reading.offsets import IsolationLevel
from headrace.model.names import Offset
from headrace.simulation.workloads.client_processes import ClientProcess
from headrace.simulation.workloads.group_processes import ProcessGroup
from headrace.simulation.workloads.produce_and_consume import TROUBLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from headrace.client.connections.cluster import Cluster
    from headrace.client.groups.group_offsets import GroupMetadata
    from headrace.model.names import TopicPartition
    from headrace.simulation.history.groups import Commit
    from headrace.simulation.history.history import Reading
    from headrace.simulation.workloads.context import WorkloadContext
    from headrace.wire.batches.records import Record

SESSIONS_MS: Final = (2_000, 4_000, 6_000)
REBALANCES_MS: Final = (4_000, 10_000)
HEARTBEATS_MS: Final = (200, 700)
ASSIGNORS: Final = ((RANGE,), (ROUND_ROBIN,), (RANGE, ROUND_ROBIN), (COOPERATIVE_STICKY,))
LATE_OFFSET: Final = 123_456_789  # of a commit that must be refused; no log here is as long
AUDIT_S: Final = 2.0  # at most, between two looks at all offsets


class ClassicGroup(ProcessGroup):
    def __init__(self, context: WorkloadContext, group_id: str) -> None:
        super().__init__(context, group_id)
        chance = self.chance
        self._assignors = chance.choice(ASSIGNORS)
        self._is_static = chance.random() < 0.3
        self._isolation = chance.choice((IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED))
        self.members = [_Member(self, f"{group_id}-{number}") for number in range(chance.randint(1, 4))]

    def draw_settings(self, name: str, chance: Random) -> GroupConsumerSettings:
        return GroupConsumerSettings(
            instance_id=name if self._is_static else None,
            session_timeout_ms=self.context.session_ms(chance.choice(SESSIONS_MS)),
            rebalance_timeout_ms=chance.choice(REBALANCES_MS),
            heartbeat_interval_ms=self.context.session_ms(chance.choice(HEARTBEATS_MS)),
            assignors=self._assignors,
            isolation=self._isolation,
            reading=ConsumerSettings(fetch_wait_ms=int(1000 * self.context.poll_s(chance.choice((0.05, 0.5))))),
        )

    def consumer(self, cluster: Cluster, settings: GroupConsumerSettings) -> GroupConsumer:
        return GroupConsumer(cluster, self.group_id, [topic.name for topic in self.topics], settings)

    def check_read(self, offsets: Mapping[TopicPartition, int], readings: Mapping[TopicPartition, Reading]) -> None:
        """Of partitions of which nothing is ever deleted."""
        for topic in self.topics:
            if not (topic.is_trimmed or topic.is_expiring):
                whole = {name: offsets[name] for name in topic.partitions if name in offsets}
                is_committed_only = self._isolation is IsolationLevel.READ_COMMITTED
                self.context.groups.check_read(self.group_id, whole, readings, is_committed_only=is_committed_only)


class _Member:
    def __init__(self, group: ClassicGroup, name: str) -> None:
        self.process = ClientProcess(group.context, name, self._run)
        self.process.on_death = self._forget
        self.owned: list[TopicPartition] = []
        self._group = group
        self._context = group.context
        self._reader = name
        self._earlier: list[GroupMetadata] = []
        """Who it was in generations that it has been through."""
        self._chance = group.context.random(name)

    def _forget(self) -> None:
        self.owned = []

    async def _run(self, process: ClientProcess) -> None:
        while not process.must_leave():
            async with self._context.client(process.name) as cluster:
                settings = self._group.draw_settings(process.name, self._chance)
                consumer = self._group.consumer(cluster, settings)
                try:
                    await self._read(process, cluster, consumer)
                except TROUBLE:
                    await asyncio.sleep(0.2)
                finally:
                    self.owned = []
                    with suppress(*TROUBLE):
                        await consumer.close()

    async def _read(self, process: ClientProcess, cluster: Cluster, consumer: GroupConsumer) -> None:
        self._reader = f"{process.name}.{process.launches}.{self._context.groups.moment()}"

        async def assigned(names: list[TopicPartition]) -> None:
            for name in names:
                self._context.history.assigned(self._reader, name, consumer.position(name))

        async def revoked(names: list[TopicPartition]) -> None:
            self.owned = []
            if names and self._chance.random() < 0.5:
                with suppress(*TROUBLE):
                    await self._commit(consumer)

        consumer.on_assigned, consumer.on_revoked = assigned, revoked
        while not process.must_leave():
            polled = await consumer.poll(self._chance.choice((1, 20, 500)), wait_s=self._context.poll_s(0.3))
            self._note(consumer, polled)
            if polled and self._chance.random() < 0.5:
                await self._commit(consumer)
            if self._earlier and self._chance.random() < 0.03:
                await self._commit_late(cluster)

    def _note(self, consumer: GroupConsumer, polled: Mapping[TopicPartition, list[Record]]) -> None:
        group_id, context = self._group.group_id, self._context
        is_committed_only = consumer.settings.isolation is IsolationLevel.READ_COMMITTED
        for partition, records in polled.items():
            for record in records:
                value = record.value or b""
                context.groups.read(group_id, partition, record.offset)
                context.history.polled(
                    self._reader, partition, record.offset, value, is_committed_only=is_committed_only
                )
                if is_committed_only:
                    context.transactions.read_committed(self._reader, partition, record.offset, value)
        self.owned = []
        if consumer.is_joined:
            who = consumer.group_metadata
            self.owned = list(consumer.assignment)
            if not self._earlier or self._earlier[-1] != who:
                self._earlier.append(who)
            context.groups.given(group_id, who.generation_id, who.instance_id or who.member_id, self.owned)

    async def _commit(self, consumer: GroupConsumer) -> None:
        """Every attempt that does not succeed may yet have been done: the client may have tried more than once."""
        offsets = consumer.assignment
        if not offsets:
            return
        commit = self._begin_commit(consumer.group_metadata, offsets)
        await consumer.commit(offsets)
        self._context.groups.accepted(commit, self.process.name)
        self._context.groups.committed(commit)

    async def _commit_late(self, cluster: Cluster) -> None:
        """Commit as somebody of an earlier generation, as if the request had been long on its way."""
        who = self._chance.choice(self._earlier)
        partition = self._chance.choice(self._group.topics).partitions[0]
        if not self._context.groups.is_stale(who.group_id, who.member_id, who.generation_id):
            return
        commit = self._begin_commit(who, {partition: LATE_OFFSET})
        coordinator = Coordinator(cluster, CoordinatorKind.GROUP, who.group_id)
        with suppress(*TROUBLE):
            await commit_offsets(coordinator, who, {partition: CommittedOffset(Offset(LATE_OFFSET))})
            self._context.groups.accepted(commit, self.process.name)

    def _begin_commit(self, who: GroupMetadata, offsets: Mapping[TopicPartition, int]) -> Commit:
        groups = self._context.groups
        is_stale = groups.is_stale(who.group_id, who.member_id, who.generation_id)
        return groups.begin_commit(who.group_id, offsets, is_stale=is_stale)


async def audit_offsets(context: WorkloadContext, name: str, group_ids: list[str]) -> None:
    """Look at what groups have committed, all the time."""
    chance = context.random(name)
    while not context.is_over():
        async with context.client(name) as cluster:
            for group_id in group_ids:
                with suppress(*TROUBLE):
                    await check_offsets(context, cluster, group_id)
        await context.rest_between(chance.uniform(0.1, AUDIT_S))


async def check_offsets(context: WorkloadContext, cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    """Without those that a transaction is about to change: a commit is answered before its markers are written."""
    asked = context.groups.moment()
    coordinator = Coordinator(cluster, CoordinatorKind.GROUP, group_id)
    committed = await fetch_offsets(coordinator, group_id, require_stable=True)
    found: dict[TopicPartition, int] = {partition: place.offset for partition, place in committed.items()}
    context.groups.found(group_id, found, asked)
    return found
