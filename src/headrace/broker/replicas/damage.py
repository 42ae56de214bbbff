"""What this node does about its damaged replicas: it gives them up, and fetches them again from those who are whole.

First the cluster agrees to count on this copy no longer, then it is thrown away; never the other way round. The last
copy that may be elected is kept as it is: it serves what is whole, refuses what is not, and waits for another.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE
from headrace.storage.files.damage import MissingLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.broker.metadata.quorum import Quorum
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.damage_reports import DamageReports
    from headrace.broker.replicas.giving_up import GivingUp
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.model.names import LogId, NodeId
    from headrace.storage.store.log_store import LogStore

log = logging.getLogger(__name__)

LOOK_S: Final = 0.25


class DamagedReplicas:
    def __init__(
        self,
        node_id: NodeId,
        reports: DamageReports,
        topics: TopicTable,
        quorum: Quorum,
        store: LogStore,
        giving_up: GivingUp,
        fetch_again: Callable[[Partition], Awaitable[None]],
    ) -> None:
        self._node_id = node_id
        self._reports = reports
        self._topics = topics
        self._quorum = quorum
        self._store = store
        self._giving_up = giving_up
        self._fetch_again = fetch_again
        self._kept_as_last: set[LogId] = set()
        """Those of which the operator was told that there is no other copy."""

    async def run(self) -> None:
        while True:
            if self._reports.damaged or self._store.set_aside_damaged or self._reports.not_opened:
                await asyncio.sleep(LOOK_S)
            else:
                await self._reports.news.wait()
            self._reports.news.clear()
            for partition in list(self._reports.damaged.values()):
                await self._look_after(partition)
            for log_id in self._unopened_counted_on():
                await self._give_up_unopened(log_id)
            await self._drop_replaced()

    async def _look_after(self, partition: Partition) -> None:
        log_id = partition.log_id
        state = self._quorum.image.partition(*log_id)
        if state is None or self._topics.by_log_id(log_id) is not partition:
            self._forget(partition)
        elif self._is_given_up(log_id, state):
            await self._fetch_again(partition)
            if self._topics.by_log_id(log_id) is not partition:
                self._reports.begun_anew()
                self._forget(partition)
        else:
            await self._give_up(partition, state)

    def _is_given_up(self, log_id: LogId, state: PartitionState) -> bool:
        """Nobody counts on this copy, and nothing that it ever told a leader can be taken for the word of the next."""
        return (
            state.leader not in {NO_NODE, self._node_id}
            and self._node_id not in {*state.isr, *state.eligible}
            and state.leader_epoch > self._reports.last_epochs[log_id]
        )

    async def _give_up(self, partition: Partition, state: PartitionState) -> None:
        log_id = partition.log_id
        if partition.replica.is_leader:
            self._reports.last_epochs[log_id] = partition.replica.leader_epoch
        is_last = state.isr == (self._node_id,)
        if is_last and not state.eligible:
            self._say_last(partition)
            return
        try:
            await self._giving_up.leave_in_sync_set(log_id, is_lost=True)
        except (ClientError, Refusal) as trouble:
            log.debug("%s cannot be given up now: %s", partition.name, trouble)
            if is_last:
                self._say_last(partition)

    async def give_up_before_entry(self) -> None:
        """Logs that are missing, before this node is let in: it may be elected in that moment, and an empty log would
        take the place of those that others hold whole. A damaged one holds something, and is given up only to somebody
        who is there."""
        while missing := [log_id for log_id in self._unopened_counted_on() if self._is_missing(log_id)]:
            for log_id in missing:
                if not await self._give_up_unopened(log_id):
                    return
            await asyncio.sleep(LOOK_S)

    def _unopened_counted_on(self) -> list[LogId]:
        """Logs that could not be opened: as long as this node may be elected, they are not fetched again. The last who
        may be elected stays: nobody else has more."""
        found = []
        for log_id in self._reports.not_opened:
            state = self._quorum.image.partition(*log_id)
            electable = set() if state is None else {*state.isr, *state.eligible}
            if self._node_id in electable and len(electable) > 1:
                found.append(log_id)
        return found

    def _is_missing(self, log_id: LogId) -> bool:
        return isinstance(self._reports.not_opened.get(log_id), MissingLog)

    async def _give_up_unopened(self, log_id: LogId) -> bool:
        """False if there is no use in trying again: another life of this node has begun."""
        try:
            await self._giving_up.leave_in_sync_set(log_id, is_lost=True, serves_nothing=self._is_missing(log_id))
        except (ClientError, Refusal) as trouble:
            log.debug("%s cannot be given up now: %s", log_id, trouble)
            return not isinstance(trouble, Refusal) or trouble.code is not ErrorCode.STALE_BROKER_EPOCH
        return True

    def _say_last(self, partition: Partition) -> None:
        if partition.log_id in self._kept_as_last:
            return
        self._kept_as_last.add(partition.log_id)
        log.error(
            "%s: the only copy in sync is damaged. %s. Nothing was cut: the damaged offsets are refused, all others "
            "are served. It is fetched again once another replica is in sync; if there is none, restore a backup",
            partition.name,
            "; ".join(map(str, partition.log.damage.ranges)),
        )

    def _forget(self, partition: Partition) -> None:
        if self._reports.forget(partition):
            self._kept_as_last.discard(partition.log_id)

    async def _drop_replaced(self) -> None:
        """A damaged copy was kept beside its successor until that is in sync."""
        for log_id in list(self._store.set_aside_damaged):
            state = self._quorum.image.partition(*log_id)
            is_whole = state is not None and self._node_id in state.isr and log_id not in self._reports.damaged
            if is_whole or state is None or self._node_id not in state.replicas:
                log.info("%s is whole again; its old copy is removed", log_id)
                await self._store.drop_damaged(log_id)
