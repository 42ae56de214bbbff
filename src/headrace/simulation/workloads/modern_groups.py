"""KIP-848 groups of members that speak the protocol themselves. They read nothing; they own, give up and commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.simulation.workloads.client_processes import ClientProcess
from headrace.simulation.workloads.group_processes import ProcessGroup
from headrace.simulation.workloads.produce_and_consume import TROUBLE
from headrace.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicId
    from headrace.simulation.history.groups import Tenure
    from headrace.simulation.workloads.context import WorkloadContext

SESSION_MS: Final = 3_000
HEARTBEAT_MS: Final = 300
NODE_CONFIGS: Final = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
REBALANCE_MS: Final = 900_000  # longer than a run: no member is out for being slow, only for being silent
COMMIT_VERSION: Final = 9  # topics by name, and an error for a stale epoch
OFFSET_MAX: Final = 1_000_000
LEAVE_EPOCH: Final = -1

_OUT = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
_PERHAPS_DONE = {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


class ModernGroup(ProcessGroup):
    def __init__(self, context: WorkloadContext, group_id: str) -> None:
        super().__init__(context, group_id)
        self.assignor: str | None = self.chance.choice((None, "uniform", "range"))
        self.members = [_Member(self, f"{group_id}-{number}") for number in range(self.chance.randint(2, 4))]


class _Member:
    def __init__(self, group: ModernGroup, name: str) -> None:
        self.process = ClientProcess(group.context, name, self._run)
        self.process.on_death = self._lose_all
        self._group = group
        self._context = group.context
        self._chance = group.context.random(name)
        self._member_id = ""
        self._epoch = 0
        self._old_epochs: list[int] = []
        self._tenure: Tenure | None = None
        self._topic_ids: dict[str, TopicId] = {}
        self._must_tell_all = True

    @property
    def owned(self) -> set[TopicPartition]:
        return set() if self._tenure is None else self._tenure.partitions

    def _lose_all(self) -> None:
        self._context.groups.end_tenure(self._group.group_id, self._member_id)
        self._tenure = None
        self._epoch = 0

    async def _run(self, process: ClientProcess) -> None:
        self._member_id = f"{process.name}.{process.launches}"
        self._old_epochs = []
        async with self._context.client(process.name) as cluster:
            coordinator = Coordinator(cluster, CoordinatorKind.GROUP, self._group.group_id)
            while not process.must_leave():
                try:
                    await self._learn_topics(cluster)
                    await self._beat(coordinator)
                    if self.owned and self._chance.random() < 0.4:
                        await self._commit(coordinator)
                except TROUBLE as trouble:
                    self._must_tell_all = True  # what the coordinator has heard is not known
                    if isinstance(trouble, Refusal) and trouble.code == ErrorCode.NOT_COORDINATOR:
                        coordinator = Coordinator(cluster, CoordinatorKind.GROUP, self._group.group_id)
                await asyncio.sleep(self._context.session_ms(HEARTBEAT_MS) / 1000 * self._chance.uniform(0.5, 1.5))
            await self._leave(coordinator)

    async def _learn_topics(self, cluster: Cluster) -> None:
        for topic in self._group.topics:
            self._topic_ids[topic.name] = (await cluster.topic(topic.name)).topic_id

    # Heartbeats

    async def _beat(self, coordinator: Coordinator) -> None:
        groups, group_id = self._context.groups, self._group.group_id
        is_joining = self._epoch == 0
        request = ConsumerGroupHeartbeatRequest(group_id, self._member_id, self._epoch)
        if is_joining or self._must_tell_all:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = [topic.name for topic in self._group.topics]
            request.server_assignor = self._group.assignor
        if is_joining or self._must_tell_all or self._chance.random() < 0.5:
            request.topic_partitions = self._by_id(self.owned)
        sent_s = self._context.now_s
        connection = await coordinator.connection()
        answer = await connection.request(request, ConsumerGroupHeartbeatResponse)
        session_ends_s = sent_s + SESSION_MS / 1000
        # Whoever was stopped for so long that its session may be over must not believe an answer from before.
        if answer.error_code in _OUT or self._context.now_s >= session_ends_s:
            self._lose_all()
            return
        if answer.error_code != ErrorCode.NONE:
            raise Refusal(ErrorCode(answer.error_code), answer.error_message or "")
        self._must_tell_all = False
        if self._tenure is None:
            self._tenure = groups.tenure(group_id, self._member_id)
        if answer.member_epoch != self._epoch:
            self._old_epochs.append(self._epoch)
            self._epoch = answer.member_epoch
        groups.heard(group_id, self._tenure, self._epoch, session_ends_s)
        if answer.assignment is not None:
            self._follow(
                {partition for share in answer.assignment.topic_partitions for partition in self._named(share)}
            )

    def _follow(self, assigned: set[TopicPartition]) -> None:
        """What was taken away is given up here and now, and said with the next heartbeat that says what it owns."""
        assert self._tenure is not None
        if not self._tenure.partitions <= assigned:
            self._must_tell_all = True
        self._tenure.partitions &= assigned
        self._context.groups.gain(self._group.group_id, self._tenure, sorted(assigned - self._tenure.partitions))

    def _by_id(self, partitions: set[TopicPartition]) -> list[TopicPartitions]:
        return [
            TopicPartitions(
                self._topic_ids[topic.name], [index for name, index in sorted(partitions) if name == topic.name]
            )
            for topic in self._group.topics
            if any(name == topic.name for name, _ in partitions)
        ]

    def _named(self, share: TopicPartitions) -> list[TopicPartition]:
        name = next(name for name, topic_id in self._topic_ids.items() if topic_id == share.topic_id)
        return [TopicPartition(name, index) for index in share.partitions]

    async def _leave(self, coordinator: Coordinator) -> None:
        member_id, was_joined = self._member_id, self._epoch > 0
        self._lose_all()
        if was_joined:
            request = ConsumerGroupHeartbeatRequest(self._group.group_id, member_id, LEAVE_EPOCH)
            try:
                connection = await coordinator.connection()
                await connection.request(request, ConsumerGroupHeartbeatResponse)
            except TROUBLE:
                return  # its silence will tell

    # Commits

    async def _commit(self, coordinator: Coordinator) -> None:
        """Tried once. Sometimes with an epoch that is over, as if the request had been long on its way."""
        groups, group_id = self._context.groups, self._group.group_id
        epoch = self._epoch
        if self._old_epochs and self._chance.random() < 0.2:
            epoch = self._chance.choice(self._old_epochs)
        offsets = {partition: self._chance.randint(0, OFFSET_MAX) for partition in sorted(self.owned)}
        is_stale = groups.is_stale(group_id, self._member_id, epoch)
        connection = await coordinator.connection()
        commit = groups.begin_commit(group_id, offsets, is_stale=is_stale)
        try:
            answer = await connection.request(
                _commit_request(group_id, epoch, self._member_id, offsets), OffsetCommitResponse, version=COMMIT_VERSION
            )
        except ClientError:
            return
        codes = {ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions}
        if codes == {ErrorCode.NONE}:
            groups.accepted(commit, self._member_id)
            groups.committed(commit)
        elif ErrorCode.NONE not in codes and codes.isdisjoint(_PERHAPS_DONE):
            groups.refused(commit)


def _commit_request(
    group_id: str, epoch: int, member_id: str, offsets: dict[TopicPartition, int]
) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, index), offset in offsets.items():
        wanted = topics.setdefault(topic, OffsetCommitRequestTopic(topic))
        wanted.partitions.append(OffsetCommitRequestPartition(index, offset))
    return OffsetCommitRequest(group_id, epoch, member_id, topics=list(topics.values()))
