"""What the decoder of record batches makes of an answer: its columns, its range, and what it passes over."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.wire.batches.header import HEADER, Codec, place, read_header, seal
from headrace.wire.batches.markers import Marker, encode_marker
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.fetch import AbortedTransaction
from headrace_spark.codec import decoder as decoder_module
from headrace_spark.codec import open_batches
from headrace_spark.codec import record_starts as walk
from headrace_spark.codec.columns import SCHEMA, SCHEMA_WITH_HEADERS, Columns, schema_for
from headrace_spark.codec.decoder import RangeDecoder
from tests.unit.spark.record_rows import ALL, EVERYTHING, PARTITION, TOPIC, Row, decoded, expected

START_MS = 1_700_000_000_000


def batch_of(values: list[bytes | None], base_offset: int = 0, **options: Any) -> bytearray:
    return encode_batch(
        [(START_MS + n, None, value, ()) for n, value in enumerate(values)], base_offset=base_offset, **options
    )


def numbered(first: int, count: int, **options: Any) -> bytearray:
    return batch_of([str(number).encode() for number in range(first, first + count)], first, **options)


def decoder_for(start: int, end: int, columns: Columns = ALL) -> RangeDecoder:
    return RangeDecoder(TOPIC, PARTITION, start, end, columns, read_committed=True)


def test_columns_are_those_of_the_official_connector() -> None:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    types = [pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.int32()]
    assert schema_for(Columns()).names == names
    assert schema_for(Columns()).types == types
    headers = schema_for(ALL).field("headers")
    assert str(headers.type) == "list<element: struct<key: string, value: binary>>"


@pytest.mark.parametrize("columns", [Columns(), ALL, Columns(key=False), Columns(value=False), Columns(False, False)])
def test_only_the_wanted_columns_are_there(columns: Columns) -> None:
    (batch,) = decoder_for(0, 3, columns).decode(numbered(0, 3))
    assert batch.schema == schema_for(columns)
    assert batch.column("topic").to_pylist() == [TOPIC] * 3
    assert batch.column("partition").to_pylist() == [PARTITION] * 3


def test_the_default_schemas() -> None:
    assert schema_for(Columns()) == SCHEMA
    assert schema_for(ALL) == SCHEMA_WITH_HEADERS


def test_null_is_not_empty() -> None:
    records = [
        (START_MS, None, b"", ()),
        (START_MS, b"", None, ()),
        (START_MS, b"k", b"v", (("a", None), ("a", b""), ("é", b"x"))),
        (START_MS, None, None, ()),
    ]
    assert decoded(encode_batch(records)) == [
        Row(0, START_MS, 0, None, b"", ()),
        Row(1, START_MS, 0, b"", None, ()),
        Row(2, START_MS, 0, b"k", b"v", (("a", None), ("a", b""), ("é", b"x"))),
        Row(3, START_MS, 0, None, None, ()),
    ]


def test_a_record_without_headers_has_null_for_them_as_in_the_official_connector() -> None:
    batch = encode_batch([(0, None, b"", ()), (0, None, b"", (("a", b""),))])
    (rows,) = decoder_for(0, 2).decode(batch)
    assert rows.column("headers").to_pylist() == [None, [{"key": "a", "value": b""}]]


def test_a_header_key_that_is_no_text_reads_as_java_reads_it() -> None:
    (rows,) = decoder_for(0, 1).decode(encode_batch([(0, None, b"", (("\udcff!", b""),))]))
    assert rows.column("headers").to_pylist() == [[{"key": "\ufffd!", "value": b""}]]


def test_a_record_with_very_many_headers_among_plain_ones() -> None:
    many = tuple((f"name-{number}", None if number % 3 else bytes(number % 50)) for number in range(500))
    records = [(0, None, b"v", many if number == 40 else (("one", b"1"),)) for number in range(80)]
    batch = encode_batch(records)
    assert decoded(batch) == expected(batch)


def test_times_before_the_epoch_and_out_of_order() -> None:
    times = [0, -1, -86_400_000, START_MS, START_MS - 7, 12]
    batch = encode_batch([(time, None, b"v", ()) for time in times])
    assert [row.timestamp_ms for row in decoded(batch)] == times


def test_log_append_time_is_the_time_of_the_batch() -> None:
    answer = numbered(0, 2) + numbered(2, 2, log_append_time=START_MS + 99)
    times = [(row.timestamp_type, row.timestamp_ms) for row in decoded(answer)]
    assert times == [(0, START_MS), (0, START_MS + 1), (1, START_MS + 99), (1, START_MS + 99)]


def test_a_time_that_has_no_microseconds_is_null() -> None:
    records = [(START_MS, None, b"", ()), (START_MS * 1_000_000, None, b"", ())]  # nanoseconds, by mistake
    (rows,) = decoder_for(0, 2).decode(encode_batch(records))
    assert rows.column("timestamp").is_null().to_pylist() == [False, True]


@pytest.mark.parametrize(("start", "end"), [(0, 10), (3, 10), (4, 5), (0, 1), (9, 10), (3, 7), (5, 5)])
def test_only_records_of_the_range(start: int, end: int) -> None:
    answer = numbered(0, 4) + numbered(4, 1) + numbered(5, 5)
    assert [row.offset for row in decoded(answer, start=start, end=end)] == list(range(start, end))


def test_the_next_offset_passes_over_gaps() -> None:
    decoder = decoder_for(0, 100)
    assert [len(rows) for rows in decoder.decode(numbered(10, 2) + numbered(50, 3))] == [5]
    assert (decoder.next_offset, decoder.is_done) == (53, False)
    assert list(decoder.decode(numbered(200, 3))) == []
    assert (decoder.next_offset, decoder.is_done) == (100, True)


def test_a_batch_that_compaction_emptied_is_passed_over() -> None:
    emptied = bytearray(numbered(5, 1)[: HEADER.size])
    header = read_header(emptied)._replace(length=HEADER.size - 12, record_count=0, last_offset_delta=6)
    HEADER.pack_into(emptied, 0, *header)
    seal(emptied)
    decoder = decoder_for(0, 100)
    (rows,) = decoder.decode(numbered(0, 5) + emptied + numbered(12, 1))
    assert rows.column("offset").to_pylist() == [0, 1, 2, 3, 4, 12]
    alone = decoder_for(5, 100)
    assert list(alone.decode(emptied)) == []
    assert alone.next_offset == 12


def test_offsets_that_compaction_left_out_inside_a_batch() -> None:
    records = [(START_MS, None, str(n).encode(), ()) for n in range(3)]
    batch = encode_batch(records, base_offset=100)
    header = read_header(batch)._replace(last_offset_delta=40)
    HEADER.pack_into(batch, 0, *header)
    batch[-5] = 2 * 33  # the last record's offset delta; key length, value length, value and header count follow it
    seal(batch)
    decoder = decoder_for(0, 1000)
    (rows,) = decoder.decode(batch)
    assert rows.column("offset").to_pylist() == [100, 101, 133]
    assert decoder.next_offset == 141


def test_a_batch_cut_short_at_the_end_is_left_for_the_next_fetch() -> None:
    first, second = numbered(0, 5), numbered(5, 5)
    for kept in (0, 1, HEADER.size - 1, HEADER.size, len(second) - 1):
        decoder = decoder_for(0, 10)
        (rows,) = decoder.decode(first + second[:kept])
        assert (len(rows), decoder.next_offset) == (5, 5)


def test_nothing_at_all() -> None:
    decoder = decoder_for(7, 10)
    assert list(decoder.decode(b"")) == []
    assert decoder.next_offset == 7


def test_batches_already_passed_are_not_opened_again() -> None:
    passed = numbered(0, 5)
    passed[-1] ^= 1  # a second look would find the damage
    assert [row.offset for row in decoded(passed + numbered(5, 2), start=5)] == [5, 6]


def test_what_lies_behind_the_end_is_not_opened() -> None:
    behind = numbered(5, 5)
    behind[-1] ^= 1
    assert len(decoded(numbered(0, 5) + behind, end=5)) == 5


def test_batches_of_one_record_come_together() -> None:
    answer = b"".join(bytes(numbered(offset, 1)) for offset in range(1000))
    (rows,) = decoder_for(0, 1000).decode(answer)
    assert rows.column("value").to_pylist() == [str(number).encode() for number in range(1000)]


def test_many_batches_are_handed_out_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_batches, "ROWS_TOGETHER", 10)
    decoder = decoder_for(0, 1000)
    answer = b"".join(bytes(numbered(offset, 3)) for offset in range(0, 60, 3))
    places = [(len(rows), decoder.next_offset) for rows in decoder.decode(answer)]
    assert places == [(12, 12), (12, 24), (12, 36), (12, 48), (12, 60)]


def test_a_batch_of_very_many_records_is_handed_out_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "ROWS_MAX", 10)
    for count, sizes in ((9, [9]), (10, [10]), (11, [10, 1]), (20, [10, 10]), (25, [10, 10, 5])):
        decoder = decoder_for(3, 1000)
        places = [
            (rows.column("offset").to_pylist(), decoder.next_offset) for rows in decoder.decode(numbered(0, 3 + count))
        ]
        assert [len(offsets) for offsets, _ in places] == sizes
        assert all(offsets[-1] + 1 == next_offset for offsets, next_offset in places)
        assert [offset for offsets, _ in places for offset in offsets] == list(range(3, 3 + count))


def test_a_column_never_spans_more_than_arrow_can_count(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = numbered(0, 3)
    monkeypatch.setattr(open_batches, "SPAN_MAX", 2 * len(batch))
    answer = batch + numbered(3, 3) + numbered(6, 3)
    assert [len(rows) for rows in decoder_for(0, 9).decode(answer)] == [6, 3]


@pytest.mark.parametrize("size_step", [0, 1])
@pytest.mark.parametrize("count", [1, 2, walk.PROBE - 1, walk.PROBE, 63, 64, 65, 300, 9000])
def test_any_number_of_records_of_one_size_or_of_many(count: int, size_step: int) -> None:
    batch = batch_of([bytes(40 + size_step * (number % 97)) for number in range(count)])
    assert decoded(batch) == expected(batch)


@pytest.mark.parametrize("size", [0, 1, 56, 57, 58, 63, 64, 8180, 8192, 70_000, 1_100_000])
def test_lengths_of_every_width(size: int) -> None:
    batch = encode_batch([(0, bytes(size % 9000), bytes(size), ()), (0, None, b"after", ())])
    assert decoded(batch) == expected(batch)


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_different_codecs_in_one_answer(codec: Codec) -> None:
    answer = numbered(0, 3, codec=codec) + numbered(3, 3) + numbered(6, 200, codec=codec) + numbered(206, 1)
    assert decoded(answer) == expected(answer)
    assert len(decoded(answer, start=2, end=206)) == 204


def test_aborted_transactions_are_seen_only_by_those_who_ask_for_everything() -> None:
    transactional = {"is_transactional": True, "producer_epoch": 0, "base_sequence": 0}
    answer = (
        numbered(0, 2, producer_id=1, **transactional)
        + numbered(2, 2, producer_id=2, **transactional)
        + marker(4, producer_id=1, committed=False)
        + numbered(5, 1)
        + marker(6, producer_id=2, committed=True)
        + numbered(7, 2, producer_id=1, **transactional)  # another transaction of the same producer
        + marker(9, producer_id=1, committed=True)
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    assert [row.offset for row in decoded(answer, aborted=aborted)] == [2, 3, 5, 7, 8]
    everything = decoded(answer, aborted=aborted, read_committed=False)
    assert [row.offset for row in everything] == [0, 1, 2, 3, 5, 7, 8]


def test_an_answer_of_nothing_but_markers_moves_on() -> None:
    decoder = decoder_for(4, EVERYTHING)
    assert list(decoder.decode(marker(4, producer_id=1, committed=False))) == []
    assert decoder.next_offset == 5


def marker(offset: int, *, producer_id: int, committed: bool) -> bytearray:
    batch = encode_marker(producer_id, 0, Marker(is_commit=committed, coordinator_epoch=0), START_MS)
    place(batch, read_header(batch), offset, 0)
    return batch
