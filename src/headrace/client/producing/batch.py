"""A batch on its way into the log, and the receipts of the messages in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import NO_OFFSET, Millis, Offset, ProducerId, TopicPartition
from headrace.wire.batches.records import BatchBuilder, decode_records

if TYPE_CHECKING:
    from collections.abc import Generator

    from headrace.wire.batches.header import Codec
    from headrace.wire.batches.records import Headers

INFLATE_MAX = 1 << 30  # our own batches, opened again only to be split


class Identity(NamedTuple):
    """Who an idempotent producer is. The log numbers batches per identity and partition."""

    producer_id: ProducerId
    epoch: int
    is_transactional: bool = False


class Delivered(NamedTuple):
    """Where a message came to lie."""

    topic: str
    partition: int
    offset: Offset
    """NO_OFFSET if the producer asked for no acknowledgement, or the log knows the batch but not its place any more."""
    timestamp_ms: Millis | None
    """The log's own time, on topics that use it."""


@dataclass(slots=True, eq=False)
class PendingBatch:
    """Messages for one partition, gathered until it is full or old enough."""

    partition: TopicPartition
    codec: Codec
    bytes_max: int
    due_s: float
    """From now on it should not wait for more messages."""
    deadline_s: float
    """From now on it is too late to try again."""
    builder: BatchBuilder = field(init=False)
    settled: asyncio.Future[None] = field(init=False)
    """Done when the outcome is known, be it good or bad."""
    count: int = 0
    size: int = 0
    """Bytes that it holds in memory, before compression."""
    content_bytes: int = 0
    """Of keys and values alone: what a person thinks of as sent."""
    encoded: bytearray | None = None
    identity: Identity | None = None
    base_sequence: int = -1
    attempts: int = 0
    is_uncertain: bool = False
    """An attempt was sent and not answered: the batch may be in the log already."""
    is_watched: bool = False
    """Somebody waits for a receipt and will see what goes wrong."""
    base_offset: Offset = NO_OFFSET
    timestamp_ms: Millis | None = None
    error: Exception | None = None
    errors_by_position: dict[int, Exception] = field(default_factory=dict)
    halves: tuple[PendingBatch, PendingBatch] | None = None

    def __post_init__(self) -> None:
        self.builder = BatchBuilder(self.codec)
        self.size = self.builder.size
        self.settled = asyncio.get_running_loop().create_future()

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Add a message; return its position in the batch."""
        self.size = self.builder.append(timestamp_ms, key, value, headers)
        self.content_bytes += len(key or b"") + len(value or b"")
        self.count += 1
        return self.count - 1

    def has_room_for(self, record_bytes: int) -> bool:
        """True if one more message fits. The first always does: it may be larger than a batch should be."""
        return self.count == 0 or self.size + record_bytes <= self.bytes_max

    def is_full(self) -> bool:
        """True if it should leave now, whatever its age."""
        return self.size >= self.bytes_max

    def is_expired(self, now_s: float) -> bool:
        """True if its oldest message has waited for `linger_ms`."""
        return now_s >= self.due_s

    def encode(self, identity: Identity | None, base_sequence: int) -> bytearray:
        """The batch as it is sent, each time the same: a retry must be recognised by its sequence number."""
        if self.encoded is None:
            self.identity = identity
            if identity is None:
                self.encoded = self.builder.close()
            else:
                self.base_sequence = base_sequence
                self.encoded = self.builder.close(
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    base_sequence=base_sequence,
                    is_transactional=identity.is_transactional,
                )
        return self.encoded

    def renumber(self) -> None:
        """Forget identity and sequence: the log does not know them any more. Only for a batch that is not in it."""
        fresh = self._copy(0, self.count)
        self.builder, self.encoded, self.identity, self.base_sequence = fresh.builder, None, None, -1

    def split(self) -> tuple[PendingBatch, PendingBatch]:
        """Two batches with a half each. Receipts of this one follow to them."""
        middle = self.count // 2
        self.halves = (self._copy(0, middle), self._copy(middle, self.count))
        for half in self.halves:
            half.is_watched = self.is_watched
        return self.halves

    def _copy(self, start: int, end: int) -> PendingBatch:
        assert self.encoded is not None
        copy = PendingBatch(self.partition, self.codec, self.bytes_max, self.due_s, self.deadline_s)
        for position, record in enumerate(decode_records(self.encoded, inflate_max=INFLATE_MAX)):
            if start <= position < end:
                copy.append(record.timestamp, record.key, record.value, record.headers)
        return copy

    async def outcome_known(self) -> None:
        """Until all of its messages are in the log or failed, wherever splits have taken them."""
        await asyncio.shield(self.settled)
        for half in self.halves or ():
            await half.outcome_known()

    def settle(self) -> None:
        """The outcome is known: wake who waits for it, and let go of the messages."""
        self.encoded = None
        self.builder = BatchBuilder()
        if not self.settled.done():
            self.settled.set_result(None)


class Receipt:
    """Await it for the place of one message in the log, or for the error that kept it out."""

    __slots__ = ("_batch", "_position")

    def __init__(self, batch: PendingBatch, position: int) -> None:
        self._batch = batch
        self._position = position

    def __await__(self) -> Generator[object, None, Delivered]:
        return self._outcome().__await__()

    @property
    def is_settled(self) -> bool:
        """True if awaiting it does not wait."""
        batch, _ = self._current()
        return batch.settled.done()

    async def _outcome(self) -> Delivered:
        while True:
            batch, position = self._current()
            batch.is_watched = True
            if not batch.settled.done():
                await asyncio.shield(batch.settled)
            if batch.halves is None:
                break
        error = batch.errors_by_position.get(position, batch.error)
        if error is not None:
            raise error
        offset = batch.base_offset
        return Delivered(
            batch.partition.topic,
            batch.partition.partition,
            Offset(offset + position) if offset >= 0 else NO_OFFSET,
            batch.timestamp_ms,
        )

    def _current(self) -> tuple[PendingBatch, int]:
        """The batch that holds the message now: a batch that was too large is split, perhaps more than once."""
        batch, position = self._batch, self._position
        while batch.halves is not None:
            left, right = batch.halves
            batch, position = (left, position) if position < left.count else (right, position - left.count)
        return batch, position
