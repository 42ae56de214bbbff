"""Writes the markers that end transactions, and goes on until every partition has its own."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.broker.coordination.remote import write_markers
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.coordination.coordinators import Coordinators, TransactionShard
    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.pending_appends import PendingAppend
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.coordinators.transactions.effects import MarkerOrder
    from headrace.model.names import NodeId, TopicPartition
    from headrace.runtime.clock import Clock
    from headrace.runtime.tasks import TaskScope

log = logging.getLogger(__name__)

TRY_AGAIN_S: Final = 0.1
TRY_AGAIN_S_MAX: Final = 5.0
COMMIT_S_MAX: Final = 30.0
COMMIT_ELSEWHERE_S_MAX: Final = 4.0
"""For another node, which waits ANSWER_S, and whose next orders wait behind this one. That the time is up is noticed
within a second: two that are late, one behind the other, are both answered in time."""

_GONE: Final = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
_OVERTAKEN: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}


class MarkerWriter:
    def __init__(
        self,
        view: MetadataView,
        topics: TopicTable,
        peers: Peers,
        coordinators: Coordinators,
        clock: Clock,
        tasks: TaskScope,
    ) -> None:
        self._view = view
        self._topics = topics
        self._peers = peers
        self._coordinators = coordinators
        self._clock = clock
        self._tasks = tasks
        self._under_way: set[MarkerOrder] = set()

    def write(self, shard: TransactionShard, order: MarkerOrder) -> None:
        """Write an order's markers in the background, then tell the coordinator. None is begun twice."""
        if order not in self._under_way:
            self._under_way.add(order)
            self._tasks.start(self._fulfil(shard, order), f"end the transaction of {order.transactional_id}")

    async def _fulfil(self, shard: TransactionShard, order: MarkerOrder) -> None:
        waiting: Sequence[TopicPartition] = order.partitions
        backoff_s = TRY_AGAIN_S
        try:
            while waiting := await self._write_round(waiting, order):
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, TRY_AGAIN_S_MAX)
            shard.tell(
                lambda mind, now: mind.markers_written(
                    order.transactional_id, order.producer_id, order.producer_epoch, now
                )
            )
        finally:
            self._under_way.discard(order)

    async def _write_round(self, names: Sequence[TopicPartition], order: MarkerOrder) -> list[TopicPartition]:
        """Append to all, then wait for all: one flush serves them. Returns those that have to be tried again."""
        waiting, written = [], []
        elsewhere: dict[NodeId, list[TopicPartition]] = {}
        for name in names:
            leader = self._leader_elsewhere(name)
            if leader is not None:
                elsewhere.setdefault(leader, []).append(name)
                continue
            try:
                written.append((name, *self._append(name, order, COMMIT_S_MAX)))
            except Refusal as refusal:
                if not self._is_pointless(name, refusal.code):
                    log.warning("the marker of %s for %s waits: %s", order.transactional_id, name, refusal.message)
                    waiting.append(name)
        create_task = asyncio.get_running_loop().create_task  # one by one: see Peers.look_for_absent
        asked = [create_task(write_markers(self._peers, leader, theirs, order)) for leader, theirs in elsewhere.items()]
        for codes in await asyncio.gather(*asked):
            waiting += [name for name, code in codes.items() if not self._is_settled(name, code)]
        for name, append, settled in written:
            await settled
            if append.refusal is not None and not self._is_pointless(name, append.refusal.code):
                waiting.append(name)
        return waiting

    def _leader_elsewhere(self, name: TopicPartition) -> NodeId | None:
        topic = self._view.image.topic_named(name.topic)
        partition = None if topic is None else topic.partitions.get(name.partition)
        is_elsewhere = partition is not None and partition.has_leader and partition.leader != self._view.node_id
        return partition.leader if partition is not None and is_elsewhere else None

    def _is_settled(self, name: TopicPartition, code: ErrorCode) -> bool:
        return code is ErrorCode.NONE or self._is_pointless(name, code)

    def _is_pointless(self, name: TopicPartition, code: ErrorCode) -> bool:
        """The topic was deleted, and its part of the transaction with it; or a newer epoch has been here. Another topic
        of that name may have fewer partitions."""
        topic = self._view.image.topic_named(name.topic)
        is_gone = topic is None or name.partition not in topic.partitions
        return (code in _GONE and is_gone) or code in _OVERTAKEN

    async def write_here(self, marker: MarkerOrder) -> dict[TopicPartition, ErrorCode]:
        """Write the markers of another node's coordinator; see `append_here`."""
        try:
            self._coordinators.check_coordinator_epoch(marker.coordinator_epoch)
        except Refusal as refusal:
            return dict.fromkeys(marker.partitions, refusal.code)
        return await self.append_here(marker)

    async def append_here(self, marker: MarkerOrder) -> dict[TopicPartition, ErrorCode]:
        """Write the markers of an order of which this node leads all partitions, and wait until they are committed.

        To all before it waits for any: whoever ordered them gives up at some time, and begins with all of them again.
        """
        codes, written = {}, []
        for name in marker.partitions:
            try:
                written.append((name, *self._append(name, marker, COMMIT_ELSEWHERE_S_MAX)))
            except Refusal as refusal:
                codes[name] = refusal.code
        for name, append, settled in written:
            await settled
            codes[name] = ErrorCode.NONE if append.refusal is None else append.refusal.code
        return codes

    def _append(
        self, name: TopicPartition, marker: MarkerOrder, within_s: float
    ) -> tuple[PendingAppend, asyncio.Future[None]]:
        """The marker, and when it is known what became of it."""
        partition = self._topics.partition(*name)
        shard = self._coordinators.group_shard_at(partition)
        append = (shard or partition.writer).write_marker(
            marker.producer_id,
            marker.producer_epoch,
            is_commit=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        return append, append.settling(self._clock.monotonic_s() + within_s)
