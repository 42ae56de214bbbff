"""Keeps the in-sync sets of what this node leads true: who falls behind leaves, who has caught up comes back."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.errors import ClientError
from headrace.metadata.commands.partition_commands import InSyncMember, IsrChange, change_in_sync
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.runtime.tasks import Pace
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.membership.controller_channel import ControllerChannel
    from headrace.broker.metadata.quorum import Quorum
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.heard_followers import HeardFollowers
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock

log = logging.getLogger(__name__)

REVIEW_S: Final = 0.2  # how long a follower that has caught up waits to be in sync again
ROUND_EVERY: Final = 5  # reviews: where everybody is in sync, only somebody who is slow can change that
REVIEWED_AT_ONCE: Final = 500  # partitions, in a turn: 3 ms where somebody has just come back to all of them
ASKED_FOR_AT_ONCE: Final = 100  # partitions: what the controller decides, and each node applies, in 3 ms
NAMES_TOLD_MAX: Final = 3  # on a line of the log
REFUSALS: Final = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST}
"""What the controller says if it has heard us, and has not agreed."""


class _Wish(NamedTuple):
    partition: Partition
    change: IsrChange


class InSyncReview:
    def __init__(
        self,
        topics: TopicTable,
        quorum: Quorum,
        channel: ControllerChannel,
        heard: HeardFollowers,
        clock: Clock,
        settings: Callable[[], NodeSettings],
    ) -> None:
        self._topics = topics
        self._quorum = quorum
        self._channel = channel
        self._heard = heard
        self._clock = clock
        self._settings = settings
        self._unsettled: list[Partition] = []
        """Led here, with in-sync sets that may soon be others, as of the last round through all partitions."""

    async def run(self) -> None:
        while True:
            for number in range(ROUND_EVERY):
                await asyncio.sleep(REVIEW_S)
                await self._review(self._topics.partitions() if number == 0 else self._unsettled)

    async def _review(self, partitions: Sequence[Partition]) -> None:
        """In slices, and in requests that are no more than a moment's work for the controller: when a node comes back,
        thousands of partitions want it in their sets."""
        lag_max_ms = self._settings().replica_lag_time_max_ms
        pace, unsettled, wishes = Pace(REVIEWED_AT_ONCE), [], []
        for partition in partitions:
            await pace.step()
            replica = partition.replica
            if not replica.is_leader or len(replica.replicas) == 1:
                continue
            if replica.is_unsettled(self._quorum.image.is_here):
                unsettled.append(partition)
            wanted = self._wanted(partition, lag_max_ms)
            if wanted is not None:
                wishes.append(self._propose(partition, wanted))
            if len(wishes) == ASKED_FOR_AT_ONCE:
                await self._ask_for(wishes)
                wishes = []
        if wishes:
            await self._ask_for(wishes)
        self._unsettled = unsettled

    def _wanted(self, partition: Partition, lag_max_ms: int) -> tuple[NodeId, ...] | None:
        now_ms = int(self._clock.monotonic_s() * 1000)
        log_start = Offset(partition.log.start_offset)
        return partition.replica.wanted_in_sync(
            now_ms, lag_max_ms, self._heard.at_ms, self._quorum.image.is_here, log_start
        )

    def _propose(self, partition: Partition, wanted: tuple[NodeId, ...]) -> _Wish:
        wish = _Wish(partition, self._change(partition, wanted))
        partition.propose_in_sync(wanted)
        log.debug("%s: in sync are %s, and shall be %s", partition.name, partition.replica.in_sync, wanted)
        return wish

    async def _ask_for(self, wishes: Sequence[_Wish]) -> None:
        names = ", ".join(str(wish.partition.name) for wish in wishes[:NAMES_TOLD_MAX])
        log.info("other replicas shall be in sync with %d partitions: %s%s", len(wishes), names, _and_more(wishes))
        changes = [wish.change for wish in wishes]
        try:
            codes = await self._decide(changes)
        except Refusal as refusal:
            codes = [refusal.code] * len(changes)
        except ClientError as trouble:
            log.debug("the controller was not reached: %s", trouble)
            codes = [ErrorCode.NOT_CONTROLLER] * len(changes)
        for (partition, _), code in zip(wishes, codes, strict=True):
            # Where it is not known whether the controller has agreed, whoever was to enter still counts; the same
            # wish is made again, and either it was heard the first time or it is now.
            if code is not ErrorCode.NONE:
                partition.proposal_ended(is_refused=code in REFUSALS)

    def _change(self, partition: Partition, wanted: tuple[NodeId, ...]) -> IsrChange:
        me, replica = self._channel, partition.replica
        return IsrChange(
            partition.log_id,
            replica.leader_epoch,
            partition.partition_epoch,
            tuple(
                InSyncMember(it, me.broker_epoch if it == me.node_id else replica.broker_epoch_of(it)) for it in wanted
            ),
        )

    async def _decide(self, changes: Sequence[IsrChange]) -> list[ErrorCode]:
        node_id, broker_epoch = self._channel.node_id, self._channel.broker_epoch
        if self._channel.is_controller:
            outcomes = await self._quorum.submit(lambda image: change_in_sync(image, node_id, broker_epoch, changes))
            return [it.result.code if isinstance(it.result, Refusal) else ErrorCode.NONE for it in outcomes]
        answer = await self._channel.ask(
            AlterPartitionRequest(node_id, broker_epoch, [_topic(change) for change in changes]),
            AlterPartitionResponse,
        )
        if answer.error_code:
            return [ErrorCode(answer.error_code)] * len(changes)
        return [ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions]


def _and_more(wishes: Sequence[_Wish]) -> str:
    return ", …" if len(wishes) > NAMES_TOLD_MAX else ""


def _topic(change: IsrChange) -> TopicData:
    members = [BrokerState(member.node_id, member.broker_epoch) for member in change.isr]
    return TopicData(
        change.log_id.topic_id,
        [
            PartitionData(
                change.log_id.partition,
                change.leader_epoch,
                new_isr_with_epochs=members,
                partition_epoch=change.partition_epoch,
            )
        ],
    )
