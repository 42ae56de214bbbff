"""Byte slices that lie scattered in a buffer, gathered into one Arrow column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace_spark.codec.varint_arrays import Bytes, Ints


def gather(body: Bytes, starts: Ints, sizes: Ints) -> pa.Array:
    """The slices as a binary column; a size of -1 gives null. `starts` rise, and no slice reaches into the next.

    An Arrow column is one buffer and the edges between its elements. Take the raw bytes for the buffer, and every start
    and every end for an edge: then each even element is a slice that is wanted, and each odd one a gap. Arrow's own
    `take` copies the even ones.
    """
    count = len(starts)
    is_null = sizes < 0
    null_count = int(np.count_nonzero(is_null))
    if null_count == count:
        return pa.nulls(count, pa.binary())
    edges = np.empty(2 * count, dtype=np.int32)
    edges[0::2] = starts
    edges[1::2] = starts + (np.maximum(sizes, 0) if null_count else sizes)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(body)]
    slices_and_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    taken = slices_and_gaps.take(pa.array(np.arange(0, 2 * count, 2)))
    if not null_count:
        return taken
    _, offsets, contents = taken.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [bitmap(~is_null), offsets, contents], null_count)


def bitmap(is_valid: NDArray[np.bool_]) -> pa.Buffer:
    """Which elements are there, a bit for each, as Arrow keeps it."""
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))
