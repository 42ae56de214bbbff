"""The frame around lz4's blocks: magic, flags, block size, checksum of these; then each block after its length.

lz4 allows more than Kafka's own reader in Java understands. What a producer may send is what every reader can read.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from headrace.wire.batches.header import CorruptBatch, TooManyBlocks

if TYPE_CHECKING:
    from headrace.wire.batches.header import Buffer

HEADER: Final = 7  # without the fields that the flags speak of
FLAGS_POSITION: Final = 4
HAS_DICTIONARY: Final = 0x01
HAS_CHECKSUM: Final = 0x04
HAS_SIZE: Final = 0x08
HAS_BLOCK_CHECKSUMS: Final = 0x10
HAS_OWN_BLOCKS: Final = 0x20
"""No block refers to one before it."""
BLOCK_SIZE_MASK: Final = (
    0x7FFFFFFF  # the highest bit says that the block is stored as it is; a size of 0 ends the frame
)
BLOCKS_FREE: Final = 1024  # any more must hold something: each takes us as long as lz4 takes for kilobytes
BLOCK_MEAN: Final = 64  # bytes that all take, for each of those; a block of 64 KiB takes 257 at least

_UINT32: Final = Struct("<I")


def check_frame(stream: Buffer) -> None:
    """Refuse what lz4 could unpack and Java's reader could not. Raises CorruptBatch."""
    try:
        flags = stream[FLAGS_POSITION]
        end = _end_of_frame(stream, flags)
    except (IndexError, StructError):
        raise CorruptBatch("the lz4 frame is cut short") from None
    if flags & HAS_DICTIONARY:
        raise CorruptBatch("the lz4 frame needs a dictionary")
    if not flags & HAS_OWN_BLOCKS:
        raise CorruptBatch("the lz4 frame has blocks that refer to each other; compress with independent blocks")
    if end != len(stream):
        raise CorruptBatch(f"the lz4 frame has {end} bytes, the batch has {len(stream)}")


def _end_of_frame(stream: Buffer, flags: int) -> int:
    position = HEADER + (8 if flags & HAS_SIZE else 0) + (4 if flags & HAS_DICTIONARY else 0)
    after_block = 4 if flags & HAS_BLOCK_CHECKSUMS else 0
    count = 0
    while size := _UINT32.unpack_from(stream, position)[0] & BLOCK_SIZE_MASK:
        position += _UINT32.size + size + after_block
        count += 1
        if position < (count - BLOCKS_FREE) * BLOCK_MEAN:
            raise TooManyBlocks(f"the first {count} lz4 blocks take {position} bytes; use larger ones")
    return position + _UINT32.size + (4 if flags & HAS_CHECKSUM else 0)
