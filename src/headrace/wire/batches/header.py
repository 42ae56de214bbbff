"""The header of a record batch (format 2): 61 bytes that say everything the log needs to know.

The broker keeps batches opaque: it reads this header, checks the CRC, writes base offset and leader epoch in place
(both lie outside the CRC) and appends. Records are opened in `records.py`, only where a feature asks for it.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

Buffer = bytes | bytearray | memoryview

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LENGTH_OVERHEAD = 12  # base offset and the length field itself are not counted in `length`
MAGIC_POSITION = 16
CRC_POSITION = 17
CRC_START = 21  # the CRC covers everything from the attributes on
ATTRIBUTES_LOW_BYTE = 22  # every bit that means something is in it
MAGIC = 2

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40  # set by compaction: the base timestamp says until when deletions in the batch are kept

SEQUENCE_MAX = 2**31 - 1  # after it a producer's sequence numbers start again at 0

_PLACE = Struct(">qii")  # base offset, length, leader epoch
_ATTRIBUTES_POSITION = 21
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP_POSITION = 35
_MAX_TIMESTAMP = Struct(">q")
_CRC = Struct(">I")


class CorruptBatch(Exception):
    """These bytes are not a batch: damaged, or made by a program that does not know the format."""


class TooManyBlocks(CorruptBatch):
    """The stream is in so many pieces that to open it takes far longer than its size lets one expect."""


class InflatesTooFar(CorruptBatch):
    """Its records, once decompressed, would take more memory than the reader allows."""


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 if the producer numbers none. Numbers wrap to 0 after SEQUENCE_MAX."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def codec(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Until when the batch's tombstones, or the marker that it is, must be kept; None before it is compacted."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


_new = tuple.__new__  # half the time of `BatchHeader._make`, once or twice for every batch


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the caller has made sure that 61 bytes are there."""
    return _new(BatchHeader, HEADER.unpack_from(buffer, position))


def is_of_transaction(batch: Buffer) -> bool:
    """Without a look at the rest of it: what is no batch at all is somebody else's question."""
    return len(batch) >= HEADER_SIZE and bool(batch[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT)


def place(batch: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Give a batch its offset and epoch; neither is covered by the CRC. Returns the header as it stands now."""
    length = header[1]
    _PLACE.pack_into(batch, 0, base_offset, length, leader_epoch)
    return _new(BatchHeader, (base_offset, length, leader_epoch) + header[3:])  # noqa: RUF005 - a quarter faster


def restamp(batch: bytearray | memoryview, attributes: int, max_timestamp: int) -> BatchHeader:
    """Change what the CRC covers of a batch's times, and the CRC with it. Returns the header as it stands now."""
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, max_timestamp)
    seal(batch)
    return read_header(batch)


def repack(header: BatchHeader, codec: int, records: Buffer) -> tuple[memoryview, BatchHeader]:
    """A new batch with the same header around records that are packed otherwise."""
    batch = bytearray(HEADER_SIZE) + records
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_OVERHEAD, attributes=attributes))
    seal(batch)
    return memoryview(batch), read_header(batch)


def crc_matches(view: memoryview, header: BatchHeader, position: int = 0) -> bool:
    """True if the batch that starts at `position` of `view` is whole and undamaged."""
    return bool(crc32c(view[position + CRC_START : position + header.length + LENGTH_OVERHEAD]) == header.crc)


def seal(batch: bytearray | memoryview) -> None:
    """Write the CRC of a whole batch, once every byte that it covers is final."""
    with memoryview(batch) as view:
        _CRC.pack_into(batch, CRC_POSITION, crc32c(view[CRC_START:]))
