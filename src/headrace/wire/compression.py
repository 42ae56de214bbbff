"""The four codecs of record batches, with a ceiling on what decompression may produce.

A few hundred kilobytes can unfold to gigabytes, so the ceiling is held while inflating and never checked afterwards:
nothing here allocates more than `inflate_max` for its output, whatever a stream says about its own size. What is
damaged, cut short or too large raises `CorruptBatch`.

`cramjam` is imported on first use: a broker that passes batches through never pays for it.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from headrace.wire.batches import Codec, CorruptBatch, InflatesTooFar

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.wire.batches import Buffer

LZ4_LEVEL = 1  # the fast one: level 9, Kafka's habit, takes nine times as long to save an eighth
ZSTD_LEVEL = 3  # zstd's own default, and Kafka's
GZIP_WBITS = 31  # zlib's way to say: a gzip header and trailer around the stream

# Snappy as Java clients frame it (the xerial library): a header, then blocks, each after its compressed length.
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable from version 1 on
XERIAL_BLOCK_SIZE = 32 * 1024
SNAPPY_EXPANSION_MAX = 22  # a three-byte copy yields at most 64 bytes, so a stream that claims more is lying

# lz4 and zstd streams seldom say how large they unfold: guess, and grow while the guess is too small.
FIRST_GUESS_RATIO = 8
FIRST_GUESS_MIN = 4 * 1024
GROWTH = 4

_INT32 = Struct(">i")


def compress(codec: Codec, records: Buffer) -> Buffer:
    match codec:
        case Codec.NONE:
            return records
        case Codec.GZIP:
            return zlib.compress(records, wbits=GZIP_WBITS)
        case Codec.SNAPPY:
            return _compress_snappy(records)
        case Codec.LZ4:
            return _compress_lz4(records)
        case Codec.ZSTD:
            from cramjam import zstd  # noqa: PLC0415

            return memoryview(zstd.compress(records, level=ZSTD_LEVEL))


def decompress(codec: int, stream: Buffer, *, inflate_max: int) -> Buffer:
    """The bytes inside `stream`, at most `inflate_max` of them."""
    match codec:
        case Codec.NONE:
            return stream
        case Codec.GZIP:
            return _inflate_gzip(stream, inflate_max)
        case Codec.SNAPPY:
            return _inflate_snappy(memoryview(stream), inflate_max)
        case Codec.LZ4:
            from cramjam import lz4  # noqa: PLC0415

            return _inflate_growing(lz4.decompress_into, stream, inflate_max)
        case Codec.ZSTD:
            from cramjam import zstd  # noqa: PLC0415

            return _inflate_growing(zstd.decompress_into, stream, inflate_max)
        case _:
            raise CorruptBatch(f"compression codec {codec} does not exist; 0 to {max(Codec)} do")


def _compress_snappy(records: Buffer) -> bytearray:
    from cramjam import snappy  # noqa: PLC0415

    framed = bytearray(XERIAL_HEADER)
    view = memoryview(records)
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = memoryview(snappy.compress_raw(view[start : start + XERIAL_BLOCK_SIZE]))
        framed += _INT32.pack(len(block))
        framed += block
    return framed


def _compress_lz4(records: Buffer) -> memoryview:
    from cramjam import lz4  # noqa: PLC0415

    # Java's reader knows only blocks that do not refer to each other.
    compressor = lz4.Compressor(level=LZ4_LEVEL, content_checksum=False, block_linked=False)
    compressor.compress(bytes(records))  # it takes no view
    return memoryview(compressor.finish())


def _inflate_gzip(stream: Buffer, inflate_max: int) -> bytes:
    inflater = zlib.decompressobj(wbits=GZIP_WBITS)
    try:
        # One byte more than allowed tells "just fits" from "too large"; zlib takes a maximum of 0 for none.
        inflated = inflater.decompress(stream, inflate_max + 1)
    except zlib.error as damage:
        raise CorruptBatch(f"the gzip stream is damaged: {damage}") from damage
    if len(inflated) > inflate_max:
        raise _too_large(inflate_max)
    if not inflater.eof:
        raise CorruptBatch("the gzip stream is cut short")
    if inflater.unused_data:
        raise CorruptBatch(f"{len(inflater.unused_data)} bytes follow the gzip stream")
    return inflated


def _inflate_snappy(stream: memoryview, inflate_max: int) -> Buffer:
    if stream[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _inflate_snappy_block(stream, bytearray(), inflate_max)
    if len(stream) < len(XERIAL_HEADER):
        raise CorruptBatch("the snappy stream is cut short in its header")
    inflated = bytearray()
    position = len(XERIAL_HEADER)
    while position < len(stream):
        start = position + _INT32.size
        if start > len(stream):
            raise CorruptBatch("the snappy stream is cut short before a block")
        (size,) = _INT32.unpack_from(stream, position)
        position = start + size
        if size < 0 or position > len(stream):
            raise CorruptBatch(f"a snappy block claims {size} bytes, {len(stream) - start} are left")
        _inflate_snappy_block(stream[start:position], inflated, inflate_max)
    return inflated


def _inflate_snappy_block(block: memoryview, inflated: bytearray, inflate_max: int) -> bytearray:
    """Add the bytes inside `block` to what is inflated already."""
    from cramjam import DecompressionError, snappy  # noqa: PLC0415

    try:
        size = snappy.decompress_raw_len(block)
        if size > len(block) * SNAPPY_EXPANSION_MAX:
            raise CorruptBatch(f"{len(block)} bytes of snappy claim to hold {size}, which they cannot")
        if len(inflated) + size > inflate_max:
            raise _too_large(inflate_max)
        piece = bytearray(size)
        snappy.decompress_raw_into(block, piece)
    except DecompressionError as damage:
        raise CorruptBatch(f"the snappy stream is damaged: {damage}") from damage
    inflated += piece
    return inflated


def _inflate_growing(inflate_into: Callable[[Buffer, bytearray], int], stream: Buffer, inflate_max: int) -> memoryview:
    """Decompress into a buffer of our own size: its end is a wall that the decompressor cannot pass."""
    from cramjam import DecompressionError  # noqa: PLC0415

    size = min(inflate_max, max(FIRST_GUESS_MIN, len(stream) * FIRST_GUESS_RATIO))
    while True:
        inflated = bytearray(size)
        try:
            written = inflate_into(stream, inflated)
            return memoryview(inflated)[:written]
        except DecompressionError as damage:
            if "write whole buffer" not in str(damage):  # the only sign cramjam gives that the buffer was too small
                raise CorruptBatch(f"the compressed stream is damaged: {damage}") from damage
        del inflated  # before a larger one is made, not after
        if size == inflate_max:
            raise _too_large(inflate_max)
        size = min(inflate_max, size * GROWTH)


def _too_large(inflate_max: int) -> InflatesTooFar:
    return InflatesTooFar(f"the batch unfolds to more than {inflate_max} bytes, the most that is opened here")
