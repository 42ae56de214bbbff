"""Any records survive the way through a batch; any damage to one is told as such."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Refusal
from headrace.wire.batches.compression import compress, decompress
from headrace.wire.batches.examination import Allowance, Demands, examine
from headrace.wire.batches.header import (
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    Codec,
    CorruptBatch,
    place,
    read_header,
    seal,
)
from headrace.wire.batches.records import (
    BatchBuilder,
    Record,
    decode_records,
    encode_batch,
    keys_and_values,
    record_size_max,
)
from headrace.wire.batches.validation import check_batch
from headrace.wire.batches.varints import VARLONG_BYTES_MAX, encode_varint, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

PLENTY = Allowance(1 << 30, 1 << 30, 1 << 20, 100, lambda: None, is_last=True)
INFLATE_MAX = 1 << 18

maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=4).map(tuple)
records = st.lists(
    st.builds(Record, st.just(0), st.integers(-1, 2**61), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=20
)
codecs = st.sampled_from(Codec)


def batch_of(records: Iterable[Record], **options: Any) -> bytearray:
    return encode_batch([record[1:] for record in records], **options)


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    """A batch with bytes changed, removed or added; usually with a right length and CRC, so that the damage is read."""
    codec = draw(codecs)
    plain = batch_of(draw(records))
    body = bytearray(plain[HEADER_SIZE:])
    if draw(st.booleans()):
        _damage(draw, body)  # before compression: a sound stream of unsound records
        body = bytearray(compress(codec, body))
    else:
        body = bytearray(compress(codec, body))
        _damage(draw, body)
    batch = bytearray(HEADER_SIZE) + body
    header = read_header(plain)._replace(length=len(batch) - LENGTH_OVERHEAD, attributes=int(codec))
    HEADER.pack_into(batch, 0, *header)
    if draw(st.integers(0, 3)) == 0:
        _damage(draw, batch)
    if len(batch) >= HEADER_SIZE and draw(st.integers(0, 9)):
        seal(batch)
    return bytes(batch)


def _damage(draw: st.DrawFn, target: bytearray) -> None:
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(0, len(target) - 1)))
        removed = draw(st.integers(0, 4))
        target[position : position + removed] = draw(st.binary(min_size=0, max_size=4))


@given(records, codecs, st.integers(0, 2**40))
def test_records_survive_a_batch(written: list[Record], codec: Codec, base_offset: int) -> None:
    batch = batch_of(written, codec=codec, base_offset=base_offset)
    read = list(decode_records(batch, inflate_max=INFLATE_MAX))
    assert read == [record._replace(offset=base_offset + index) for index, record in enumerate(written)]
    pairs = list(keys_and_values(batch, inflate_max=INFLATE_MAX))
    assert pairs == [(record.key, record.value) for record in written]
    view = memoryview(batch)
    place(view, read_header(view), 0, -1)  # as a producer sends it
    check_batch(view, read_header(view), len(view))
    examined = examine(view, read_header(view), Demands(), PLENTY)
    times = [record.timestamp for record in written]
    assert (examined.oldest_ms, examined.newest_ms) == (min(times), max(times))


@given(records)
def test_a_record_never_takes_more_than_its_bound(written: list[Record]) -> None:
    builder = BatchBuilder()
    size = builder.size
    for record in written:
        bound = size + record_size_max(record.key, record.value, record.headers)
        size = builder.append(record.timestamp, record.key, record.value, record.headers)
        assert size <= bound


@given(damaged_batches())
def test_damage_is_told_as_damage(batch: bytes) -> None:
    with suppress(CorruptBatch):
        for _ in decode_records(batch, inflate_max=INFLATE_MAX):
            pass
    with suppress(CorruptBatch):
        list(keys_and_values(batch, inflate_max=INFLATE_MAX))


@given(damaged_batches(), st.none() | codecs, st.booleans(), st.booleans())
def test_a_producer_hears_of_damage_only_by_refusal(
    batch: bytes, target: Codec | None, needs_keys: bool, trusts_compressed: bool
) -> None:
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        return  # refused before anything is read
    with suppress(Refusal):
        header = read_header(view)
        check_batch(view, header, len(view))
        examine(view, header, Demands(needs_keys, target, trusts_compressed), PLENTY)


@given(damaged_batches())
def test_what_a_producer_may_send_can_be_read(batch: bytes) -> None:
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        return
    with suppress(Refusal):
        header = read_header(view)
        check_batch(view, header, len(view))
        examined = examine(view, header, Demands(), PLENTY)
        read = list(decode_records(view, inflate_max=INFLATE_MAX))
        assert [record.offset - header.base_offset for record in read] == list(range(header.record_count))
        assert examined.newest_ms == max(record.timestamp for record in read)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_batch_or_damage(anything: bytes) -> None:
    with suppress(CorruptBatch):
        list(decode_records(anything, inflate_max=INFLATE_MAX))


@given(codecs, st.binary(max_size=300), st.integers(0, 1000))
def test_any_bytes_inflate_within_the_ceiling_or_are_damage(codec: Codec, stream: bytes, inflate_max: int) -> None:
    with suppress(CorruptBatch):
        inflated = decompress(codec, stream, inflate_max=inflate_max)
        assert codec is Codec.NONE or len(inflated) <= inflate_max


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_varints_survive_between_other_bytes(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    read, end = read_varint(before + encoded + after, len(before), VARLONG_BYTES_MAX)
    assert (read, end) == (value, len(before) + len(encoded))
