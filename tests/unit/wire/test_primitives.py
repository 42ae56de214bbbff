"""Kafka's primitive types: bytes as the protocol guide gives them, and refusals of everything else."""

from __future__ import annotations

import tracemalloc
from struct import Struct
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.names import TopicId
from headrace.wire.primitives import ELEMENTS_MAX, Malformed, Reader, Writer, required

if TYPE_CHECKING:
    from collections.abc import Callable

ZIGZAG = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
ENCODINGS: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("int8", (), -2, "fe"),
    ("int16", (), -2, "fffe"),
    ("int32", (), 258, "00000102"),
    ("int64", (), -1, "ff" * 8),
    ("uint16", (), 65535, "ffff"),
    ("uint32", (), 2**32 - 1, "ffffffff"),
    ("boolean", (), True, "01"),
    ("boolean", (), False, "00"),
    ("float64", (), 1.5, "3ff8000000000000"),
    ("uuid", (), TopicId(bytes(range(16))), bytes(range(16)).hex()),
    ("uvarint", (), 127, "7f"),
    ("uvarint", (), 300, "ac02"),
    ("uvarint", (), 2**32 - 1, "ffffffff0f"),
    *(("varint", (), value, encoded) for value, encoded in ZIGZAG),
    *(("varlong", (), value, encoded) for value, encoded in ZIGZAG),
    ("varlong", (), -(2**63), "ff" * 9 + "01"),
    ("string", (False,), "é", "0002c3a9"),
    ("string", (True,), "é", "03c3a9"),
    ("string", (False,), "", "0000"),
    ("nullable_string", (False,), None, "ffff"),
    ("nullable_string", (True,), None, "00"),
    ("blob", (False,), b"ab", "000000026162"),
    ("blob", (True,), b"ab", "036162"),
    ("nullable_blob", (False,), None, "ffffffff"),
    ("nullable_blob", (True,), None, "00"),
    ("strings", (False,), ["a", ""], "00000002" + "000161" + "0000"),
    ("strings", (True,), ["a", ""], "03" + "0261" + "01"),
    ("nullable_strings", (False,), None, "ffffffff"),
    ("nullable_strings", (True,), None, "00"),
    ("uuids", (True,), [TopicId(bytes(16))], "02" + "00" * 16),
    ("nullable_uuids", (True,), None, "00"),
]


@pytest.mark.parametrize(("method", "arguments", "value", "encoded"), ENCODINGS)
def test_values_have_the_protocols_bytes(method: str, arguments: tuple[Any, ...], value: Any, encoded: str) -> None:
    writer = Writer()
    getattr(writer, method)(value, *arguments)
    assert writer.buffer.hex() == encoded

    reader = Reader(bytes.fromhex(encoded))
    assert getattr(reader, method)(*arguments) == value
    assert reader.remaining == 0


@pytest.mark.parametrize("compact", [False, True])
def test_arrays_of_numbers(compact: bool) -> None:
    writer = Writer()
    writer.numbers("i", [1, -1], compact)
    writer.nullable_numbers("q", None, compact)
    reader = Reader(writer.buffer)
    assert reader.numbers("i", compact) == [1, -1]
    assert reader.nullable_numbers("q", compact) is None
    assert reader.remaining == 0


def test_any_byte_but_zero_is_true() -> None:
    assert Reader(b"\x02").boolean()


def test_a_reader_stops_at_its_end_though_the_buffer_goes_on() -> None:
    buffer = bytes(range(20))
    with pytest.raises(Malformed, match="4 bytes wanted at byte 2, 2 are left"):
        Reader(buffer, 2, 4).int32()
    with pytest.raises(Malformed):
        Reader(buffer, 2, 4).unpack(Struct(">hh"))
    with pytest.raises(Malformed):
        Reader(buffer, 2, 4).uuid()


def test_a_failed_read_does_not_move() -> None:
    reader = Reader(b"\x00\x01")
    with pytest.raises(Malformed):
        reader.int32()
    assert reader.int16() == 1


def test_a_view_is_not_a_copy() -> None:
    buffer = bytearray(b"\x00\x00\x00\x02ab")
    view = Reader(buffer).view()
    buffer[4:] = b"cd"
    assert view == b"cd"


BAD_BYTES: list[tuple[str, str, Callable[[Reader], object]]] = [
    ("a null string", "ffff", lambda reader: reader.string()),
    ("a null compact string", "00", lambda reader: reader.string(True)),
    ("null bytes", "ffffffff", lambda reader: reader.blob()),
    ("a null array", "ffffffff", lambda reader: reader.strings()),
    ("a string that is not UTF-8", "0001ff", lambda reader: reader.string()),
    ("a compact string longer than any", "818002" + "61" * 32768, lambda reader: reader.string(True)),
    ("a string longer than what is left", "0005ab", lambda reader: reader.string()),
    ("bytes longer than what is left", "7fffffffab", lambda reader: reader.nullable_blob()),
    ("a varint that never ends", "ffffffffffff", lambda reader: reader.uvarint()),
    ("a varint of more than 32 bits", "ffffffff7f", lambda reader: reader.uvarint()),
    ("a varint cut short", "ff", lambda reader: reader.uvarint()),
    ("nothing at all", "", lambda reader: reader.uvarint()),
    ("a varlong of more than 64 bits", "ff" * 9 + "7f", lambda reader: reader.varlong()),
    ("a tag count that cannot be", "ffffffff0f", lambda reader: reader.skip_tagged_fields()),
    ("a tag count that cannot be", "ffffffff0f", lambda reader: list(reader.tagged_fields())),
    ("a tag larger than what is left", "010005", lambda reader: reader.skip_tagged_fields()),
    ("a tag larger than what is left", "010005", lambda reader: list(reader.tagged_fields())),
]


@pytest.mark.parametrize(("_what", "encoded", "read"), BAD_BYTES)
def test_bad_bytes_are_refused(_what: str, encoded: str, read: Callable[[Reader], object]) -> None:
    with pytest.raises(Malformed, match="byte"):
        read(Reader(bytes.fromhex(encoded)))


@pytest.mark.parametrize("count", [2**31 - 1, 10**9, 1000])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(
    "read",
    [
        lambda reader, compact: reader.numbers("q", compact),
        lambda reader, compact: reader.nullable_numbers("i", compact),
        lambda reader, compact: reader.strings(compact),
        lambda reader, compact: reader.nullable_strings(compact),
        lambda reader, compact: reader.uuids(compact),
        lambda reader, compact: reader.array(lambda *_: None, 0, compact, 2),
        lambda reader, compact: reader.nullable_array(lambda *_: None, 0, compact, 2),
    ],
)
def test_a_lying_count_is_refused_before_room_is_made(
    count: int, compact: bool, read: Callable[[Reader, bool], object]
) -> None:
    writer = Writer()
    if compact:
        writer.uvarint(count + 1)
    else:
        writer.int32(count)
    reader = Reader(bytes(writer.buffer) + bytes(999))
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match=f"array of {count} elements"):
            read(reader, compact)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_message_holds_a_bounded_number_of_elements() -> None:
    encoded = b"\x00\x00\x00\x02" + b"\x07" * 2
    assert Reader(encoded, elements_max=2).numbers("b") == [7, 7]
    with pytest.raises(Malformed, match="more array elements"):
        Reader(encoded, elements_max=1).numbers("b")

    writer = Writer()
    writer.int32(ELEMENTS_MAX + 1)
    with pytest.raises(Malformed, match="more array elements"):
        Reader(bytes(writer.buffer) + bytes(ELEMENTS_MAX + 1)).numbers("b")


def test_tags_are_visited_in_any_order_and_skipped_if_unread() -> None:
    encoded = bytes.fromhex("04" + "0501aa" + "000400000007" + "0500" + "07020000")
    reader = Reader(encoded + b"rest")
    seen = [(tag, reader.int32() if tag == 0 else None) for tag in reader.tagged_fields()]
    assert seen == [(5, None), (0, 7), (5, None), (7, None)]
    assert reader.remaining == len(b"rest")

    reader = Reader(encoded + b"rest")
    reader.skip_tagged_fields()
    assert reader.remaining == len(b"rest")


@pytest.mark.parametrize("size", [3, 5])
def test_a_tag_whose_value_is_not_as_long_as_it_says_is_refused(size: int) -> None:
    reader = Reader(bytes([1, 0, size]) + bytes(8))
    with pytest.raises(Malformed, match=f"claims {size} bytes, its value has 4"):
        [reader.int32() for _ in reader.tagged_fields()]


def test_tags_are_written_with_number_and_size() -> None:
    value = Writer()
    value.string("ab", True)
    writer = Writer()
    writer.tagged_fields([(3, value)])
    writer.no_tagged_fields()
    assert writer.buffer.hex() == "01" + "03" + "03" + "036162" + "00"


def test_what_does_not_fit_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="32768 bytes is too long"):
        Writer().string("x" * 32768)
    with pytest.raises(ValueError, match="unsigned varint"):
        Writer().uvarint(-1)
    with pytest.raises(ValueError, match="unsigned varint"):
        Writer().uvarint(2**32)
    with pytest.raises(ValueError, match="16 bytes"):
        Writer().uuid(TopicId(b"short"))
    with pytest.raises(ValueError, match=r"Topic\.name cannot be null in version 3"):
        required(None, "Topic.name", 3)
