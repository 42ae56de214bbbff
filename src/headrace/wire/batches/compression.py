"""The four codecs of record batches, with a ceiling on what decompression may produce.

A few hundred kilobytes can unfold to gigabytes, so the ceiling is held while inflating and never checked afterwards:
nothing here allocates more than `inflate_max` for its output, whatever a stream says about its own size. What is
damaged, cut short or too large raises `CorruptBatch`.

Unpacking may run in a thread beside a node's loop, so it holds the interpreter's lock only for moments: the libraries
let go of it while they work, and large buffers come from the system as pages. Those cost nothing until something is
written there, so a buffer may have the size of the ceiling; and the system has them back at once.

`cramjam` is imported on first use: a broker that passes batches through never pays for it.
"""

from __future__ import annotations

import zlib
from mmap import mmap
from struct import Struct
from typing import TYPE_CHECKING

from headrace.wire.batches.header import Codec, CorruptBatch, InflatesTooFar, TooManyBlocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.wire.batches.header import Buffer

    Room = bytearray | mmap

LZ4_LEVEL = 1  # the fast one: level 9, Kafka's habit, takes nine times as long to save an eighth
ZSTD_LEVEL = 3  # zstd's own default, and Kafka's
GZIP_WBITS = 31  # zlib's way to say: a gzip header and trailer around the stream

# Snappy as Java clients frame it (the xerial library): a header, then blocks, each after its compressed length.
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable from version 1 on
XERIAL_BLOCK_SIZE = 32 * 1024
SNAPPY_BLOCKS_FREE = 1024  # any more must hold something: each is a microsecond in which nobody else has the lock
SNAPPY_BLOCK_MEAN = 1024  # what all hold, for each of those; every writer fills blocks of 32 KiB, and ends few early
SNAPPY_EXPANSION_MAX = 22  # a three-byte copy yields at most 64 bytes, so a stream that claims more is lying

# lz4 and zstd streams seldom say how large they unfold: guess, and take all that is allowed if the guess is too small.
FIRST_GUESS_RATIO = 8
FIRST_GUESS_MIN = 4 * 1024
PAGES_FROM = 1 << 20
PACKED_AT_ONCE = 256 * 1024  # some milliseconds of gzip
GZIP_IN = 16 * 1024  # what zlib has not read yet it copies, each time
GZIP_OUT = 256 * 1024

_INT32 = Struct(">i")


def compress(codec: Codec, records: Buffer, pause: Callable[[], None] = lambda: None) -> Buffer:
    """`pause` is called every now and then: it may let others have the processor, or end it by an exception."""
    match codec:
        case Codec.NONE:
            return records
        case Codec.GZIP:
            return _compress_gzip(records, pause)
        case Codec.SNAPPY:
            return _compress_snappy(records, pause)
        case Codec.LZ4:
            return _compress_lz4(records, pause)
        case Codec.ZSTD:
            return _compress_zstd(records, pause)


def _pieces(records: Buffer, pause: Callable[[], None]) -> Iterator[memoryview]:
    view = memoryview(records)
    for start in range(0, len(view), PACKED_AT_ONCE):
        if start:
            pause()
        yield view[start : start + PACKED_AT_ONCE]


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

            return _inflate_guessing(lz4.decompress_into, stream, inflate_max)
        case Codec.ZSTD:
            from cramjam import zstd  # noqa: PLC0415

            return _inflate_guessing(zstd.decompress_into, stream, inflate_max)
        case _:
            raise CorruptBatch(f"compression codec {codec} does not exist; 0 to {max(Codec)} do")


def _compress_gzip(records: Buffer, pause: Callable[[], None]) -> bytes:
    compressor = zlib.compressobj(wbits=GZIP_WBITS)
    packed = [compressor.compress(piece) for piece in _pieces(records, pause)]
    return b"".join((*packed, compressor.flush()))


def _compress_snappy(records: Buffer, pause: Callable[[], None]) -> bytearray:
    from cramjam import snappy  # noqa: PLC0415

    framed = bytearray(XERIAL_HEADER)
    for piece in _pieces(records, pause):
        for start in range(0, len(piece), XERIAL_BLOCK_SIZE):
            block = memoryview(snappy.compress_raw(piece[start : start + XERIAL_BLOCK_SIZE]))
            framed += _INT32.pack(len(block))
            framed += block
    return framed


def _compress_lz4(records: Buffer, pause: Callable[[], None]) -> memoryview:
    from cramjam import lz4  # noqa: PLC0415

    # Java's reader knows only blocks that do not refer to each other.
    compressor = lz4.Compressor(level=LZ4_LEVEL, content_checksum=False, block_linked=False)
    for piece in _pieces(records, pause):
        compressor.compress(bytes(piece))  # it takes no view, and lets go of no lock
    return memoryview(compressor.finish())


def _compress_zstd(records: Buffer, pause: Callable[[], None]) -> memoryview:
    from cramjam import zstd  # noqa: PLC0415

    if len(records) <= PACKED_AT_ONCE:
        return memoryview(zstd.compress(records, level=ZSTD_LEVEL))
    compressor = zstd.Compressor(level=ZSTD_LEVEL)
    for piece in _pieces(records, pause):
        compressor.compress(bytes(piece))
    return memoryview(compressor.finish())


def _room(size: int) -> Room:
    return bytearray(size) if size < PAGES_FROM else mmap(-1, size)


def _inflate_gzip(stream: Buffer, inflate_max: int) -> memoryview:
    inflated = memoryview(_room(inflate_max))
    size = 0
    try:
        for piece in _gunzipped(memoryview(stream)):
            if size + len(piece) > inflate_max:
                raise _too_large(inflate_max)
            inflated[size : size + len(piece)] = piece
            size += len(piece)
    except zlib.error as damage:
        raise CorruptBatch(f"the gzip stream is damaged: {damage}") from damage
    return inflated[:size]


def _gunzipped(stream: memoryview) -> Iterator[bytes]:
    """A piece at a time: asked for everything at once, zlib puts it together in one long copy."""
    inflater = zlib.decompressobj(wbits=GZIP_WBITS)
    for start in range(0, len(stream), GZIP_IN):
        waiting: Buffer = stream[start : start + GZIP_IN]
        piece = b""
        while waiting or len(piece) == GZIP_OUT:
            piece = inflater.decompress(waiting, GZIP_OUT)
            waiting = inflater.unconsumed_tail
            yield piece
        if inflater.eof:
            unread = len(inflater.unused_data) + len(stream[start + GZIP_IN :])
            if unread:
                raise CorruptBatch(f"{unread} bytes follow the gzip stream")
            return
    raise CorruptBatch("the gzip stream is cut short")


def _inflate_snappy(stream: memoryview, inflate_max: int) -> memoryview:
    from cramjam import DecompressionError, snappy  # noqa: PLC0415

    try:
        blocks = []
        total = 0
        for block in _snappy_blocks(stream):
            size = snappy.decompress_raw_len(block)
            if size > len(block) * SNAPPY_EXPANSION_MAX:
                raise CorruptBatch(f"{len(block)} bytes of snappy claim to hold {size}, which they cannot")
            blocks.append((block, size))
            total += size
            if total < (len(blocks) - SNAPPY_BLOCKS_FREE) * SNAPPY_BLOCK_MEAN:
                raise TooManyBlocks(f"the first {len(blocks)} snappy blocks hold {total} bytes; use larger ones")
        if total > inflate_max:
            raise _too_large(inflate_max)
        inflated = memoryview(_room(total))
        end = 0
        for block, size in blocks:
            start, end = end, end + size
            snappy.decompress_raw_into(block, inflated[start:end])
    except DecompressionError as damage:
        raise CorruptBatch(f"the snappy stream is damaged: {damage}") from damage
    return inflated


def _snappy_blocks(stream: memoryview) -> Iterator[memoryview]:
    if stream[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield stream
        return
    if len(stream) < len(XERIAL_HEADER):
        raise CorruptBatch("the snappy stream is cut short in its header")
    position = len(XERIAL_HEADER)
    while position < len(stream):
        start = position + _INT32.size
        if start > len(stream):
            raise CorruptBatch("the snappy stream is cut short before a block")
        (size,) = _INT32.unpack_from(stream, position)
        position = start + size
        if size < 0 or position > len(stream):
            raise CorruptBatch(f"a snappy block claims {size} bytes, {len(stream) - start} are left")
        yield stream[start:position]


def _inflate_guessing(inflate_into: Callable[[Buffer, Room], int], stream: Buffer, inflate_max: int) -> memoryview:
    """Decompress into a buffer of our own size: its end is a wall that the decompressor cannot pass."""
    from cramjam import DecompressionError  # noqa: PLC0415

    guess = max(FIRST_GUESS_MIN, len(stream) * FIRST_GUESS_RATIO)
    for size in (guess, inflate_max) if guess < min(inflate_max, PAGES_FROM) else (inflate_max,):
        inflated = _room(size)
        try:
            return memoryview(inflated)[: inflate_into(stream, inflated)]
        except DecompressionError as damage:
            if "write whole buffer" not in str(damage):  # the only sign cramjam gives that the buffer was too small
                raise CorruptBatch(f"the compressed stream is damaged: {damage}") from damage
    raise _too_large(inflate_max)


def _too_large(inflate_max: int) -> InflatesTooFar:
    return InflatesTooFar(f"the batch unfolds to more than {inflate_max} bytes, the most that is opened here")
