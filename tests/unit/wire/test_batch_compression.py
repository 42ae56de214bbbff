"""Codecs: what they read, what they refuse, and how much memory a hostile stream can take."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import cramjam
import pytest

from headrace.wire.batches.compression import PACKED_AT_ONCE, XERIAL_BLOCK_SIZE, XERIAL_HEADER, compress, decompress
from headrace.wire.batches.header import Codec, CorruptBatch, InflatesTooFar
from headrace.wire.batches.lz4_frames import check_frame

MIB = 1 << 20
TEXT = b"".join(b"line %d of a text that is worth compressing\n" % number for number in range(5000))
REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]

each_codec = pytest.mark.parametrize("codec", REAL_CODECS, ids=lambda codec: codec.name.lower())


@each_codec
@pytest.mark.parametrize("text", [b"", b"x", TEXT], ids=["empty", "one byte", "many blocks"])
def test_what_goes_in_comes_out(codec: Codec, text: bytes) -> None:
    assert decompress(codec, compress(codec, text), inflate_max=len(text)) == text


@each_codec
def test_the_ceiling_is_exact(codec: Codec) -> None:
    stream = compress(codec, TEXT)
    assert decompress(codec, stream, inflate_max=len(TEXT)) == TEXT
    for inflate_max in (len(TEXT) - 1, 100, 0):
        with pytest.raises(InflatesTooFar, match=f"more than {inflate_max} bytes"):
            decompress(codec, stream, inflate_max=inflate_max)


@each_codec
def test_a_stream_cut_anywhere_is_refused(codec: Codec) -> None:
    stream = bytes(compress(codec, b"a short text, and a short text again"))
    for end in range(len(stream)):
        if codec is Codec.SNAPPY and end == len(XERIAL_HEADER):
            continue  # a framed stream of no blocks is whole, and empty
        with pytest.raises(CorruptBatch):
            decompress(codec, stream[:end], inflate_max=MIB)


@each_codec
def test_bytes_after_the_stream_are_refused(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, TEXT)) + b"more", inflate_max=MIB)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_there_are_no_other_codecs(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=f"codec {codec} does not exist"):
        decompress(codec, b"", inflate_max=MIB)


def test_snappy_is_written_as_java_frames_it() -> None:
    stream = bytes(compress(Codec.SNAPPY, TEXT))
    assert stream.startswith(bytes.fromhex("82534e4150505900 00000001 00000001"))
    (size,) = struct.unpack_from(">i", stream, 16)
    assert cramjam.snappy.decompress_raw(stream[20 : 20 + size]).read() == TEXT[:XERIAL_BLOCK_SIZE]


def test_snappy_is_also_read_without_a_frame() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw, inflate_max=MIB) == TEXT


def test_lz4_blocks_stand_alone_since_java_reads_no_others() -> None:
    flags = bytes(compress(Codec.LZ4, TEXT))[4]
    assert flags & 0x20


def framed_snappy(*texts: bytes) -> bytes:
    blocks = (bytes(cramjam.snappy.compress_raw(text)) for text in texts)
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def test_many_snappy_blocks_must_hold_something() -> None:
    """Each takes Python a moment, in which nobody else has its lock."""
    few, full = [b"x"] * 1024, [b"x" * 1024] * 1500
    for blocks in (few, full, [*full, *few]):
        assert decompress(Codec.SNAPPY, framed_snappy(*blocks), inflate_max=4 * MIB) == b"".join(blocks)
    beyond = XERIAL_HEADER + framed_snappy(*[b""] * 1025)[len(XERIAL_HEADER) :] + b"what nobody looks at"
    with pytest.raises(CorruptBatch, match="the first 1025 snappy blocks hold 0 bytes"):
        decompress(Codec.SNAPPY, beyond, inflate_max=MIB)


def test_many_lz4_blocks_must_hold_something() -> None:
    def frame(*blocks: bytes) -> bytes:
        stored = b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
        return bytes.fromhex("04224d18604082") + stored + bytes(4)

    for blocks in ([b"x"] * 1024, [b"x" * 64] * 5000):
        check_frame(frame(*blocks))
        assert decompress(Codec.LZ4, frame(*blocks), inflate_max=MIB) == b"".join(blocks)
    with pytest.raises(CorruptBatch, match=r"the first 1[0-9]{3} lz4 blocks take"):
        check_frame(frame(*[b"x"] * 1200)[:-4] + b"what nobody looks at")


@pytest.mark.parametrize("size", [MIB, 64 * MIB])
def test_zeros_do_not_make_lz4_blocks_too_small(size: int) -> None:
    check_frame(zeros_as_lz4(size))


@pytest.mark.parametrize("size", [-1, -(2**31), 100, 2**31 - 1])
def test_a_snappy_block_cannot_claim_bytes_that_are_not_there(size: int) -> None:
    stream = XERIAL_HEADER + struct.pack(">i", size) + bytes(cramjam.snappy.compress_raw(b"few"))
    with pytest.raises(CorruptBatch, match=f"claims {size} bytes"):
        decompress(Codec.SNAPPY, stream, inflate_max=MIB)


def zeros_as_gzip(size: int) -> bytes:
    deflater = zlib.compressobj(9, wbits=31)
    return b"".join([*(deflater.compress(bytes(MIB)) for _ in range(size // MIB)), deflater.flush()])


def zeros_as_zstd(size: int) -> bytes:
    """Blocks that say "this byte, 128 KiB times": four bytes each."""
    block = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    frame_header = bytes.fromhex("28b52ffd 00 38")  # no declared size, a window of 128 KiB
    last = (0 << 3 | 1).to_bytes(3, "little")
    return frame_header + block * (size // (128 * 1024)) + last


def zeros_as_lz4(size: int) -> bytes:
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    for _ in range(size // MIB):
        compressor.compress(bytes(MIB))
    return bytes(compressor.finish())


def zeros_as_snappy(size: int) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    return XERIAL_HEADER + (struct.pack(">i", len(block)) + block) * (size // MIB)


BOMBS = {
    Codec.GZIP: zeros_as_gzip,
    Codec.SNAPPY: zeros_as_snappy,
    Codec.LZ4: zeros_as_lz4,
    Codec.ZSTD: zeros_as_zstd,
}


@each_codec
def test_the_bombs_are_what_they_claim_to_be(codec: Codec) -> None:
    assert decompress(codec, BOMBS[codec](4 * MIB), inflate_max=4 * MIB) == bytes(4 * MIB)


@each_codec
def test_a_bomb_takes_no_more_memory_than_is_allowed(codec: Codec) -> None:
    bomb = BOMBS[codec](64 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(InflatesTooFar):
            decompress(codec, bomb, inflate_max=2 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * MIB  # the output, doubled while it grows, and small change


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        (Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + b"\0" * 8),
        (Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", 13) + b"\xff\xff\xff\xff\x07" + b"\0" * 8),
        (Codec.ZSTD, bytes.fromhex("28b52ffd e0 ffffffffffffff0f 010000")),
        (Codec.ZSTD, bytes.fromhex("28b52ffd a0 00000080 010000")),
        (Codec.LZ4, bytes.fromhex("04224d18 68 40 ffffffffffffff0f 00") + b"\0" * 4),
    ],
    ids=["snappy", "framed snappy", "zstd of 2^60", "zstd of 2 GiB", "lz4 of 2^60"],
)
def test_a_declared_size_that_lies_allocates_nothing(codec: Codec, stream: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(codec, stream, inflate_max=1 << 40)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_packing_pauses_and_comes_to_the_same(codec: Codec) -> None:
    pauses = []
    records = TEXT * (1 + 3 * PACKED_AT_ONCE // len(TEXT))
    packed = compress(codec, records, lambda: pauses.append(None))
    assert len(pauses) == 3
    assert bytes(decompress(codec, packed, inflate_max=2 * len(records))) == records
    assert len(packed) < len(compress(codec, TEXT)) + len(records) // 2
