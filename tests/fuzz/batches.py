"""Record batches: as clients send them, as they are checked, read, compacted and loaded; and what codecs unfold.

An input is one of these, as its first byte says: a batch as it is; a batch whose length and CRC are made right, so that
what lies behind them is looked at; records, around which a batch is put; a stream for a codec.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from headrace.model.errors import Refusal
from headrace.wire.batches.compression import compress, decompress
from headrace.wire.batches.examination import Allowance, Demands, Examined, examine
from headrace.wire.batches.header import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Codec,
    CorruptBatch,
    crc_matches,
    read_header,
    repack,
    restamp,
    seal,
)
from headrace.wire.batches.markers import Marker, decode_marker, encode_marker
from headrace.wire.batches.records import Record, decode_records, encode_batch, keys_and_values, open_batch
from headrace.wire.batches.trimming import empty_batch, keys_of, records_of, trim_batch
from headrace.wire.batches.validation import check_batch
from headrace.wire.walk import plain_times
from tests.fuzz.harness import Target
from tests.unit.wire.walk_forms import compiled, interpreted

if TYPE_CHECKING:
    from collections.abc import Iterator

AS_IT_IS, MENDED, RECORDS, STREAM = range(4)
INFLATE_MAX: Final = 1 << 20
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
NOW_MS: Final = 1_700_000_000_000
PLENTY: Final = Allowance(1 << 30, 1 << 30, INFLATE_MAX, 100, lambda: None, is_last=True)


def play(data: bytes) -> None:
    if len(data) < 3:
        return
    kind, choice, body = data[0] % 4, data[1], data[2:]
    if kind == STREAM:
        play_stream(choice, body)
    else:
        play_batch(_batch(kind, choice, body))


def _batch(kind: int, choice: int, body: bytes) -> bytearray:
    if kind == RECORDS:
        head = (0, 0, 0, MAGIC, 0, choice % 5, choice // 16, 0, choice % 2, -1, -1, -1, 1 + choice // 16)
        batch = bytearray(HEADER.pack(*head)) + compress(Codec(choice % 5), body)
    else:
        batch = bytearray(body)
    if kind != AS_IT_IS and len(batch) >= HEADER_SIZE:
        struct.pack_into(">i", batch, 8, len(batch) - LENGTH_OVERHEAD)
        batch[16] = MAGIC
        seal(batch)
    return batch


def play_stream(codec: int, stream: bytes) -> None:
    try:
        unfolded = decompress(codec % 8, stream, inflate_max=INFLATE_MAX)
    except CorruptBatch:
        return
    assert len(unfolded) <= INFLATE_MAX
    again = compress(Codec(codec % 8), unfolded)
    assert bytes(decompress(codec % 8, again, inflate_max=INFLATE_MAX)) == bytes(unfolded)


def play_batch(batch: bytearray) -> None:
    if len(batch) < HEADER_SIZE:
        try:
            open_batch(batch, inflate_max=INFLATE_MAX)
        except CorruptBatch:
            return
        raise AssertionError("a batch without a header was opened")
    header = read_header(batch)
    found = read(batch)
    agree(batch, found)
    admit(batch, header, found)
    if found is not None:
        write_again(batch, header, found)
        trim(batch, header, found)
    if header.is_control:
        with suppress(CorruptBatch):
            decode_marker(batch)


def read(batch: bytearray) -> list[Record] | None:
    """All records; None if one of them is damaged."""
    try:
        return list(decode_records(batch, inflate_max=INFLATE_MAX))
    except CorruptBatch:
        return None


def agree(batch: bytearray, found: list[Record] | None) -> None:
    """The three walks see the same records, wherever the strictest of them sees any."""
    try:
        pairs = list(keys_and_values(batch, inflate_max=INFLATE_MAX))
    except CorruptBatch:
        assert found is None, "one who loads a log cannot read what a consumer can"
    else:
        assert found is None or pairs == [(record.key, record.value) for record in found]
    header = read_header(batch)
    try:
        open_batch(batch, inflate_max=INFLATE_MAX)  # which compaction leaves to the scrub
        keys = list(keys_of(header, records_of(memoryview(batch), header, inflate_max=INFLATE_MAX)))
    except CorruptBatch:
        assert found is None, "compaction cannot read what a consumer can"
    else:
        expected = [] if found is None else [(one.offset, one.key, one.value is None) for one in found]
        assert found is None or keys == expected


def admit(batch: bytearray, header: BatchHeader, found: list[Record] | None) -> None:
    """As a node does with a client's batch; what it takes it can read afterwards, whatever it does to it."""
    view = memoryview(batch)
    forms_agree(view, header)
    plain = plain_times(bytes(batch), 0, len(batch), 1000) if crc_matches(view, header) else None
    try:
        check_batch(view, header, len(batch))
        examined = examine(view, header, Demands(), PLENTY)
    except Refusal:
        assert plain is None, "the short way takes what the general one refuses"
        return
    assert plain in (None, (examined.oldest_ms, examined.newest_ms))
    assert found is not None, "records that nobody can read were found to be sound"
    assert [one.offset for one in found] == list(range(header.record_count))
    assert (examined.oldest_ms, examined.newest_ms) == times_of(header, found)
    for codec in Codec:
        again = read(changed(view, header, examine(view, header, Demands(codec=codec), PLENTY), codec))
        assert again is not None, "what was sound cannot be read after it was written anew"
        assert [one[2:] for one in again] == [one[2:] for one in found]


def changed(view: memoryview, header: BatchHeader, examined: Examined, codec: Codec) -> bytearray:
    batch = view if examined.repacked is None else repack(header, codec, examined.repacked)[0]
    copy = bytearray(batch)
    restamp(copy, read_header(copy).attributes | TIMESTAMP_TYPE_BIT, NOW_MS)
    return copy


def times_of(header: BatchHeader, found: list[Record]) -> tuple[int, int]:
    if header.is_log_append_time:
        return header.max_timestamp, header.max_timestamp
    return min(one.timestamp for one in found), max(one.timestamp for one in found)


def forms_agree(view: memoryview, header: BatchHeader) -> None:
    """Compiled and interpreted, the walk over plain records says the same."""
    if compiled.module is not None and not header.codec and 0 < header.record_count < 1000:
        assert walked(compiled.module, view, header.record_count) == walked(
            interpreted.module, view, header.record_count
        )


def walked(form: Any, view: memoryview, count: int) -> object:
    walk = form.RecordWalk(view, HEADER_SIZE, len(view), lambda: None, 100)
    try:
        walk.run(count)
    except form.BadRecord as bad:
        return str(bad)
    return walk.oldest_delta, walk.newest_delta, walk.keyless, walk.steps


def write_again(batch: bytearray, header: BatchHeader, found: list[Record]) -> None:
    if not found or header.record_count != header.last_offset_delta + 1 or header.is_log_append_time:
        return
    anew = encode_batch([one[1:] for one in found], base_offset=header.base_offset, codec=Codec(header.codec))
    again = read(anew)
    assert again is not None
    if [one.offset for one in found] == list(range(header.base_offset, header.base_offset + len(found))):
        assert again == found


def trim(batch: bytearray, header: BatchHeader, found: list[Record]) -> None:
    """Every other record stays, with and without a time after which tombstones go."""
    body = records_of(memoryview(batch), header, inflate_max=INFLATE_MAX)
    assert read(empty_batch(header)) == []
    kept = [number % 2 ^ 1 for number in range(len(found))]
    if not found or header.codec > max(Codec):
        return
    for horizon_ms in (None, NOW_MS):
        trimmed = trim_batch(header, body, kept, delete_horizon_ms=horizon_ms)
        again = read(trimmed)
        assert again is not None, "what compaction leaves cannot be read"
        expected = [one for one, is_kept in zip(found, kept, strict=True) if is_kept]
        assert [(one.offset, *one[2:]) for one in again] == [(one.offset, *one[2:]) for one in expected]


def seeds() -> Iterator[bytes]:
    headers = (("h", b"v"), ("n", None))
    plain = [(NOW_MS, None, b"value", ()), (NOW_MS + 1, b"key", None, headers), (NOW_MS, b"", b"", ())]
    for codec in Codec:
        batch = bytes(encode_batch(plain, base_offset=5, codec=codec))
        for kind in (AS_IT_IS, MENDED):
            yield bytes([kind, 0]) + batch
        yield bytes([STREAM, codec]) + bytes(compress(codec, b"abc" * 50))
        yield bytes([RECORDS, codec + 2 * 16]) + bytes(encode_batch(plain)[HEADER_SIZE:])
    yield bytes([MENDED, 0]) + bytes(
        encode_batch(plain, producer_id=7, producer_epoch=1, base_sequence=3, is_transactional=True)
    )
    yield bytes([MENDED, 0]) + bytes(encode_marker(7, 1, Marker(True, 3), NOW_MS))


TARGET: Final = Target("batches", play, seeds, share=2.0)
