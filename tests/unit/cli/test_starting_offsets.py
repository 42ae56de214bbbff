from __future__ import annotations

import pytest

from headrace.cli.messages.starting_offsets import BeforeEnd, OffsetSpec, parse_offset_spec, start_offset
from headrace.client.reading.consumer import AtTime
from headrace.client.reading.offsets import Edge


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Edge.EARLIEST),
        ("latest", Edge.LATEST),
        ("0", 0),
        ("99999999999", 99_999_999_999),
        ("100000000000", AtTime(100_000_000_000)),
        ("1700000000000", AtTime(1_700_000_000_000)),
        ("@5", AtTime(5)),
        ("9223372036854775807", AtTime(2**63 - 1)),
        ("-10", BeforeEnd(10)),
        ("2023-11-14T22:13:20Z", AtTime(1_700_000_000_000)),
        ("2023-11-14", AtTime(1_699_920_000_000)),
        ("2023-11-14 22:13:20+00:00", AtTime(1_700_000_000_000)),
    ],
)
def test_places(text: str, expected: OffsetSpec) -> None:
    assert parse_offset_spec(text) == expected


@pytest.mark.parametrize("text", ["", "first", "1.5", "@x", "@", "--1", "2023-13-01", "1969-12-31T23:59:59.999", "٣"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected earliest, latest, an offset"):
        parse_offset_spec(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "@9223372036854775808"])
def test_a_time_is_one_that_a_field_can_hold(text: str) -> None:
    with pytest.raises(ValueError, match="expected at most 9223372036854775807 milliseconds since 1970"):
        parse_offset_spec(text)


@pytest.mark.parametrize(
    ("start", "expected"), [(15, 15), (5, 10), (20, 20), (99, 20), (BeforeEnd(3), 17), (BeforeEnd(99), 10)]
)
def test_a_start_is_brought_into_the_log(start: int | BeforeEnd, expected: int) -> None:
    assert start_offset(start, 10, 20) == expected
