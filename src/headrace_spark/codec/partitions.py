"""Which partition each key of a column belongs to: Kafka's murmur2 for many keys at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.wire.partitioning import partition_for_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

NO_PARTITION: Final = -1
KEY_BYTES_MAX: Final = (
    256  # one round of numpy hashes four bytes of every key; the few longer keys are hashed one by one
)

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_31_BITS: Final = np.uint32(0x7FFFFFFF)


def murmur2_partitions(keys: pa.Array | pa.ChunkedArray, count: int) -> NDArray[np.int32]:
    """The partition of each key among `count`, as every Kafka client computes it; -1 where there is no key."""
    column = (keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys).cast(pa.large_binary())
    partitions = np.full(len(column), NO_PARTITION, dtype=np.int32)
    if column.null_count == len(column):
        return partitions
    _, edge_buffer, contents = column.buffers()
    edges = np.frombuffer(edge_buffer, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    octets = np.frombuffer(contents or b"", dtype=np.uint8)
    sizes = np.diff(edges)
    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    is_long = sizes > KEY_BYTES_MAX
    rows = np.flatnonzero(is_there & ~is_long)
    hashes = _murmur2(octets, edges[rows], sizes[rows])
    partitions[rows] = (hashes & _31_BITS) % np.uint32(count)
    for row in np.flatnonzero(is_there & is_long).tolist():
        partitions[row] = partition_for_key(octets[edges[row] : edges[row + 1]].tobytes(), count)
    return partitions


def _murmur2(octets: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Words:
    """`headrace.wire.partitioning.murmur2` with a column in place of each number; uint32 keeps to 32 bits by itself."""
    hashes = sizes.astype(np.uint32) ^ _SEED
    word_counts = sizes >> 2
    for index in range(int(word_counts.max(initial=0))):
        rows = np.flatnonzero(word_counts > index)
        mixed = _read_words(octets, starts[rows] + 4 * index, 4) * _MULTIPLIER
        hashes[rows] = hashes[rows] * _MULTIPLIER ^ (mixed ^ mixed >> np.uint32(24)) * _MULTIPLIER
    for rest in (1, 2, 3):
        rows = np.flatnonzero(sizes & 3 == rest)
        tails = _read_words(octets, starts[rows] + 4 * word_counts[rows], rest)
        hashes[rows] = (hashes[rows] ^ tails) * _MULTIPLIER
    hashes = (hashes ^ hashes >> np.uint32(13)) * _MULTIPLIER
    return hashes ^ hashes >> np.uint32(15)


def _read_words(octets: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> Words:
    """`width` bytes at each position as a number, low byte first."""
    words = np.zeros(len(starts), dtype=np.uint32)
    for index in range(width):
        words |= octets[starts + index].astype(np.uint32) << np.uint32(8 * index)
    return words
