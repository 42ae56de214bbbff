"""What is inside a produced batch: opened, walked and, if its topic wants that, packed anew.

`validation` has looked at the header and the CRC before. Here the records are looked at, every one of every batch, and
those that no consumer could read are refused. How long that takes is up to whoever made the batch: two kilobytes of
zstd unfold to gigabytes. So each look has an `Allowance`. What does not fit into that of the loop raises `TakesLong`
and is looked at again beside the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire import walk as walk_module
from headrace.wire.batches import lz4_frames
from headrace.wire.batches.compression import compress, decompress
from headrace.wire.batches.header import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    BatchHeader,
    Codec,
    CorruptBatch,
    InflatesTooFar,
    TooManyBlocks,
)
from headrace.wire.walk import BadRecord, RecordWalk, times_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.wire.batches.header import Buffer

IS_COMPILED: Final = not str(walk_module.__file__).endswith(".py")

LOOP_STEPS: Final = 16_384 if IS_COMPILED else 512  # records and headers in one turn of the loop: under a millisecond
SLICE_STEPS: Final = 4_096 if IS_COMPILED else 256  # beside the loop, between two pauses: the loop waits for as long
LOOP_STREAM: Final = 4 * 1024  # bytes that are unpacked or packed on the loop
LOOP_INFLATE: Final = 32 * 1024  # what they may unfold to
PACKING_STEPS: Final = LOOP_STEPS // 16  # what it costs to pack or unpack that much, in steps of a walk


_new = tuple.__new__  # a third of the time of a NamedTuple's own constructor, once for every batch


class RecordError(NamedTuple):
    batch_index: int
    message: str | None


class TakesLong(Exception):
    """More than the allowance. Nothing is known of the batch yet."""


class RefusedRecords(Refusal):
    """Single records of a batch that their topic cannot take; the producer is told which."""

    def __init__(self, count: int, indexes: Sequence[int], message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"{count} records are invalid: {message}")
        self.record_errors = [RecordError(index, message) for index in indexes]


class Rejected(NamedTuple):
    """A refusal as it is passed on between threads: an exception would hold what was unpacked."""

    code: ErrorCode
    message: str
    record_errors: Sequence[RecordError] = ()


def rejected(refusal: Refusal) -> Rejected:
    errors = refusal.record_errors if isinstance(refusal, RefusedRecords) else ()
    return Rejected(refusal.code, refusal.message, errors)


class Demands(NamedTuple):
    """What a topic's settings ask of records."""

    needs_keys: bool = False
    """Compaction keeps the last record of each key, so a record without one has no place."""
    codec: Codec | None = None
    """How records are to be packed; None leaves them as they came."""
    trusts_compressed: bool = False
    """Compressed records are taken unseen, unless something else asks for a look."""
    size_max: int = 2**31 - 1
    """Of a batch in the log: as it came it is known to be smaller, but packed anew it may not be."""


class Allowance(NamedTuple):
    """How much work one look may be."""

    records_max: int
    stream_max: int
    """Bytes that are unpacked, or packed."""
    inflate_max: int
    steps: int
    """Records and headers between two calls of `pause`."""
    pause: Callable[[], None]
    is_last: bool = False
    """Nobody allows more than this: what does not fit is refused."""

    def within(self, steps: int) -> Allowance:
        """The same, with no more steps than so many altogether."""
        return self._replace(records_max=min(self.records_max, steps), steps=steps)


def _end_of_turn() -> None:
    raise TakesLong


ON_THE_LOOP: Final = Allowance(LOOP_STEPS, LOOP_STREAM, LOOP_INFLATE, LOOP_STEPS, _end_of_turn)


class Examined(NamedTuple):
    """What was found, and for whom: settings may change while somebody looks."""

    demands: Demands
    oldest_ms: int
    newest_ms: int
    """Base and delta added up: 64 bits may be too few for either."""
    repacked: Buffer | None = None
    """The records in the codec that the topic wants; None if they are in it."""
    steps: int = 0
    """How much work it was."""


class Unopened(NamedTuple):
    """A batch that waits for somebody to look at it."""

    batch: memoryview
    header: BatchHeader
    demands: Demands


def examine(
    batch: memoryview,
    header: BatchHeader,
    demands: Demands,
    allowance: Allowance,
    memory: bytes | bytearray | None = None,
    start: int = 0,
) -> Examined:
    """Look at every record of a batch that `validation.check_batch` has passed.

    `memory` is where it lies, from `start` on, if that is a `bytes` object: then it need not be copied to be looked at.
    Raises Refusal if a consumer could not read it, or the topic cannot take it, and TakesLong.
    """
    _, _, _, _, _, attributes, _, base_ms, max_ms, _, _, _, count = header
    records_max, _, _, steps, pause, is_last = allowance
    needs_keys, codec, trusts_compressed, _ = demands
    came_in = attributes & COMPRESSION_MASK
    if came_in and trusts_compressed and not _has_reason_to_look(header, demands):
        return Examined(demands, base_ms, max_ms)
    if count > records_max and not is_last:
        raise TakesLong
    try:
        if came_in or needs_keys or codec is not None or type(memory) is not bytes:
            return _look_closely(batch, header, demands, allowance)
        oldest, newest, took = times_in(memory, start + HEADER_SIZE, start + len(batch), count, pause, steps)
    except BadRecord as bad:
        raise Refusal(ErrorCode.INVALID_RECORD, f"no consumer could read the batch: {bad}") from None
    return _new(Examined, (demands, base_ms + oldest, base_ms + newest, None, took))


def _look_closely(batch: memoryview, header: BatchHeader, demands: Demands, allowance: Allowance) -> Examined:
    codec, came_in, base_ms = demands.codec, header.codec, header.base_timestamp
    records = _unpacked(batch, came_in, allowance) if came_in else batch[HEADER_SIZE:]
    walk = RecordWalk(records, 0, len(records), allowance.pause, allowance.steps, b"", demands.needs_keys)
    walk.run(header.record_count)
    if demands.needs_keys and walk.keyless:
        raise RefusedRecords(walk.keyless_count, walk.keyless, "a compacted topic takes no record without a key")
    repacked, steps = None, walk.steps
    if codec is not None and codec != came_in:
        repacked, steps = _packed(codec, records, allowance, demands.size_max), steps + PACKING_STEPS
    if came_in:
        steps += PACKING_STEPS
    return Examined(demands, base_ms + walk.oldest_delta, base_ms + walk.newest_delta, repacked, steps)


def _has_reason_to_look(header: BatchHeader, demands: Demands) -> bool:
    """Some clients leave the newest time unset, and lookups by time depend on it."""
    is_packed_otherwise = demands.codec is not None and demands.codec != header.codec
    return demands.needs_keys or is_packed_otherwise or header.max_timestamp < header.base_timestamp


def _unpacked(batch: memoryview, codec: int, allowance: Allowance) -> memoryview:
    if len(batch) > allowance.stream_max and not allowance.is_last:
        raise TakesLong
    stream = batch[HEADER_SIZE:]
    try:
        if codec == Codec.LZ4:
            lz4_frames.check_frame(stream)
        return memoryview(decompress(codec, stream, inflate_max=allowance.inflate_max))
    except InflatesTooFar as damage:
        if not allowance.is_last:
            raise TakesLong from None
        # A client that hears this may split the batch and succeed.
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(damage)) from None
    except TooManyBlocks as damage:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(damage)) from None
    except CorruptBatch as damage:
        # The CRC has matched before, so this is how the producer made it.
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"no consumer could read the batch: {damage}") from None


def _packed(codec: Codec, records: memoryview, allowance: Allowance, size_max: int) -> Buffer:
    if codec is not Codec.NONE and len(records) > allowance.stream_max and not allowance.is_last:
        raise TakesLong
    packed = compress(codec, records, allowance.pause)
    if HEADER_SIZE + len(packed) > size_max:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"in the topic's compression.type={codec.name.lower()} the batch has {HEADER_SIZE + len(packed)} bytes; "
            f"max.message.bytes={size_max}",
        )
    return packed
