"""The driver's commit: what the winning attempts left becomes visible, all of it at once, and exactly once.

The query's group keeps one number, the next batch id. It moves in the same transaction as the records, so the two
cannot disagree. Whoever commits first takes over the transactional id, which settles what an earlier driver left open,
and then reads that number. Whatever goes wrong afterwards aborts the transaction and begins again from there, as the
same producer: if another driver took over meanwhile, the cluster says so, and this one stops.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.admin.admin import Admin
from headrace.client.connections.cluster import RetryBackoff
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError, ProducerFenced, TransactionAborted
from headrace.client.groups.group_offsets import GroupMetadata, fetch_offsets
from headrace.client.producing.transactions import Phase, Transactions
from headrace.model.errors import ErrorCode, Refusal
from headrace_spark.codec.encoder import EncodedBatch
from headrace_spark.sink.sending import ENDED_BY_COORDINATOR, BatchSender
from headrace_spark.sink.staging import ensure_offsets_topic, read_staged
from headrace_spark.sink.staging_names import OFFSETS_PARTITION, former_offsets_partition

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.client.producing.batch import Identity
    from headrace.model.names import TopicPartition
    from headrace_spark.sink.commit_messages import StagedBatch, TaskOutput

TIMEOUT_LEAST_MS = 60_000  # Kafka's default: how long readers of what is committed may wait for a driver that died
TIMEOUT_MOST_MS = 900_000  # Kafka's default for transaction.max.timeout.ms
COPY_BYTES_PER_MS = 8 << 10  # 8 MiB/s: copying that is slower than this has met trouble

_log = logging.getLogger(__name__)


class StaleBatch(Exception):
    """A stream wants to write a batch that lies behind what it has published."""


class Publication(NamedTuple):
    """One micro-batch, or one version of an application's writes."""

    transactional_id: str
    version: int
    outputs: tuple[TaskOutput, ...]
    is_strict: bool = False
    """A stream repeats no batch but the last, so an older one is a mistake. Other writers may repeat what they like."""

    @property
    def record_count(self) -> int:
        """Records of all tasks."""
        return sum(output.record_count for output in self.outputs)

    @property
    def timeout_ms(self) -> int:
        """For its transaction: enough to copy all of it."""
        copying_ms = sum(output.size_bytes for output in self.outputs) // COPY_BYTES_PER_MS
        return min(TIMEOUT_LEAST_MS + copying_ms, TIMEOUT_MOST_MS)


class Publisher:
    """Publishes one publication, once. `timeout_ms` is the transaction's; None: as long as the amount needs."""

    def __init__(self, cluster: Cluster, publication: Publication, timeout_ms: int | None = None) -> None:
        self._cluster = cluster
        self._publication = publication
        self._timeout_ms = publication.timeout_ms if timeout_ms is None else timeout_ms
        self._group = GroupMetadata(publication.transactional_id)
        self._group_coordinator = Coordinator(cluster, CoordinatorKind.GROUP, self._group.group_id)
        self._transactions = Transactions(cluster, publication.transactional_id, self._timeout_ms)

    async def publish(self) -> bool:
        """False if it was published before, by this driver or another; then nothing is written."""
        await ensure_offsets_topic(self._cluster)
        # Before the id is taken over: a driver that is late must not fence the one that is at work.
        if await self._is_published(require_stable=False):
            _log.info("%s was published before; nothing is written", self._what)
            return False
        patience = RetryBackoff(self._cluster, self._cluster.settings.retry_for_s)
        while True:
            await self._begin()
            try:
                is_new = await self._publish_once()
            except ProducerFenced as fenced:
                raise self._fenced() from fenced
            except (ClientError, Refusal) as trouble:
                await self._give_up(trouble)
                await patience.wait_or_raise(self._explained(trouble))
                _log.warning("publishing %s again: %s", self._what, trouble)
            except BaseException as bug:
                with suppress(ClientError, Refusal):  # the bug is the news
                    await self._abort(RuntimeError(str(bug)))
                raise
            else:
                break
        if is_new:
            _log.info("published %s: %d records", self._what, self._publication.record_count)
            await self._forget_staged()
        else:
            _log.info("%s was published before; nothing is written", self._what)
        return is_new

    @property
    def _what(self) -> str:
        return f"version {self._publication.version} of {self._publication.transactional_id!r}"

    # One attempt.

    async def _begin(self) -> None:
        """The first time this takes the id over; later the identity is known already."""
        try:
            await self._transactions.begin()
        except ProducerFenced as fenced:
            raise self._fenced() from fenced
        except Refusal as refusal:
            if refusal.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise Refusal(
                refusal.code,
                f"the cluster refuses a transaction timeout of {self._timeout_ms} ms as too long. Raise its setting "
                "transaction.max.timeout.ms, or set the option kafka.transaction.timeout.ms to what it allows; the "
                "batch must be copied within that time",
            ) from refusal

    async def _publish_once(self) -> bool:
        if await self._is_published(require_stable=True):
            self._transactions.begin_commit()
            await self._transactions.commit()  # of nothing: no request is sent
            return False
        await self._copy_outputs()
        await self._transactions.send_offsets({OFFSETS_PARTITION: self._publication.version + 1}, self._group)
        self._transactions.begin_commit()
        await self._transactions.commit()
        return True

    async def _is_published(self, *, require_stable: bool) -> bool:
        """The number only grows, so a yes is always true. A no is, too, if it is stable and the id is ours."""
        places = [OFFSETS_PARTITION, former_offsets_partition(self._publication.transactional_id)]
        committed = await fetch_offsets(
            self._group_coordinator, self._group.group_id, places, require_stable=require_stable
        )
        next_version = max((found.offset for found in committed.values()), default=0)
        if next_version <= self._publication.version:
            return False
        self._check_is_last(next_version)
        return True

    def _check_is_last(self, next_version: int) -> None:
        if self._publication.is_strict and next_version > self._publication.version + 1:
            raise StaleBatch(
                f"batch {self._publication.version} is to be written, but {self._publication.transactional_id!r} has "
                f"published all up to {next_version - 1}. Either another run of the query goes on from the same "
                "checkpoint: then stop this one. Or the checkpoint was set back: then begin with a new one, for under "
                "this one records would be left out as written before"
            )

    async def _copy_outputs(self) -> None:
        targets = {batch.target for output in self._publication.outputs for batch in output.inline}
        targets.update(target for output in self._publication.outputs for target in output.targets)
        if not targets:
            return
        await self._cluster.topics({target.topic for target in targets})
        identity: Identity = await self._transactions.admit(sorted(targets))
        sender = BatchSender(self._cluster, identity, self._transactions)
        try:
            for output in self._publication.outputs:
                for batch in output.inline:
                    await sender.send(batch.target, EncodedBatch(bytearray(batch.records), batch.record_count))
            shares = _by_staging_partition(self._publication.outputs)
            await _all(self._copy(partition, share, sender) for partition, share in shares.items())
            await sender.flush()
        finally:
            await sender.close()

    async def _copy(
        self, partition: TopicPartition, share: dict[int, tuple[TopicPartition, StagedBatch]], sender: BatchSender
    ) -> None:
        wanted = {offset: staged for offset, (_, staged) in share.items()}
        await self._cluster.topic(partition.topic)
        count = 0
        async for offset, batch in read_staged(self._cluster, partition, wanted):
            await sender.send(share[offset][0], batch)
            count += 1
        if count != len(share):
            raise ClientError(f"{partition} has {count} of the {len(share)} batches that were staged there")

    # Trouble.

    async def _give_up(self, trouble: ClientError | Refusal) -> None:
        """Abort, so that another attempt can follow. Raises if there is none: fenced, lasting or unknown."""
        if not self._transactions.can_abort:
            raise ClientError(
                f"it is not known whether {self._what} was published: {trouble}. Start the query again from its "
                "checkpoint: it will find out, and neither lose nor repeat records"
            ) from trouble
        await self._abort(trouble)
        cause = trouble.__cause__ if isinstance(trouble, TransactionAborted) else trouble
        if not (isinstance(cause, ClientError | Refusal) and self._passes(cause)):
            raise trouble

    async def _abort(self, cause: Exception) -> None:
        if self._transactions.phase is Phase.IDLE or not self._transactions.can_abort:
            return
        self._transactions.doom(cause)
        self._transactions.begin_abort()
        try:
            await self._transactions.abort()
        except ProducerFenced as fenced:
            raise self._fenced() from fenced

    def _passes(self, trouble: ClientError | Refusal) -> bool:
        """Also a transaction that the coordinator ended, for it was too slow: we are still who we were."""
        if isinstance(trouble, Refusal) and trouble.code in ENDED_BY_COORDINATOR:
            return True
        return self._cluster.is_retriable(trouble)

    def _explained(self, trouble: ClientError | Refusal) -> Exception:
        cause = trouble.__cause__ if isinstance(trouble, TransactionAborted) else trouble
        if not (isinstance(cause, Refusal) and cause.code in ENDED_BY_COORDINATOR):
            return trouble
        return ClientError(
            f"{self._what} could not be copied within the transaction's {self._timeout_ms} ms: {cause}. Give it more "
            "with the option kafka.transaction.timeout.ms, or make the batches smaller"
        )

    def _fenced(self) -> ProducerFenced:
        return ProducerFenced(
            f"another driver has taken over {self._publication.transactional_id!r} while this one published version "
            f"{self._publication.version}; nothing of this attempt will be seen. Two runs of a query share one "
            "checkpoint: stop one of them"
        )

    # Afterwards.

    async def _forget_staged(self) -> None:
        """Delete what was copied. All that lies before belongs to batches that are published, or never will be."""
        ends: dict[TopicPartition, int] = {}
        for output in self._publication.outputs:
            if output.staging is not None:
                last = max(output.staged, key=lambda batch: batch.offset)
                ends[output.staging] = max(ends.get(output.staging, 0), last.offset + last.record_count)
        if not ends:
            return
        try:
            await Admin(self._cluster).delete_records(ends)
        except (ClientError, Refusal) as trouble:
            _log.warning("staged records stay until their retention: %s", trouble)


def _by_staging_partition(
    outputs: Sequence[TaskOutput],
) -> dict[TopicPartition, dict[int, tuple[TopicPartition, StagedBatch]]]:
    """For each staging partition its batches by offset, with their targets. A partition is read once for all tasks."""
    found: dict[TopicPartition, dict[int, tuple[TopicPartition, StagedBatch]]] = {}
    for output in outputs:
        if output.staging is not None:
            share = found.setdefault(output.staging, {})
            share.update((batch.offset, (output.targets[batch.target], batch)) for batch in output.staged)
    return found


async def _all(works: Iterable[Coroutine[object, object, None]]) -> None:
    """Side by side. The first that fails ends the others, and is raised as it is."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
