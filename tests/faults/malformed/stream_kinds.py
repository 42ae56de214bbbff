"""Malformed before a single record is seen: what compressed streams can be made to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.batches.compression import XERIAL_HEADER, XERIAL_MAGIC
from tests.faults.malformed.forge import (
    GZIP,
    INT32,
    LZ4,
    NONE,
    SNAPPY,
    SNAPPY_RAW,
    SOUND_COUNT,
    STREAMS,
    ZSTD,
    Forge,
    blob,
    gzip_stream,
    lz4_frame,
    lz4_stream,
    record,
    snappy_block,
    snappy_claiming,
    sound,
    xerial_blocks,
    zstd_frame,
    zstd_stream,
)
from tests.faults.malformed.kinds import (
    CORRUPT,
    GARBAGE,
    GREATEST_INT,
    INVALID,
    OK,
    TOO_LARGE,
    Kind,
    Section,
    flipped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.model.errors import ErrorCode
    from tests.faults.malformed.kinds import Make

MIB = 1 << 20


def _stream(content: bytes, count: int = SOUND_COUNT) -> Make:
    """These bytes in place of a stream."""
    return lambda forge: forge.batch(stream=content, count=count)


def _changed(change: Callable[[bytes], bytes]) -> Make:
    """A stream of sound records, changed."""
    return lambda forge: forge.batch(stream=change(forge.pack()))


# ---- any codec


def _in_two(forge: Forge) -> bytes:
    return forge.batch(stream=forge.pack(record(0)) + forge.pack(record(1) + record(2)))


def _of_another(forge: Forge) -> bytes:
    return forge.batch(stream=gzip_stream(sound()) if forge.packing is ZSTD else zstd_stream(sound()))


def _unsaid(forge: Forge) -> bytes:
    return Forge(NONE, forge.now_ms).batch(stream=forge.pack())


def _value_bomb(forge: Forge) -> bytes:
    return forge.batch(record(value=blob(bytes(100 * MIB))), 1)


ANY = Section("Compressed streams", (
    Kind("stream-of-garbage", "a stream of garbage", _stream(GARBAGE), CORRUPT, packings=STREAMS),
    Kind("stream-of-nothing", "a stream of no bytes", _stream(b""), CORRUPT, packings=STREAMS),
    Kind("stream-not-compressed", "records that are not compressed", _stream(sound()), CORRUPT, packings=STREAMS),
    Kind("stream-compressed-unsaid", "a stream whose codec the header does not tell", _unsaid, INVALID,
         packings=STREAMS),
    Kind("stream-of-another-codec", "a stream of another codec", _of_another, CORRUPT, packings=STREAMS),
    Kind("stream-twice-compressed", "a stream in a stream", lambda forge: forge.batch(forge.pack()), INVALID,
         packings=STREAMS),
    Kind("stream-cut-in-half", "half a stream", _changed(lambda stream: stream[: len(stream) // 2]), CORRUPT,
         packings=STREAMS),
    Kind("stream-without-its-last-byte", "a stream without its last byte", _changed(lambda stream: stream[:-1]),
         CORRUPT, packings=STREAMS),
    Kind("bytes-after-the-stream", "a sound stream, then garbage", _changed(lambda stream: stream + GARBAGE), CORRUPT,
         packings=STREAMS),
    Kind("zeros-after-the-stream", "a sound stream, then 16 zeros", _changed(lambda stream: stream + bytes(16)),
         CORRUPT, packings=STREAMS),
    Kind("stream-twice", "the same stream twice", _changed(lambda stream: stream * 2), CORRUPT,
         {"zstd": INVALID}, packings=STREAMS),
    Kind("records-in-two-streams", "the records in two streams, one behind the other", _in_two, CORRUPT,
         {"zstd": OK}, packings=STREAMS),
    Kind("stream-of-zeros-bomb", "128 MiB of zeros", lambda forge: forge.batch(bytes(128 * MIB)), TOO_LARGE,
         packings=(GZIP, ZSTD), is_heavy=True),
    Kind("value-bomb", "a record with a value of 100 MiB", _value_bomb, TOO_LARGE, packings=(GZIP, LZ4, ZSTD),
         is_heavy=True),
))  # fmt: skip

# ---- gzip


def _gzip(name: str, what: str, make: Make, code: ErrorCode = CORRUPT) -> Kind:
    return Kind(f"gzip-{name}", what, make, code, packings=(GZIP,))


GZIPS = Section("gzip", (
    _gzip("checksum", "a wrong checksum", _changed(lambda stream: flipped(stream, -8))),
    _gzip("size", "a size at the end that lies", _changed(lambda stream: flipped(stream, -1))),
    _gzip("method", "compression method 7", _changed(lambda stream: stream[:2] + b"\7" + stream[3:])),
    _gzip("flags", "reserved flags", _changed(lambda stream: stream[:3] + b"\xe0" + stream[4:])),
    _gzip("file-name", "a file name in its header",
          _changed(lambda stream: stream[:3] + b"\x08" + stream[4:10] + b"name\0" + stream[10:]), OK),
))  # fmt: skip

# ---- snappy

BLOCK = snappy_block(sound())
BLOCK_SIZE = INT32.pack(len(BLOCK))
LONG_RECORD = record(value=blob(bytes(2000)))


def _block(name: str, what: str, block: bytes) -> Kind:
    """A fault of what both forms of snappy are made of."""
    return Kind(
        f"snappy-{name}",
        what,
        lambda forge: forge.batch(stream=xerial_blocks(block) if forge.packing is SNAPPY else block),
        CORRUPT,
        packings=(SNAPPY, SNAPPY_RAW),
    )


def _framed(name: str, what: str, *parts: bytes, code: ErrorCode = CORRUPT, count: int = SOUND_COUNT) -> Kind:
    return Kind(f"xerial-{name}", what, _stream(b"".join(parts), count), code, packings=(SNAPPY,))


SNAPPIES = Section("snappy", (
    _block("claims-more", "a block that says it unfolds to a byte more", snappy_claiming(len(sound()) + 1, sound())),
    _block("claims-less", "a block that says it unfolds to a byte less", snappy_claiming(len(sound()) - 1, sound())),
    _block("claims-most", "a block that says it unfolds to 4 GiB", snappy_claiming(2**32 - 1, sound())),
    _block("claims-two-gib", "a block that says it unfolds to 2 GiB", snappy_claiming(GREATEST_INT, sound())),
    _block("copy-from-before", "a block that copies from before its start", b"\x08\x00a\x0d\x63"),
    _framed("block-negative", "a block of length −1", XERIAL_HEADER, INT32.pack(-1), BLOCK),
    _framed("block-empty", "a block of length 0", XERIAL_HEADER, INT32.pack(0), BLOCK_SIZE, BLOCK),
    _framed("block-too-long", "a block longer than what is left", XERIAL_HEADER, INT32.pack(len(BLOCK) + 9), BLOCK),
    _framed("block-greatest", "a block of length 2³¹−1", XERIAL_HEADER, INT32.pack(GREATEST_INT), BLOCK),
    _framed("header-cut", "the end inside of the frame's header", XERIAL_HEADER[:12]),
    _framed("block-length-cut", "the end inside of a block's length", XERIAL_HEADER, BLOCK_SIZE, BLOCK, b"\0\0"),
    _framed("empty-blocks", "2,000 blocks of nothing before the records",
            xerial_blocks(*[snappy_block(b"")] * 2000, BLOCK)),
    _framed("tiny-blocks", "a record of 2 KB in blocks of a byte",
            xerial_blocks(*(snappy_block(LONG_RECORD[at : at + 1]) for at in range(len(LONG_RECORD)))), count=1),
    _framed("small-blocks", "records in blocks of a byte, fewer than 1,024",
            xerial_blocks(*(snappy_block(sound()[at : at + 1]) for at in range(len(sound())))), code=OK),
    _framed("version", "a frame of a version that does not exist yet", XERIAL_MAGIC, INT32.pack(9), INT32.pack(9),
            BLOCK_SIZE, BLOCK, code=OK),
))  # fmt: skip

# ---- lz4


def _lz4(name: str, what: str, stream: bytes, code: ErrorCode = CORRUPT, count: int = SOUND_COUNT) -> Kind:
    return Kind(f"lz4-{name}", what, _stream(stream, count), code, packings=(LZ4,))


def _lz4_with_block_checksum(body: bytes, checksum: bytes) -> bytes:
    plain = lz4_frame(body, 0x70)
    return plain[:-4] + checksum + plain[-4:]


LARGE = record(value=blob(bytes(70_000)))
LZ4S = Section("lz4", (
    _lz4("header-checksum", "a wrong checksum of the header", flipped(lz4_stream(sound()), 6)),
    _lz4("content-checksum", "a wrong checksum of the content", flipped(lz4_stream(sound(), is_checked=True), -1)),
    _lz4("block-checksum", "a wrong checksum of a block", _lz4_with_block_checksum(sound(), b"\1\2\3\4")),
    _lz4("linked-blocks", "blocks that may refer to each other", lz4_stream(sound(), is_linked=True)),
    _lz4("version", "a frame of version 0", lz4_frame(sound(), 0x20)),
    _lz4("reserved-bit", "a reserved bit", lz4_frame(sound(), 0x62)),
    _lz4("dictionary", "a dictionary that nobody has", lz4_frame(sound(), 0x61, b"\x07\x00\x00\x00")),
    _lz4("content-size", "a content size that is true",
         lz4_frame(sound(), 0x68, len(sound()).to_bytes(8, "little")), OK),
    _lz4("content-size-lies", "a content size that lies",
         lz4_frame(sound(), 0x68, (len(sound()) + 9).to_bytes(8, "little"))),
    _lz4("no-end-mark", "no mark at its end", lz4_frame(sound())[:-4]),
    _lz4("block-too-large", "a block larger than the header allows", lz4_frame(LARGE), count=1),
    _lz4("tiny-blocks", "a record of 2 KB in blocks of a byte",
         lz4_frame(LONG_RECORD[:1]).removesuffix(bytes(4))
         + b"".join(b"\x01\0\0\x80" + LONG_RECORD[at : at + 1] for at in range(1, len(LONG_RECORD))) + bytes(4),
         count=1),
    _lz4("legacy", "the legacy frame", b"\x02\x21\x4c\x18" + lz4_stream(sound())[7:-4]),
))  # fmt: skip

# ---- zstd


def _zstd(name: str, what: str, stream: bytes, code: ErrorCode = CORRUPT) -> Kind:
    return Kind(f"zstd-{name}", what, _stream(stream), code, packings=(ZSTD,))


SKIPPED = b"\x50\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"skip me"
ZSTDS = Section("zstd", (
    _zstd("checksum", "a wrong checksum", zstd_frame(sound(), 0x04, tail=b"\1\2\3\4")),
    _zstd("content-size", "a content size that is true", zstd_frame(sound(), 0x20, bytes([len(sound())])), OK),
    _zstd("content-size-lies", "a content size that lies", zstd_frame(sound(), 0x20, bytes([len(sound()) + 9]))),
    _zstd("dictionary", "a dictionary that nobody has", zstd_frame(sound(), 0x01, b"\x58\x07")),
    _zstd("window", "a window of more than 2 GiB", zstd_frame(sound(), 0, b"\xff")),
    _zstd("reserved-bit", "a reserved bit", zstd_frame(sound(), 0x08)),
    _zstd("skippable", "a frame to be skipped before the records", SKIPPED + zstd_stream(sound()), OK),
    _zstd("no-last-block", "no block that says it is the last", zstd_frame(sound(), kind=0)),
    _zstd("block-type", "a block of the reserved type", zstd_frame(sound(), kind=7)),
))  # fmt: skip
