"""Rows become record batches that every check of a broker lets through, and that hold what the rows held."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.batches.examination import Allowance, Demands, examine
from headrace.wire.batches.header import HEADER_SIZE, Codec, crc_matches, place, read_header
from headrace.wire.batches.records import decode_records
from headrace.wire.batches.validation import check_batch
from headrace_spark.codec.columns import HEADERS_TYPE, TIMESTAMP_TYPE
from headrace_spark.codec.encoder import EncodedBatch, encode, patch_producer
from tests.unit.spark.record_rows import Headers, Row, decoded

NOW_MS = 1_700_000_000_000
INFLATE_MAX = 1 << 24
BATCH_BYTES = 16_384

NewRow = tuple[int | None, bytes | None, bytes | None, Headers]

maybe_bytes = st.none() | st.binary(max_size=300)
some_headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=4).map(tuple)
new_rows = st.lists(st.tuples(st.none() | st.integers(-1, 2**46), maybe_bytes, maybe_bytes, some_headers), max_size=80)


def table_of(rows: list[NewRow]) -> pa.RecordBatch:
    times, keys, values, headers = zip(*rows, strict=True) if rows else ((), (), (), ())
    lists = [[{"key": name, "value": value} for name, value in each] or None for each in headers]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(lists, HEADERS_TYPE),
            "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
        }
    )


def encoded(
    rows: pa.RecordBatch | pa.Table, batch_bytes_max: int = BATCH_BYTES, codec: Codec = Codec.NONE
) -> list[EncodedBatch]:
    batches = list(encode(rows, codec=codec, batch_bytes_max=batch_bytes_max, now_ms=NOW_MS))
    for batch in batches:
        refuse_unless_sound(batch)
    return batches


def refuse_unless_sound(batch: EncodedBatch) -> None:
    """What a broker looks at, and more."""
    view = memoryview(batch.records)
    header = read_header(view)
    check_batch(view, header, len(view))
    examined = examine(view, header, Demands(), Allowance(1 << 30, 1 << 30, INFLATE_MAX, 1000, lambda: None))
    assert examined.newest_ms == header.max_timestamp
    times = [record.timestamp for record in decode_records(view, inflate_max=INFLATE_MAX)]
    assert (header.base_timestamp, header.max_timestamp) == (times[0], max(times))
    assert header.record_count == batch.count
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def as_answer(batches: list[EncodedBatch]) -> bytes:
    """The batches as a log would keep them: one after the other, each with the offsets that are next."""
    answer, offset = b"", 0
    for batch in batches:
        place(batch.records, read_header(batch.records), offset, 0)
        answer += batch.records
        offset += batch.count
    return answer


def rows_back(batches: list[EncodedBatch]) -> list[NewRow]:
    records = [record for batch in batches for record in decode_records(batch.records, inflate_max=INFLATE_MAX)]
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


def stamped(rows: list[NewRow]) -> list[NewRow]:
    return [(NOW_MS if time is None else time, *rest) for time, *rest in rows]  # type: ignore[misc]


@settings(max_examples=60, deadline=None)
@given(new_rows, st.sampled_from(Codec), st.sampled_from([200, 700, 3000, 10**6]), st.booleans())
def test_rows_survive_the_way_out_and_back(
    rows: list[NewRow], codec: Codec, batch_bytes_max: int, is_sliced: bool
) -> None:
    table = table_of(rows)
    if is_sliced:
        table, rows = table[len(rows) // 3 :], rows[len(rows) // 3 :]
    batches = encoded(table, batch_bytes_max, codec)
    assert rows_back(batches) == stamped(rows)
    expected = [Row(offset, row[0] or 0, 0, *row[1:]) for offset, row in enumerate(stamped(rows))]
    assert decoded(as_answer(batches)) == expected


def test_a_batch_is_no_larger_than_asked_and_not_much_smaller() -> None:
    rows: list[NewRow] = [(NOW_MS + number, b"key", bytes(number % 300), ()) for number in range(3000)]
    sizes = [len(batch.records) for batch in encoded(table_of(rows))]
    assert max(sizes) <= BATCH_BYTES
    assert min(sizes[:-1]) > BATCH_BYTES * 0.9


def test_times_apart_from_the_first_are_allowed_for_in_the_size() -> None:
    rows: list[NewRow] = [(64 if number else 0, None, b"", ()) for number in range(60_000)]  # 64: two bytes, -64: one
    sizes = [
        len(batch.records) for batch in encode(table_of(rows), codec=Codec.NONE, batch_bytes_max=400_000, now_ms=0)
    ]
    assert max(sizes) <= 400_000


def test_a_row_that_is_too_large_travels_alone() -> None:
    rows: list[NewRow] = [
        (0, None, bytes(size), ()) for size in (10, 10, BATCH_BYTES, 10, BATCH_BYTES + 1, 2 * BATCH_BYTES)
    ]
    batches = encoded(table_of(rows))
    assert [batch.count for batch in batches] == [2, 1, 1, 1, 1]
    assert rows_back(batches) == rows


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 40_000])
def test_any_number_of_rows_in_one_batch(count: int) -> None:
    rows: list[NewRow] = [(NOW_MS + number * 7, None, b"v", ()) for number in range(count)]
    (batch,) = encoded(table_of(rows), 1 << 24)
    assert rows_back([batch]) == rows


@pytest.mark.parametrize(
    "size", [0, 1, 50, 56, 57, 58, 63, 64, 8170, 8180, 8191, 8192, 1_048_570, 1_048_576, 1_100_000]
)
def test_lengths_of_every_width(size: int) -> None:
    rows: list[NewRow] = [(0, bytes(size), bytes(size // 2), (("h", bytes(size)),)), (0, None, b"after", ())]
    assert rows_back(encoded(table_of(rows), 1 << 24)) == rows


def test_missing_columns_are_null() -> None:
    assert rows_back(encoded(pa.record_batch({"value": pa.array([b"v"])}))) == [(NOW_MS, None, b"v", ())]
    assert rows_back(encoded(pa.record_batch({"key": pa.array([b"k"])}))) == [(NOW_MS, b"k", None, ())]
    assert rows_back(encoded(pa.record_batch({"other": pa.array([1, 2])}))) == [(NOW_MS, None, None, ())] * 2


def test_no_rows_make_no_batch() -> None:
    assert encoded(table_of([])) == []
    assert encoded(pa.table({"value": pa.chunked_array([], pa.binary())})) == []


def test_small_chunks_of_a_table_come_together() -> None:
    chunks = [table_of([(NOW_MS, None, str(number).encode(), ())]) for number in range(50)]
    (batch,) = encoded(pa.Table.from_batches(chunks))
    assert batch.count == 50


def test_text_is_taken_as_its_bytes() -> None:
    for kind in (pa.string(), pa.large_string(), pa.large_binary()):
        rows = pa.record_batch({"key": pa.array(["clé"]).cast(kind), "value": pa.array([None], kind)})
        assert rows_back(encoded(rows)) == [(NOW_MS, "clé".encode(), None, ())]


@pytest.mark.parametrize(
    ("kind", "tick", "expected_ms"),
    [
        (TIMESTAMP_TYPE, 1_234_567, 1234),
        (TIMESTAMP_TYPE, -1, -1),
        (pa.timestamp("s"), 7, 7000),
        (pa.timestamp("ms"), 7, 7),
        (pa.timestamp("ns"), 7_999_999, 7),
        (pa.int64(), 7, 7),
    ],
    ids=str,
)
def test_times_of_every_unit(kind: pa.DataType, tick: int, expected_ms: int) -> None:
    times = pa.array([tick, None], pa.int64()).cast(kind)
    rows = pa.record_batch({"value": pa.array([b"", b""]), "timestamp": times})
    assert [row[0] for row in rows_back(encoded(rows))] == [expected_ms, NOW_MS]


def test_times_as_spark_hands_them_over() -> None:
    at = datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=UTC)
    rows = pa.record_batch({"value": pa.array([b""]), "timestamp": pa.array([at], TIMESTAMP_TYPE)})
    assert rows_back(encoded(rows))[0][0] == 1_709_209_815_123


def test_empty_and_absent_headers() -> None:
    headers = pa.array([None, [], [{"key": "", "value": None}], [{"key": "a", "value": b""}] * 70], HEADERS_TYPE)
    back = rows_back(encoded(pa.record_batch({"value": pa.array([b""] * 4), "headers": headers})))
    assert [row[3] for row in back] == [(), (), (("", None),), (("a", b""),) * 70]


def test_a_header_without_a_key_is_refused() -> None:
    headers = pa.array([None, [{"key": "a", "value": b""}, {"key": None, "value": b""}]], HEADERS_TYPE)
    with pytest.raises(ValueError, match="row 1 has a header without a key"):
        encoded(pa.record_batch({"headers": headers}))


def test_times_too_far_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="further apart"):
        encoded(pa.record_batch({"timestamp": pa.array([-(2**62), 2**62 + 1], pa.int64())}))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("is_view", [False, True])
def test_a_producer_is_patched_in_without_opening_the_batch(codec: Codec, is_view: bool) -> None:
    (batch,) = encoded(table_of([(NOW_MS, b"k", b"value" * 20, (("h", b"x"),))] * 30), codec=codec)
    untouched = bytes(batch.records)
    identity: dict[str, Any] = {"producer_id": 2**40, "epoch": 7, "base_sequence": 2**31 - 5}
    patch_producer(memoryview(batch.records) if is_view else batch.records, **identity, is_transactional=True)
    header = read_header(batch.records)
    assert crc_matches(memoryview(batch.records), header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 7, 2**31 - 5)
    assert (header.is_transactional, header.codec) == (True, codec)
    assert batch.records[HEADER_SIZE:] == untouched[HEADER_SIZE:]
    patch_producer(batch.records, producer_id=-1, epoch=-1, base_sequence=-1, is_transactional=False)
    assert bytes(batch.records) == untouched
