"""Sends one lane of an import exactly once: the messages, and how far the lane is, in the same transaction.

The lane's group keeps one number: how many rows of the lane are sent. Whoever sends a lane first takes over its
transactional id, which settles what an earlier task left open and fences that task, and then reads the number.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.client.connections.cluster import RetryBackoff
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError, ProducerFenced, TransactionAborted
from headrace.client.groups.group_offsets import GroupMetadata, fetch_offsets
from headrace.client.producing.transactions import Phase, Transactions
from headrace.model.errors import Refusal
from headrace.model.names import TopicPartition
from headrace_spark.sink.sending import ENDED_BY_COORDINATOR, BatchSender

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.client.producing.batch import Identity
    from headrace_spark.codec.encoder import EncodedBatch

    TargetedBatch = tuple[TopicPartition, EncodedBatch]

TRANSACTION_TIMEOUT_MS: Final = 60_000  # Kafka's default: so long may a task that died hold up who reads committed


def progress_partition_of(topic: str) -> TopicPartition:
    """What the group's offset is kept for. It must exist, and says nothing: every lane has a group of its own."""
    return TopicPartition(topic, 0)


class LanePublisher:
    """Sends for one lane. Call `take_over` first, then `publish` for chunk after chunk, and `close` at the end."""

    def __init__(self, cluster: Cluster, lane_id: str, topic: str) -> None:
        """`lane_id` is the transactional id and the group."""
        self._cluster = cluster
        self._group = GroupMetadata(lane_id)
        self._progress_partition = progress_partition_of(topic)
        self._transactions = Transactions(cluster, lane_id, TRANSACTION_TIMEOUT_MS)
        self._sender: BatchSender | None = None
        self._identity: Identity | None = None

    async def take_over(self) -> int:
        """How many rows of the lane are sent already. Nobody else can send any from here on."""
        await self._cluster.topic(self._progress_partition.topic)
        await self._transactions.begin()
        coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, self._group.group_id)
        committed = await fetch_offsets(
            coordinator, self._group.group_id, [self._progress_partition], require_stable=True
        )
        return int(committed[self._progress_partition].offset) if self._progress_partition in committed else 0

    async def publish(self, batches: Sequence[TargetedBatch], rows_sent: int) -> None:
        """These batches, and that the lane has then come so far. Trouble that passes is ridden out."""
        patience = RetryBackoff(self._cluster, self._cluster.settings.retry_for_s)
        while True:
            try:
                if self._transactions.phase is Phase.IDLE:
                    await self._transactions.begin()
                if self._transactions.phase is not Phase.COMMITTING:
                    await self._send(batches, rows_sent)
                    self._transactions.begin_commit()
                # After an unknown outcome only this can be repeated, and does no harm if it was committed.
                await self._transactions.commit()
            except ProducerFenced:
                raise
            except (ClientError, Refusal) as trouble:
                if self._transactions.can_abort:
                    await self._abort(trouble)
                if not self._passes(trouble):
                    raise
                await patience.wait_or_raise(trouble)
            else:
                return

    async def close(self) -> None:
        """Nobody who reads committed messages should wait for a transaction that is given up."""
        with suppress(ClientError, Refusal):
            if self._transactions.phase is not Phase.IDLE and self._transactions.can_abort:
                await self._abort(ClientError("the import stopped"))
        if self._sender is not None:
            await self._sender.close()

    async def _send(self, batches: Sequence[TargetedBatch], rows_sent: int) -> None:
        identity = await self._transactions.admit(sorted({partition for partition, _ in batches}))
        sender = await self._sender_for(identity)
        for partition, batch in batches:
            await sender.send(partition, batch)
        await sender.flush()
        await self._transactions.send_offsets({self._progress_partition: rows_sent}, self._group)

    async def _sender_for(self, identity: Identity) -> BatchSender:
        """A sender numbers batches for one identity. Where each transaction has its own epoch, each has a sender."""
        if self._sender is None or self._identity != identity:
            if self._sender is not None:
                await self._sender.close()
            self._sender, self._identity = BatchSender(self._cluster, identity, self._transactions), identity
        return self._sender

    async def _abort(self, cause: Exception) -> None:
        """By asking for the id anew: raises ProducerFenced if another has it."""
        if self._sender is not None:
            await self._sender.close()
        self._sender = self._identity = None
        self._transactions.doom(cause)
        self._transactions.begin_abort()
        await self._transactions.abort()

    def _passes(self, trouble: Exception) -> bool:
        cause = trouble.__cause__ if isinstance(trouble, TransactionAborted) else trouble
        if isinstance(cause, Refusal) and cause.code in ENDED_BY_COORDINATOR:
            return True
        return isinstance(cause, ClientError | Refusal) and self._cluster.is_retriable(cause)
