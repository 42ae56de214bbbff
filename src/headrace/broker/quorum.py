"""The metadata log of a cluster with one voter: decide, append, flush, apply.

A command is decided against the *pending* image, which holds everything appended so far, and answered once its records
are on disk and the *committed* image holds them. With more voters Raft decides when that is; nobody else changes.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.metadata.encoding import decode_record, encode_record
from headrace.metadata.image import EMPTY_IMAGE, ClusterImage
from headrace.metadata.records import TopicDeleted
from headrace.model.errors import DiskFailure
from headrace.model.names import Epoch, LogId, TopicId, TopicPartition
from headrace.storage.damage import DamagedLog
from headrace.wire.batches import CorruptBatch, read_header
from headrace.wire.records import decode_records, encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.metadata.controller import Decision
    from headrace.metadata.records import MetadataRecord
    from headrace.runtime.clock import Clock
    from headrace.runtime.threads import Threads
    from headrace.storage.log import PartitionLog

Response = TypeVar("Response")

METADATA_TOPIC: Final = TopicPartition("__cluster_metadata", 0)
METADATA_LOG: Final = LogId(TopicId(bytes(15) + b"\x01"), 0)  # the id that Kafka gives to this topic
FLUSH_LANE: Final = "metadata-flush"  # a decision must not queue behind the data's flushes
RESERVE_BYTES: Final = 64 << 10  # hundreds of decisions: a full disk must not keep us from starting or deleting topics
RESTORE_METADATA: Final = (
    "This is the metadata log: it says which topics there are and whose the other logs are. Restore it from a backup; "
    "do not remove it"
)
READ_BYTES: Final = 1 << 20
INFLATE_MAX: Final = 1 << 20  # our own batches are never compressed


class Quorum:
    """One voter's metadata log. `on_commit` sees each run of records once, in order, after it was applied."""

    def __init__(
        self,
        log: PartitionLog,
        threads: Threads,
        clock: Clock,
        on_commit: Callable[[Sequence[MetadataRecord]], None],
    ) -> None:
        self._log = log
        self._threads = threads
        self._clock = clock
        self._on_commit = on_commit
        self._pending_image: ClusterImage = EMPTY_IMAGE
        self._waiting: list[tuple[Sequence[MetadataRecord], asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self._epoch = Epoch(0)
        self._failure: DiskFailure | None = None
        self.image: ClusterImage = EMPTY_IMAGE
        """What is committed: the only image that may be shown to anybody."""
        self.deleted_topics: set[TopicId] = set()
        """Topics that the log says were deleted, as of `load`. Their data may be removed; no other may."""

    def load(self) -> None:
        """Rebuild the image from the log; before the node starts, so it may block. DamagedLog if it cannot be read."""
        for records in _replay(self._log):
            self.image = self.image.apply_all(records)
            self.deleted_topics.update(record.topic_id for record in records if isinstance(record, TopicDeleted))
        self._pending_image = self.image
        self._epoch = Epoch(self._log.epochs.latest + 1)
        self._log.reserve(RESERVE_BYTES)

    async def submit(self, decide: Callable[[ClusterImage], Decision[Response]]) -> Response:
        """Decide a command, make its records durable, apply them, then answer. DiskFailure if that is impossible."""
        if self._failure is not None:
            raise self._failure
        decision = decide(self._pending_image)
        if decision.records:
            committed = self._append(decision.records)
            await committed
        return decision.response

    def _append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        now_ms = self._clock.wall_ms()
        # One batch, whatever its size: a crash leaves all of a command's records in the log, or none.
        batch = encode_batch(
            [(now_ms, None, encode_record(record), ()) for record in records],
            base_offset=self._log.next_offset,
            leader_epoch=self._epoch,
        )
        self._log.append([batch], [read_header(batch)])
        self._pending_image = self._pending_image.apply_all(records)
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((records, committed))
        self._wake.set()
        return committed

    async def run(self) -> None:
        """Flush what was appended and apply it, until cancelled. A failed flush ends the node."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            ticket = self._log.begin_flush()
            if ticket is not None:
                try:
                    await self._threads.run(partial(ticket.sync, self._log.disk), lane=FLUSH_LANE)
                except OSError as error:
                    failure = DiskFailure(f"the metadata log cannot be flushed: {error}")
                    self._give_up([*waiting, *self._waiting], failure)
                    raise failure from error
                self._log.finish_flush(ticket)
                self._log.reserve(RESERVE_BYTES)
            for records, committed in waiting:
                self.image = self.image.apply_all(records)
                self._on_commit(records)
                if not committed.done():
                    committed.set_result(None)

    def _give_up(self, waiting: Sequence[tuple[object, asyncio.Future[None]]], failure: DiskFailure) -> None:
        """Nothing will be committed any more: nobody may wait for it, a starting node least of all."""
        self._failure = failure
        for _, committed in waiting:
            if not committed.done():
                committed.set_exception(failure)


def _replay(log: PartitionLog) -> Iterator[list[MetadataRecord]]:
    offset = log.start_offset
    while offset < log.next_offset:
        piece = log.read(offset, READ_BYTES, log.next_offset, at_least_one=True)
        assert piece is not None, f"the metadata log ends at {offset}, not at {log.next_offset}"
        raw, start = memoryview(piece.read()), piece.position
        piece.release()
        position = 0
        records: list[MetadataRecord] = []
        while position < len(raw):
            header = read_header(raw, position)
            batch = raw[position : position + header.size]
            try:
                for record in decode_records(batch, inflate_max=INFLATE_MAX):
                    assert record.value is not None
                    records.append(decode_record(record.value))
            except CorruptBatch as error:  # a start verifies only what is above the recovery point
                raise DamagedLog(
                    log.directory, start + position, offset, str(error), advice=RESTORE_METADATA
                ) from error
            position += header.size
            offset = header.next_offset
        yield records
