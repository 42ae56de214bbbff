"""Kafka's primitive types: numbers, strings, arrays and tagged fields, read from and written to bytes.

`Reader` trusts nothing. Each read checks its bounds, and an array's count is held against the bytes that are left
before a single element is made, so a lying length costs the sender a connection and us nothing. Whatever is wrong
with the input, the one exception is `Malformed`.

`compact` chooses between the two ways Kafka writes lengths: a fixed-size number (old versions of an API) or a varint
of the length plus one (flexible versions, KIP-482).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.model.names import TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Buffer = bytes | bytearray | memoryview
Element = TypeVar("Element")
Value = TypeVar("Value")

ELEMENTS_MAX = 1_000_000  # array elements in one message: a 100 MB frame of two-byte structs must not become 5 GB
VARINT_BYTES_MAX = 5  # 32 bits, seven per byte
VARLONG_BYTES_MAX = 10  # 64 bits, seven per byte
STRING_BYTES_MAX = 0x7FFF  # what the int16 in front of an old-style string can say; read, the new style has no more

_INT8 = Struct(">b")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_UINT16 = Struct(">H")
_UINT32 = Struct(">I")
_FLOAT64 = Struct(">d")
_NUMBER_SIZES = {"b": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8}
_SMALL_ARRAYS = {code: [Struct(f">{count}{code}") for count in range(9)] for code in _NUMBER_SIZES}
"""Layouts of arrays up to eight numbers: replica lists are short, and there are thousands in one answer."""
_UUID_SIZE = 16
_TAG_SIZE_MIN = 2  # its number and its size


class Malformed(Exception):
    """The bytes are not what the protocol says they should be; the text says what and where."""


class Encodable(Protocol):
    """A message, or a struct inside one."""

    def encode(self, writer: Writer, version: int) -> None: ...


class Reader:
    """Reads Kafka's types from `buffer[position:end]`. It copies nothing but what it returns.

    `view()`, `nullable_view()` and `view_of()` do not even copy that: use their result before the buffer changes.
    """

    __slots__ = ("_elements_left", "_view", "end", "position")

    def __init__(
        self, buffer: Buffer, position: int = 0, end: int | None = None, elements_max: int = ELEMENTS_MAX
    ) -> None:
        view = memoryview(buffer)
        # Cut at `end`, so that struct's own bounds check is ours.
        self._view = view if end is None else view[:end]
        self.position = position
        self.end = len(self._view)
        self._elements_left = elements_max

    @property
    def remaining(self) -> int:
        return self.end - self.position

    # Numbers

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Several fixed-size fields at once."""
        position = self.position
        try:
            values = layout.unpack_from(self._view, position)
        except StructError:
            raise self._cut_short(layout.size) from None
        self.position = position + layout.size
        return values

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def uint16(self) -> int:
        return self._number(_UINT16)

    def uint32(self) -> int:
        return self._number(_UINT32)

    def boolean(self) -> bool:
        return self._number(_INT8) != 0

    def float64(self) -> float:
        (value,) = self.unpack(_FLOAT64)
        return float(value)

    def uuid(self) -> TopicId:
        return TopicId(bytes(self.view_of(_UUID_SIZE)))

    def uvarint(self) -> int:
        position = self.position
        if position < self.end:
            byte = self._view[position]
            if byte < 0x80:  # nearly all: lengths and tag counts are small
                self.position = position + 1
                return byte
        return self._long_varint(VARINT_BYTES_MAX, 32)

    def varint(self) -> int:
        zigzag = self.uvarint()
        return (zigzag >> 1) ^ -(zigzag & 1)

    def varlong(self) -> int:
        zigzag = self._long_varint(VARLONG_BYTES_MAX, 64)
        return (zigzag >> 1) ^ -(zigzag & 1)

    # Strings and bytes

    def string(self, compact: bool = False) -> str:
        text = self.nullable_string(compact)
        if text is None:
            raise Malformed(f"null string before byte {self.position}, where the protocol wants a text")
        return text

    def nullable_string(self, compact: bool = False) -> str | None:
        length = self.uvarint() - 1 if compact else self._number(_INT16)
        if length < 0:
            return None
        start = self.position
        if length > STRING_BYTES_MAX:
            raise Malformed(
                f"string of {length} bytes at byte {start}; the longest that is allowed has {STRING_BYTES_MAX}"
            )
        try:
            return str(self.view_of(length), "utf-8")
        except UnicodeDecodeError as problem:
            raise Malformed(f"string of {length} bytes at byte {start} is not UTF-8: {problem.reason}") from None

    def blob(self, compact: bool = False) -> bytes:
        return self.view(compact).tobytes()

    def nullable_blob(self, compact: bool = False) -> bytes | None:
        view = self.nullable_view(compact)
        return None if view is None else view.tobytes()

    def view(self, compact: bool = False) -> memoryview:
        view = self.nullable_view(compact)
        if view is None:
            raise Malformed(f"null bytes before byte {self.position}, where the protocol wants some")
        return view

    def nullable_view(self, compact: bool = False) -> memoryview | None:
        length = self.uvarint() - 1 if compact else self._number(_INT32)
        return None if length < 0 else self.view_of(length)

    def view_of(self, size: int) -> memoryview:
        """The next `size` bytes, uncopied."""
        start = self.position
        stop = start + size
        if stop > self.end:
            raise self._cut_short(size)
        self.position = stop
        return self._view[start:stop]

    # Arrays

    def array(
        self, decode: Callable[[Reader, int], Element], version: int, compact: bool, element_size_min: int
    ) -> list[Element]:
        """An array of structs. `element_size_min` is the fewest bytes that one can take."""
        count = self.array_length(compact, element_size_min)
        return [decode(self, version) for _ in range(count)]

    def nullable_array(
        self, decode: Callable[[Reader, int], Element], version: int, compact: bool, element_size_min: int
    ) -> list[Element] | None:
        count = self.nullable_array_length(compact, element_size_min)
        return None if count is None else [decode(self, version) for _ in range(count)]

    def numbers(self, code: str, compact: bool = False) -> list[Any]:
        """An array of numbers or booleans; `code` is struct's letter for one."""
        count = self.nullable_array_length(compact, _NUMBER_SIZES[code])
        return self._numbers(code, self._present(count))

    def nullable_numbers(self, code: str, compact: bool = False) -> list[Any] | None:
        count = self.nullable_array_length(compact, _NUMBER_SIZES[code])
        return None if count is None else self._numbers(code, count)

    def strings(self, compact: bool = False) -> list[str]:
        return [self.string(compact) for _ in range(self.array_length(compact, 1 if compact else 2))]

    def nullable_strings(self, compact: bool = False) -> list[str] | None:
        count = self.nullable_array_length(compact, 1 if compact else 2)
        return None if count is None else [self.string(compact) for _ in range(count)]

    def uuids(self, compact: bool = False) -> list[TopicId]:
        return [self.uuid() for _ in range(self.array_length(compact, _UUID_SIZE))]

    def nullable_uuids(self, compact: bool = False) -> list[TopicId] | None:
        count = self.nullable_array_length(compact, _UUID_SIZE)
        return None if count is None else [self.uuid() for _ in range(count)]

    def array_length(self, compact: bool, element_size_min: int) -> int:
        return self._present(self.nullable_array_length(compact, element_size_min))

    def nullable_array_length(self, compact: bool, element_size_min: int) -> int | None:
        """How many elements follow; checked to be possible before anybody makes room for them."""
        count = self.uvarint() - 1 if compact else self._number(_INT32)
        if count < 0:
            return None
        if count * element_size_min > self.end - self.position:
            raise Malformed(
                f"array of {count} elements before byte {self.position} cannot fit in the {self.remaining} bytes left"
            )
        self._count_elements(count)
        return count

    # Tagged fields (KIP-482)

    def tagged_fields(self) -> Iterator[int]:
        """Yields the number of each tag, positioned on its value. A tag that the caller leaves unread is skipped."""
        for _ in range(self._tag_count()):
            tag = self.uvarint()
            size = self.uvarint()
            start = self.position
            stop = start + size
            if stop > self.end:
                raise Malformed(f"tagged field {tag} at byte {start} claims {size} bytes, {self.remaining} are left")
            yield tag
            if self.position not in (start, stop):
                raise Malformed(
                    f"tagged field {tag} at byte {start} claims {size} bytes, its value has {self.position - start}"
                )
            self.position = stop

    def skip_tagged_fields(self) -> None:
        position = self.position
        if position < self.end and self._view[position] == 0:  # nearly always
            self.position = position + 1
            return
        for _ in range(self._tag_count()):
            self.uvarint()
            self.view_of(self.uvarint())

    def _tag_count(self) -> int:
        count = self.uvarint()
        if count * _TAG_SIZE_MIN > self.end - self.position:
            raise Malformed(
                f"{count} tagged fields before byte {self.position} cannot fit in the {self.remaining} bytes left"
            )
        self._count_elements(count)
        return count

    # Behind the scenes

    def _count_elements(self, count: int) -> None:
        self._elements_left -= count
        if self._elements_left < 0:
            raise Malformed(f"more array elements or tagged fields by byte {self.position} than one message may hold")

    def _number(self, layout: Struct) -> int:
        position = self.position
        try:
            value: int = layout.unpack_from(self._view, position)[0]
        except StructError:
            raise self._cut_short(layout.size) from None
        self.position = position + layout.size
        return value

    def _numbers(self, code: str, count: int) -> list[Any]:
        # The length was checked against what is left, so this cannot run past the end.
        layout = _number_layout(code, count)
        values = layout.unpack_from(self._view, self.position)
        self.position += layout.size
        return list(values)

    def _present(self, count: int | None) -> int:
        if count is None:
            raise Malformed(f"null array before byte {self.position}, where the protocol wants one")
        return count

    def _long_varint(self, bytes_max: int, bits: int) -> int:
        start = position = self.position
        value = shift = 0
        while position < self.end:
            byte = self._view[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    raise Malformed(f"varint at byte {start} does not fit in {bits} bits")
                self.position = position
                return value
            shift += 7
            if position - start == bytes_max:
                raise Malformed(f"varint at byte {start} has more than {bytes_max} bytes")
        raise self._cut_short(1 + position - start)

    def _cut_short(self, wanted: int) -> Malformed:
        return Malformed(f"{wanted} bytes wanted at byte {self.position}, {max(0, self.remaining)} are left")


class Writer:
    """Appends Kafka's types to `buffer`. A value that does not fit its type is a bug of the caller, and raises."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    # Numbers

    def pack(self, layout: Struct, *values: object) -> None:
        """Several fixed-size fields at once."""
        self.buffer += layout.pack(*values)

    def int8(self, value: int) -> None:
        self.buffer += _INT8.pack(value)

    def int16(self, value: int) -> None:
        self.buffer += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self.buffer += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self.buffer += _INT64.pack(value)

    def uint16(self, value: int) -> None:
        self.buffer += _UINT16.pack(value)

    def uint32(self, value: int) -> None:
        self.buffer += _UINT32.pack(value)

    def boolean(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def float64(self, value: float) -> None:
        self.buffer += _FLOAT64.pack(value)

    def uuid(self, value: TopicId) -> None:
        if len(value) != _UUID_SIZE:
            raise ValueError(f"a uuid has {_UUID_SIZE} bytes, this one has {len(value)}")
        self.buffer += value

    def uvarint(self, value: int) -> None:
        if 0 <= value < 0x80:
            self.buffer.append(value)
            return
        if value >> 32:  # true for what is negative, too
            raise ValueError(f"{value} does not fit in an unsigned varint of 32 bits")
        self._varint(value)

    def varint(self, value: int) -> None:
        self._varint(((value << 1) ^ (value >> 31)) & 0xFFFF_FFFF)

    def varlong(self, value: int) -> None:
        self._varint(((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF)

    def _varint(self, value: int) -> None:
        while value > 0x7F:
            self.buffer.append((value & 0x7F) | 0x80)
            value >>= 7
        self.buffer.append(value)

    # Strings and bytes

    def string(self, value: str, compact: bool = False) -> None:
        encoded = value.encode()
        size = len(encoded)
        if compact:
            self.uvarint(size + 1)
        elif size > STRING_BYTES_MAX:
            raise ValueError(f"a string of {size} bytes is too long; this version carries {STRING_BYTES_MAX}")
        else:
            self.buffer += _INT16.pack(size)
        self.buffer += encoded

    def nullable_string(self, value: str | None, compact: bool = False) -> None:
        if value is not None:
            self.string(value, compact)
        elif compact:
            self.buffer.append(0)
        else:
            self.buffer += b"\xff\xff"

    def blob(self, value: Buffer, compact: bool = False) -> None:
        self._length(len(value), compact)
        self.buffer += value

    def nullable_blob(self, value: Buffer | None, compact: bool = False) -> None:
        if value is None:
            self._null(compact)
        else:
            self.blob(value, compact)

    # Arrays

    def array(self, elements: Sequence[Encodable], version: int, compact: bool) -> None:
        """An array of structs."""
        self._length(len(elements), compact)
        for element in elements:
            element.encode(self, version)

    def nullable_array(self, elements: Sequence[Encodable] | None, version: int, compact: bool) -> None:
        if elements is None:
            self._null(compact)
        else:
            self.array(elements, version, compact)

    def numbers(self, code: str, values: Sequence[int | float], compact: bool = False) -> None:
        """An array of numbers or booleans; `code` is struct's letter for one."""
        count = len(values)
        self._length(count, compact)
        self.buffer += _number_layout(code, count).pack(*values)

    def nullable_numbers(self, code: str, values: Sequence[int | float] | None, compact: bool = False) -> None:
        if values is None:
            self._null(compact)
        else:
            self.numbers(code, values, compact)

    def strings(self, values: Sequence[str], compact: bool = False) -> None:
        self._length(len(values), compact)
        for value in values:
            self.string(value, compact)

    def nullable_strings(self, values: Sequence[str] | None, compact: bool = False) -> None:
        if values is None:
            self._null(compact)
        else:
            self.strings(values, compact)

    def uuids(self, values: Sequence[TopicId], compact: bool = False) -> None:
        self._length(len(values), compact)
        for value in values:
            self.uuid(value)

    def nullable_uuids(self, values: Sequence[TopicId] | None, compact: bool = False) -> None:
        if values is None:
            self._null(compact)
        else:
            self.uuids(values, compact)

    # Tagged fields (KIP-482)

    def tagged_fields(self, fields: Sequence[tuple[int, Writer]]) -> None:
        """Tag numbers with their written values, in ascending order of tags."""
        self.uvarint(len(fields))
        for tag, value in fields:
            self.uvarint(tag)
            self.uvarint(len(value.buffer))
            self.buffer += value.buffer

    def no_tagged_fields(self) -> None:
        self.buffer.append(0)

    # Behind the scenes

    def _length(self, length: int, compact: bool) -> None:
        if not compact:
            self.buffer += _INT32.pack(length)
        elif length < 0x7F:
            self.buffer.append(length + 1)
        else:
            self.uvarint(length + 1)

    def _null(self, compact: bool) -> None:
        self.buffer += b"\x00" if compact else b"\xff\xff\xff\xff"


def _number_layout(code: str, count: int) -> Struct:
    small = _SMALL_ARRAYS[code]
    return small[count] if count < len(small) else Struct(f">{count}{code}")


def required(value: Value | None, field: str, version: int) -> Value:
    """The value of a field that may be null in other versions, but not in this one."""
    if value is None:
        raise ValueError(f"{field} cannot be null in version {version}")
    return value


def unsayable(field: str, version: int) -> ValueError:
    """A field holds a value that `version` has no place for, and dropping it would change the meaning."""
    return ValueError(f"version {version} cannot carry {field}")
