"""Record batches made by hand: whatever a header, a record or a compressed stream can be made to say.

Every part takes its bytes as they are, so that any of them can lie. Same arguments, same bytes.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from cramjam import lz4, snappy, zstd

from headrace.wire.batches.compression import XERIAL_HEADER, compress
from headrace.wire.batches.header import (
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    Codec,
    seal,
)
from headrace.wire.batches.varints import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INT32, UINT32 = Struct(">i"), Struct(">I")
SOUND_COUNT = 3  # records in a batch that is sound but for one thing

# ---- numbers


def overlong(value: int, size: int) -> bytes:
    """A varint of just `size` bytes, however few would do."""
    rest = (value << 1) ^ (value >> 63)
    low = bytes(((rest >> 7 * index) & 0x7F) | 0x80 for index in range(size - 1))
    return low + bytes([(rest >> 7 * (size - 1)) & 0x7F])


def _number(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else encode_varint(value)


# ---- records


def blob(content: bytes | None, claimed: int | bytes | None = None) -> bytes:
    """A key, a value or a header's part; `claimed` is the length that it says, if not its own."""
    own = -1 if content is None else len(content)
    return _number(own if claimed is None else claimed) + (content or b"")


def header_list(*parts: bytes, claimed: int | bytes | None = None) -> bytes:
    """Headers, key and value in turn; `claimed` is the count that they say."""
    return _number(len(parts) // 2 if claimed is None else claimed) + b"".join(parts)


def record(
    delta: int | bytes = 0,
    *,
    key: bytes = blob(b"key"),
    value: bytes = blob(b"value"),
    time: int | bytes = 0,
    headers: bytes = b"\0",
    attributes: int = 0,
    length: int | bytes | None = None,
    longer: int = 0,
) -> bytes:
    """One record. `length` is what it says; `longer` is by how much that differs from the truth."""
    fields = bytes([attributes]) + _number(time) + _number(delta) + key + value + headers
    return _number(len(fields) + longer if length is None else length) + fields


def numbered(deltas: Sequence[int]) -> bytes:
    return b"".join(record(delta) for delta in deltas)


def sound(count: int = SOUND_COUNT) -> bytes:
    """Records that nobody has anything against."""
    return numbered(range(count))


def around(odd: bytes) -> bytes:
    """A record that is the second of three."""
    return record(0) + odd + record(2)


# ---- streams


@dataclass(frozen=True)
class Packing:
    """One way in which a batch can hold its records."""

    name: str
    codec: Codec
    pack: Callable[[bytes], bytes]


def gzip_stream(body: bytes, level: int = 6) -> bytes:
    return zlib.compress(body, level, wbits=31)


def xerial_blocks(*blocks: bytes) -> bytes:
    """Snappy as Java frames it: blocks, each after its length."""
    return XERIAL_HEADER + b"".join(INT32.pack(len(block)) + block for block in blocks)


def snappy_block(body: bytes) -> bytes:
    return bytes(snappy.compress_raw(body))


def snappy_claiming(size: int, body: bytes) -> bytes:
    """A snappy block of one literal that says it unfolds to `size` bytes."""
    assert 1 <= len(body) <= 0x10000
    claimed = bytearray()
    while size > 0x7F:
        claimed.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(claimed) + bytes([size, 61 << 2]) + (len(body) - 1).to_bytes(2, "little") + body


def lz4_stream(body: bytes, *, is_checked: bool = False, is_linked: bool = False) -> bytes:
    compressor = lz4.Compressor(level=1, content_checksum=is_checked, block_linked=is_linked)
    compressor.compress(body)
    return bytes(compressor.finish())


def lz4_frame(body: bytes, flags: int = 0x60, extra: bytes = b"", tail: bytes = b"") -> bytes:
    """An lz4 frame with one block that is stored as it is. `extra` are the optional fields that `flags` speak of."""
    descriptor = bytes([flags, 0x40]) + extra
    head = b"\x04\x22\x4d\x18" + descriptor + bytes([_xxh32(descriptor) >> 8 & 0xFF])
    return head + (len(body) | 1 << 31).to_bytes(4, "little") + body + bytes(4) + tail


def zstd_stream(body: bytes) -> bytes:
    return bytes(zstd.compress(body, level=3))


def zstd_frame(body: bytes, descriptor: int = 0, fields: bytes = b"\x58", tail: bytes = b"", kind: int = 1) -> bytes:
    """A zstd frame with one block, of `kind` 1: raw, and the last.

    `fields` are the window, the dictionary and the size that `descriptor` speaks of.
    """
    block = (len(body) << 3 | kind).to_bytes(3, "little") + body
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + fields + block + tail


def _xxh32(short: bytes) -> int:
    """The checksum that lz4 takes of its header: xxHash of fewer than 16 bytes, seed 0."""
    assert len(short) < 16
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask, total = 0xFFFFFFFF, prime5 + len(short)
    words = len(short) // 4 * 4
    for start in range(0, words, 4):
        total = total + int.from_bytes(short[start : start + 4], "little") * prime3 & mask
        total = (total << 17 | total >> 15) * prime4 & mask
    for byte in short[words:]:
        total = total + byte * prime5 & mask
        total = (total << 11 | total >> 21) * prime1 & mask
    total = (total ^ total >> 15) * prime2 & mask
    total = (total ^ total >> 13) * prime3 & mask
    return total ^ total >> 16


NONE = Packing("none", Codec.NONE, bytes)
GZIP = Packing("gzip", Codec.GZIP, gzip_stream)
SNAPPY = Packing("snappy", Codec.SNAPPY, lambda body: bytes(compress(Codec.SNAPPY, body)))
SNAPPY_RAW = Packing("snappy-raw", Codec.SNAPPY, snappy_block)
LZ4 = Packing("lz4", Codec.LZ4, lz4_stream)
ZSTD = Packing("zstd", Codec.ZSTD, zstd_stream)
PACKINGS = (NONE, GZIP, SNAPPY, SNAPPY_RAW, LZ4, ZSTD)
STREAMS = PACKINGS[1:]


# ---- batches


@dataclass(frozen=True)
class Forge:
    """Makes batches whose records are packed in one way, as if at one time."""

    packing: Packing
    now_ms: int

    def pack(self, body: bytes | None = None) -> bytes:
        return self.packing.pack(sound() if body is None else body)

    def batch(
        self,
        body: bytes | None = None,
        count: int = SOUND_COUNT,
        *,
        stream: bytes | None = None,
        flags: int = 0,
        crc: int | None = None,
        longer: int = 0,
        **header: int,
    ) -> bytes:
        """A batch that is sound but for what is said here. `stream` takes the place of the packed body."""
        packed = self.pack(body) if stream is None else stream
        batch = bytearray(HEADER_SIZE) + packed
        attributes = self.packing.codec | flags
        true = BatchHeader(
            base_offset=0,
            length=len(batch) - LENGTH_OVERHEAD + longer,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=attributes - (1 << 16) if attributes >> 15 else attributes,
            last_offset_delta=max(-1, min(count - 1, 2**31 - 1)),
            base_timestamp=self.now_ms,
            max_timestamp=self.now_ms,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=count,
        )
        HEADER.pack_into(batch, 0, *true._replace(**header))
        seal(batch)
        if crc is not None:
            UINT32.pack_into(batch, CRC_POSITION, crc)
        return bytes(batch)


def old_message(magic: int, now_ms: int) -> bytes:
    """A message as clients sent it before there were batches, sound in itself."""
    time = now_ms.to_bytes(8, "big") if magic else b""
    content = bytes([magic, 0]) + time + INT32.pack(3) + b"key" + INT32.pack(5) + b"value"
    message = UINT32.pack(zlib.crc32(content)) + content
    return bytes(8) + INT32.pack(len(message)) + message
