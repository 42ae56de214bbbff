"""The bytes that attackers send: batches that unfold, lie, or cannot be read."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

from headrace.wire.batches.compression import compress
from headrace.wire.batches.header import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, Codec, seal
from headrace.wire.batches.records import encode_batch
from headrace.wire.batches.varints import encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1 << 20
LEAST, GREATEST = -(2**63), 2**63 - 1
HEADERS_IN_A_BOMB = 33_000_000
RECORDS_IN_A_LEGAL_BATCH = 1_350_000
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def now_ms() -> int:
    return int(time.time() * 1000)


def batch_with(body: bytes, count: int, codec: int = 0, **changes: int) -> bytes:
    """A batch with any bytes for its records, from now on, and a CRC that fits."""
    batch = bytearray(HEADER_SIZE) + body
    at_ms = now_ms()
    fields = {
        "base_offset": 0, "length": len(batch) - LENGTH_OVERHEAD, "leader_epoch": -1, "magic": 2, "crc": 0,
        "attributes": codec, "last_offset_delta": count - 1, "base_timestamp": at_ms, "max_timestamp": at_ms,
        "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "record_count": count,
    } | changes  # fmt: skip
    HEADER.pack_into(batch, 0, *fields.values())
    seal(batch)
    return bytes(batch)


def record(
    index: int, value: bytes | None = b"v", *, key: bytes | None = b"k", time_delta: int = 0, headers: bytes = b"\0"
) -> bytes:
    body = b"\0" + encode_varint(time_delta) + encode_varint(index) + _optional(key) + _optional(value) + headers
    return encode_varint(len(body)) + body


def _optional(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content


def records(count: int) -> bytes:
    return b"".join(map(record, range(count)))


# ---- what unfolds


def header_bomb(**changes: int) -> bytes:
    """2 KB on the wire: one record with 33 million headers, all empty."""
    headers = encode_varint(HEADERS_IN_A_BOMB) + bytes(2 * HEADERS_IN_A_BOMB)
    return batch_with(bytes(compress(Codec.ZSTD, record(0, None, headers=headers))), 1, Codec.ZSTD, **changes)


def size_bombs() -> dict[str, bytes]:
    """One record each whose value is nothing but zeros, hundreds of megabytes or gigabytes of them."""
    return {
        "gzip": _size_bomb(Codec.GZIP, 14 * 64 * MIB),
        "lz4": _size_bomb(Codec.LZ4, 3 * 64 * MIB),
        "zstd": _size_bomb(Codec.ZSTD, 64 * 64 * MIB),
        "snappy that claims 4 GB": batch_with(b"\xff\xff\xff\xff\x0f" + bytes(900_000), 1, Codec.SNAPPY),
        "zstd that claims a terabyte": batch_with(_a_claim_of_a_terabyte(), 1, Codec.ZSTD),
    }


def _size_bomb(codec: Codec, size: int) -> bytes:
    """Streams of all three codecs may be written one behind the other, so only the first megabytes are compressed."""
    claimed = min(size, 2**31 - 100)
    start = b"\0\0\0" + _optional(b"k") + encode_varint(claimed)
    start = encode_varint(len(start) + claimed + 1) + start
    zeros = bytes(compress(codec, bytes(64 * MIB)))
    batch = batch_with(bytes(compress(codec, start)) + zeros * (size // (64 * MIB)), 1, codec)
    assert len(batch) < MIB, f"{codec.name}: {len(batch)} bytes are too large to be let in"
    return batch


def _a_claim_of_a_terabyte() -> bytes:
    """A zstd frame of one block, whose header says that a terabyte follows."""
    frame = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little")
    return frame + ((MIB // 8) << 3 | 3).to_bytes(3, "little") + b"\0"  # 128 KiB of zeros, and the last


def legal_but_large() -> bytes:
    """As many records as 1 MB of zstd can hold: nothing about it is forbidden."""
    body = b"".join(record(index, b"") for index in range(RECORDS_IN_A_LEGAL_BATCH))
    batch = batch_with(bytes(compress(Codec.ZSTD, body)), RECORDS_IN_A_LEGAL_BATCH, Codec.ZSTD)
    assert len(batch) < 1_048_588, f"{len(batch)} bytes are too large to be let in"
    return batch


# ---- what no consumer can read


def poison_pills() -> dict[str, bytes]:
    """Every one of them plain, and packed by each codec."""
    pills = {}
    for what, body, count in _poisoned_records():
        pills[what] = batch_with(body, count)
        for codec in CODECS:
            pills[f"{what}, {codec.name.lower()}"] = batch_with(bytes(compress(codec, body)), count, codec)
    sound = records(20)
    for codec in CODECS:
        packed = bytes(compress(codec, sound * 20))
        name = codec.name.lower()
        pills[f"garbage for {name}"] = batch_with(b"\x99\xff\x00" * 70, 20, codec)
        pills[f"{name} that is cut"] = batch_with(packed[: len(packed) // 2], 400, codec)
        pills[f"{name} of nothing"] = batch_with(bytes(compress(codec, b"")), 1, codec)
        pills[f"2^31-1 records in {name}"] = batch_with(bytes(compress(codec, record(0))), 2**31 - 1, codec)
    other = zlib.compress(sound)  # not gzip's frame
    pills["zlib for gzip"] = batch_with(other, 20, Codec.GZIP)
    pills["gzip that says zstd"] = batch_with(bytes(compress(Codec.GZIP, sound)), 20, Codec.ZSTD)
    pills["a wrong CRC"] = batch_with(sound, 20)[:-1] + b"\x07"
    pills["2^31-1 records"] = batch_with(sound, 2**31 - 1)
    pills["a delta of 2^31-1"] = batch_with(sound, 20, last_offset_delta=2**31 - 1)
    pills["no records"] = batch_with(b"", 0)
    pills["a negative count"] = batch_with(sound, -1)
    return pills


def _poisoned_records() -> Iterable[tuple[str, bytes, int]]:
    sound = [record(index) for index in range(20)]
    yield "garbage inside a record", encode_varint(10) + b"\xff" * 10, 1
    yield "garbage for records", b"\xff" * 800, 100
    yield "a record less than claimed", b"".join(sound[:19]), 20
    yield "a record more than claimed", b"".join(sound), 19
    yield "deltas that repeat", record(0) * 20, 20
    yield "deltas that fall", b"".join(reversed(sound)), 20
    yield "deltas that jump", b"".join(record(7 * index) for index in range(20)), 20
    yield "a negative delta", b"".join([record(-1), *sound[1:]]), 20
    yield "bytes after the last record", b"".join(sound) + b"\0\0\0", 20
    yield "a record of no length", b"\0" + b"".join(sound[1:]), 20
    yield "a record of negative length", b"\x01" + b"".join(sound[1:]), 20
    yield "a record that is too long", encode_varint(2**31 - 1) + sound[0][1:], 1
    yield "a key that is too long", _framed(b"\0\0\0" + encode_varint(2**30) + b"k"), 1
    yield "a value of length -2", _framed(b"\0\0\0" + encode_varint(0) + encode_varint(-2) + b"\0"), 1
    yield "a negative number of headers", _framed(b"\0\0\0\x01\x01" + encode_varint(-3)), 1
    yield "more headers than there are", _framed(b"\0\0\0\x01\x01" + encode_varint(1000) + b"\0\0"), 1
    yield "a header without a key", _framed(b"\0\0\0\x01\x01" + encode_varint(1) + encode_varint(-1) + b"\0"), 1
    yield "a varint without an end", _framed(b"\0" + b"\xff" * 12), 1


def _framed(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


# ---- times


def forged_times() -> dict[str, bytes]:
    """Batches with records of times beyond all plausibility. Their headers say so, or not."""
    at_ms, day_ms = now_ms(), 86_400_000
    claims = {
        "the end of time, and -1": (GREATEST, -1),
        "the end of time, and now": (GREATEST, at_ms),
        "the end of time": (GREATEST, GREATEST),
        "next week, and now": (at_ms + 7 * day_ms, at_ms),
        "next week, and -1": (at_ms + 7 * day_ms, -1),
    }
    forged = {}
    for what, (base, largest) in claims.items():
        for codec in (Codec.NONE, Codec.ZSTD):
            body = bytes(compress(codec, record(0)))
            name = f"{what}, {codec.name.lower()}"
            forged[name] = batch_with(body, 1, codec, base_timestamp=base, max_timestamp=largest)
    for delta in (2**62, 7 * day_ms):
        body = record(0, time_delta=delta) + record(1)
        forged[f"a record at now {delta:+}"] = batch_with(body, 2)
        forged[f"a packed record at now {delta:+}"] = batch_with(bytes(compress(Codec.ZSTD, body)), 2, Codec.ZSTD)
    return forged


def of_now_that_claims_the_end_of_time() -> bytes:
    """The record is from now: a node may refuse the batch for its header, or set that right."""
    return batch_with(record(0), 1, max_timestamp=GREATEST)


# ---- producers


def of_new_producer(producer_id: int, value: bytes) -> bytes:
    return bytes(
        encode_batch([(now_ms(), None, value, ())], producer_id=producer_id, producer_epoch=0, base_sequence=0)
    )


def bare_header_of(producer_id: int) -> bytes:
    """61 bytes that claim to be a producer's eighth batch."""
    return HEADER.pack(0, 49, 0, 2, 0, 0, 0, 0, 0, producer_id, 0, 7, 1)
