"""The walk over records that every produced batch goes through: what it takes and refuses, in both of its forms."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from headrace.wire.batches.records import encode_batch
from headrace.wire.batches.varints import encode_varint
from tests.unit.wire.walk_forms import FORMS, compiled, interpreted

if TYPE_CHECKING:
    from collections.abc import Callable

varint = encode_varint


def long_varint(raw: int, length: int) -> bytes:
    """`raw`, after zigzag, in so many bytes, however few would do."""
    return bytes((raw >> 7 * place & 0x7F) | (0x80 if place < length - 1 else 0) for place in range(length))


def record(
    delta: int = 0,
    *,
    time: bytes = b"\0",
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = b"\0",
    attributes: bytes = b"\0",
    length: int | None = None,
    tail: bytes = b"",
) -> bytes:
    body = attributes + time + varint(delta) + field(key) + field(value) + headers + tail
    return varint(len(body) if length is None else length) + body


def field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def two(second: bytes) -> bytes:
    return record(0) + second


PLAIN_8192 = b"".join(record(index) for index in range(8192))
"""So many that the numbers of those that follow take three bytes."""

# What is said of each is the beginning of the sentence that a producer hears.
BAD: list[tuple[str, bytes, int, str]] = [
    ("nothing at all", b"", 1, "record 0 runs past the end"),
    ("fewer records than it says", record(0), 2, "record 1 runs past the end"),
    ("more records than it says", record(0) + record(1), 1, "9 bytes follow the last of 1 records"),
    ("a length of none", two(varint(0)), 2, "record 1 says that it has 0 bytes"),
    ("a length below zero", two(varint(-5)), 2, "record 1 says that it has -5 bytes"),
    ("a length past the end", two(record(1, length=60)), 2, "record 1 says that it has 60 bytes"),
    ("a length too short", two(record(1, length=7)), 2, "record 1 says that it has 7 bytes; its fields"),
    ("a length too long", two(record(1, length=9) + b"\0"), 2, "record 1 says that it has 9 bytes; its fields"),
    ("a delta twice", two(record(0)), 2, "record 1 has offset delta 0"),
    ("a delta left out", two(record(2)), 2, "record 1 has offset delta 2"),
    ("a delta below zero", record(-1), 1, "record 0 has offset delta -1"),
    ("a first delta above zero", record(1), 1, "record 0 has offset delta 1"),
    ("a key longer than the record", b"\x0c\0\0\0\x7ev\0", 1, "record 0 has a field of 63 bytes"),
    ("a key shorter than nothing", varint(6) + b"\0\0\0" + varint(-2) + b"\0\0", 1, "record 0 has a field of -2"),
    ("a value that reaches out", two(varint(6) + b"\0\0\x02\x01\x10\0"), 2, "record 1 has a field of 8 bytes"),
    ("a value shorter than nothing", varint(6) + b"\0\0\0\x01" + varint(-3) + b"\0", 1, "record 0 has a field of -3"),
    ("fewer headers than none", record(0, headers=varint(-1)), 1, "record 0 says that it has -1 headers"),
    ("headers without end", record(0, headers=varint(2**31 - 1)), 1, "record 0 says that it has 2147483647 headers"),
    ("one header too many", record(0, headers=varint(10_001) + b"\0\0" * 10_001), 1, "record 0 says that it has 10001"),
    ("headers that are not there", record(0, headers=varint(3) + b"\0\0"), 1, "record 0 runs past the end"),
    ("a header without a key", record(0, headers=varint(1) + b"\x01\0"), 1, "record 0 has a header without a key"),
    ("a header key that reaches out", record(0, headers=varint(1) + b"\x20\0"), 1, "record 0 has a field of 16 bytes"),
    ("a header value that reaches out", record(0, headers=varint(1) + b"\0\x20"), 1, "record 0 has a field of 16 "),
    ("something after the headers", record(0, tail=b"\0"), 1, "record 0 says that it has 9 bytes; its fields"),
    ("a length of six bytes", long_varint(16, 6) + record(0)[1:], 1, "record 0 has a number that is longer than 32"),
    ("a length of 33 bits", long_varint(1 << 32, 5) + record(0)[1:], 1, "record 0 has a number that is longer than 32"),
    ("a time of eleven bytes", record(0, time=b"\x80" * 10 + b"\0"), 1, "record 0 has a number that is longer than 64"),
    ("a time of 65 bits", record(0, time=b"\x80" * 9 + b"\x02"), 1, "record 0 has a number that is longer than 64"),
    ("a number that never ends", b"\xff" * 20, 1, "record 0 has a number that is longer than 32"),
    ("a number cut off", b"\x80", 1, "record 0 runs past the end"),
    (
        "a number of three bytes whose last looks like a key",
        PLAIN_8192 + varint(27) + b"\0\0" + varint(8192) + varint(20) + bytes(21),
        8193,
        "record 8192 runs past the end",
    ),
    ("garbage", varint(10) + b"\xff" * 10, 1, "record 0 runs past the end"),
    ("longer garbage", varint(30) + b"\xff" * 30, 1, "record 0 has a number that is longer than 64"),
]

GOOD: list[tuple[str, bytes, int, tuple[int, int, list[int]]]] = [
    ("one record", record(0), 1, (0, 0, [])),
    ("the smallest", record(0, key=None, value=None), 1, (0, 0, [0])),
    ("attributes that mean nothing", record(0, attributes=b"\x7f"), 1, (0, 0, [])),
    ("an empty key is a key", record(0, key=b""), 1, (0, 0, [])),
    ("a header", record(0, headers=varint(1) + field(b"name") + field(None)), 1, (0, 0, [])),
    ("all headers there may be", record(0, headers=varint(10_000) + b"\0\0" * 10_000), 1, (0, 0, [])),
    ("numbers longer than they need be", long_varint(16, 5) + record(0)[1:], 1, (0, 0, [])),
    ("the latest time", record(0, time=long_varint(2**64 - 2, 10)), 1, (2**63 - 1, 2**63 - 1, [])),
    ("the earliest time", record(0, time=long_varint(2**64 - 1, 10)), 1, (-(2**63), -(2**63), [])),
    ("times in any order", record(0, time=varint(5)) + record(1, time=varint(-7)), 2, (-7, 5, [])),
    ("times above the base alone", record(0, time=varint(5)) + record(1, time=varint(7)), 2, (5, 7, [])),
    ("times below the base alone", record(0, time=varint(-5)) + record(1, time=varint(-7)), 2, (-7, -5, [])),
    ("numbers of one byte, two and three", PLAIN_8192 + record(8192) + record(8193), 8194, (0, 0, [])),
    ("empty values and null ones", record(0, value=b"") + record(1, value=None), 2, (0, 0, [])),
    ("a length of two bytes for 63", varint(71) + b"\0\0\0\x02k\xfe\0" + bytes(64), 1, (0, 0, [])),
    ("records larger than a window", record(0, value=bytes(70_000)) + record(1, key=bytes(99_999)), 2, (0, 0, [])),
    ("many records", b"".join(record(index, key=None) for index in range(20_000)), 20_000, (0, 0, list(range(100)))),
]


def walked(form: Any, body: bytes, count: int, start: int = 0, pause: Callable[[], None] = lambda: None) -> Any:
    walk = form.RecordWalk(memoryview(body), start, len(body), pause, 1000)
    walk.run(count)
    return walk.oldest_delta, walk.newest_delta, walk.keyless


def told(form: Any, body: bytes, count: int) -> Any:
    answers = [_told(form, body, count, window) for window in (b"", body)]
    assert answers[0] == answers[1], "it makes a difference whether the records are copied to be looked at"
    quick = _told(form, body, count, body, needs_keys=False)
    is_bad = isinstance(quick, str)
    assert quick == answers[0] if is_bad else quick[:2] == answers[0][:2], "it makes a difference who needs keys"
    return answers[0]


def _told(form: Any, body: bytes, count: int, window: bytes, *, needs_keys: bool = True) -> Any:
    walk = form.RecordWalk(memoryview(body), 0, len(body), lambda: None, 1000, window, needs_keys)
    try:
        walk.run(count)
    except form.BadRecord as bad:
        return str(bad)
    return walk.oldest_delta, walk.newest_delta, walk.keyless


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("body", "count", "sentence"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_no_reader_can_take_apart_is_found(form: Any, body: bytes, count: int, sentence: str) -> None:
    answer = told(form, body, count)
    assert isinstance(answer, str), answer
    assert answer.startswith(sentence)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("body", "count", "found"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD])
def test_what_readers_can_take_apart_is_taken(form: Any, body: bytes, count: int, found: object) -> None:
    assert walked(form, body, count) == told(form, body, count) == found
    assert walked(form, b"before" + body, count, start=6) == found


@pytest.mark.parametrize("form", FORMS)
def test_a_walk_ends_where_it_was_told_to(form: Any) -> None:
    """What follows in the same memory is somebody else's."""
    records = b"".join(record(index) for index in range(3))
    memory = records + b"".join(record(index) for index in range(3, 9))
    for end, is_sound in ((len(records), True), (len(records) - 1, False), (len(records) + 1, False)):
        walk = form.RecordWalk(memoryview(memory), 0, end, lambda: None, 1000, memory)
        if is_sound:
            walk.run(3)
        else:
            with pytest.raises(form.BadRecord):
                walk.run(3)


@pytest.mark.parametrize("form", FORMS)
def test_a_walk_can_be_ended_by_whoever_is_asked_for_a_pause(form: Any) -> None:
    class Enough(Exception):
        pass

    def pause() -> None:
        raise Enough

    records = [record(index) for index in range(1001)]
    assert walked(form, b"".join(records[:1000]), 1000, pause=pause)
    with pytest.raises(Enough):
        walked(form, b"".join(records), 1001, pause=pause)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("since", "low", "found"),
    [(0, 0, (10, 0)), (11, 0, (30, 4)), (31, 0, None), (0, 1, (5, 3)), (6, 1, (30, 4)), (0, 9, (20, 9)), (0, 10, None)],
)
def test_records_are_found_by_time_and_place(form: Any, since: int, low: int, found: tuple[int, int] | None) -> None:
    """Also where compaction has left gaps."""
    places = [(10, 0), (5, 3), (30, 4), (20, 9)]
    body = b"".join(record(delta, time=varint(time)) for time, delta in places)
    walk = form.RecordWalk(memoryview(body), 0, len(body), lambda: None, 1000)
    assert walk.find(4, since, low) == (found is not None)
    if found:
        assert (walk.time_delta, walk.offset_delta) == found


@pytest.mark.parametrize("form", FORMS)
def test_a_search_goes_on_after_what_it_found(form: Any) -> None:
    body = b"".join(record(delta, time=varint(time)) for delta, time in enumerate((3, 1, 4, 1, 5)))
    walk = form.RecordWalk(memoryview(body), 0, len(body), lambda: None, 1000)
    found = []
    while walk.find(5, 3, 0):
        found.append(walk.offset_delta)
        walk.go_on()
    assert found == [0, 2, 4]


@pytest.mark.parametrize("form", FORMS)
def test_headers_count_as_steps(form: Any) -> None:
    body = record(0, headers=varint(30) + b"\0\0" * 30)
    walk = form.RecordWalk(memoryview(body), 0, len(body), lambda: None, 1000)
    walk.run(1)
    assert walk.steps == 31


@compiled.needed
def test_both_forms_say_the_same_of_anything() -> None:
    """Sound records with a few bytes changed, cut or put in, and plain noise: half a million answers are compared."""
    chance = random.Random(20)
    for round_ in range(20_000):
        count = chance.randint(1, 6)
        records = [
            (chance.randrange(10**6), key, chance.randbytes(chance.choice((0, 3, 70, 300))), headers)
            for key, headers in zip(
                chance.choices((None, b"", b"key"), k=count),
                chance.choices(((), (("h", None),), (("a", b"b"), ("", b""))), k=count),
                strict=True,
            )
        ]
        body = bytearray(encode_batch(records)[61:])
        for _ in range(chance.randint(0, 3)):
            place = chance.randrange(len(body) + 1)
            body[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        claimed = count + chance.choice((0, 0, 0, 1, -1))
        answers = [told(form.module, bytes(body), claimed) for form in (interpreted, compiled)]
        assert answers[0] == answers[1], (round_, bytes(body))


@pytest.mark.parametrize("form", FORMS)
def test_keys_that_are_missing_are_noted_for_whoever_needs_them(form: Any) -> None:
    keys = [None if index % 3 else b"k" for index in range(300)]
    body = b"".join(record(index, key=key, value=bytes(20)) for index, key in enumerate(keys))
    for needs_keys in (True, False):
        walk = form.RecordWalk(memoryview(body), 0, len(body), lambda: None, 1000, b"", needs_keys)
        walk.run(300)
        assert walk.steps == 300
        if needs_keys:
            assert walk.keyless_count == 200
            assert walk.keyless == [index for index in range(150) if index % 3]


@compiled.needed
def test_both_forms_read_every_number_alike() -> None:
    for length, last in product(range(1, 12), range(0, 256, 5)):
        for filler in (0x80, 0xFF, 0xAA):
            body = record(0, time=bytes([filler] * (length - 1)) + bytes([last]))
            assert told(interpreted.module, body, 1) == told(compiled.module, body, 1), (length, last, filler)
