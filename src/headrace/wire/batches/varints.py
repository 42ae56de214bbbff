"""Signed varints, as records inside a batch use them: zigzag first, then seven bits per byte, low bits first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.wire.batches.header import Buffer

VARINT_BYTES_MAX = 5  # what 32 bits need
VARLONG_BYTES_MAX = 10  # what 64 bits need

# Lengths, offset deltas and time deltas are nearly always small: look them up. 70 KB of memory, 1 ms at import.
SMALL_END = 2048

ONE_BYTE = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
"""The value of each varint that is one byte long."""


def _encode(value: int) -> bytes:
    assert -(1 << 63) <= value < 1 << 63
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


SMALL_VARINTS = tuple(map(_encode, range(SMALL_END)))
NULL_VARINT = _encode(-1)


def encode_varint(value: int) -> bytes:
    return SMALL_VARINTS[value] if 0 <= value < SMALL_END else _encode(value)


def read_varint(buffer: Buffer, position: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """The varint at `position` and where it ends. ValueError if it is too long, IndexError if the buffer ends first."""
    zigzag = buffer[position]
    if zigzag < 0x80:
        return ONE_BYTE[zigzag], position + 1
    if (byte := buffer[position + 1]) < 0x80:  # two bytes are the common case among those that are not one
        zigzag += (byte - 1) << 7
        return (zigzag >> 1) ^ -(zigzag & 1), position + 2
    return _read_long(buffer, position, bytes_max)


def _read_long(buffer: Buffer, position: int, bytes_max: int) -> tuple[int, int]:
    zigzag = shift = 0
    for index in range(position, position + bytes_max):
        byte = buffer[index]
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> (32 if bytes_max == VARINT_BYTES_MAX else 64):
                break
            return (zigzag >> 1) ^ -(zigzag & 1), index + 1
        shift += 7
    raise ValueError(f"the number at byte {position} is longer than its type allows")
