"""Any answer gives the rows that the house's own decoder, which goes record by record, reads of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import encode_batch
from headrace_spark.codec.decoder import RangeDecoder
from tests.unit.spark.record_rows import ALL, PARTITION, TOPIC, decoded, expected, rows_of

maybe_bytes = st.none() | st.binary(max_size=100) | st.integers(0, 9000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=6), maybe_bytes), max_size=3).map(tuple)
records = st.lists(st.tuples(st.integers(-(2**40), 2**46), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=12)
alike = st.builds(
    lambda record, count: [record] * count,
    st.tuples(st.integers(0, 2**46), maybe_bytes, maybe_bytes, headers),
    st.integers(1, 150),
)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Batches one after the other, as a log has them; sometimes with offsets missing in between."""
    answer, next_offset = b"", draw(st.integers(0, 2**40))
    for batch_records in draw(st.lists(records | alike, min_size=1, max_size=6)):
        next_offset += draw(st.sampled_from([0, 0, 0, 1, 1000]))
        answer += encode_batch(
            batch_records,
            base_offset=next_offset,
            codec=draw(st.sampled_from(Codec)),
            log_append_time=draw(st.none() | st.integers(0, 2**46)),
        )
        next_offset += len(batch_records)
    return answer


@settings(max_examples=50, deadline=None)
@given(answers())
def test_any_answer_gives_the_rows_in_it(answer: bytes) -> None:
    assert decoded(answer) == expected(answer)


@settings(max_examples=40, deadline=None)
@given(answers(), st.integers(-3, 40), st.integers(0, 60), st.integers(0, 500))
def test_any_range_of_any_answer_even_cut_short(answer: bytes, skipped: int, count: int, cut: int) -> None:
    rows = expected(answer)
    start = max(0, rows[0].offset + skipped)
    end = start + count
    decoder = RangeDecoder(TOPIC, PARTITION, start, end, ALL, read_committed=True)
    seen = []
    for kept in (answer[: max(0, len(answer) - cut)], answer):  # what was cut off comes again
        seen += [row for batch in decoder.decode(kept) for row in rows_of(batch)]
    assert seen == [row for row in rows if start <= row.offset < end]
    assert decoder.is_done or decoder.next_offset > rows[-1].offset
