"""Where each record of a batch begins.

A record says how long it is, and only that tells where the next one begins: a chain. Two ways lead along it. Records of
one size, one after the other, are found by comparing many length fields at once. Others are walked over one by one, in
the tightest loop that Python has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.wire.batches.header import CorruptBatch
from headrace.wire.batches.varints import read_varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROBE: Final = 32  # comparing fewer records than this at once takes longer than walking over them
WALK_FIRST: Final = 128  # records to walk over after a comparison that failed; doubled each time, as sizes seem to vary
WALK_MAX: Final = 64 * 1024  # each is an object until numpy has it
PROBE_GROWTH: Final = 8
HOPS_FIRST: Final = (1, 2, 3)  # sizes that vary are mostly found out here, before numpy is asked


def record_starts(body: memoryview, count: int) -> list[int] | NDArray[np.int64]:
    """Where each of the `count` records that fill `body` begins: the position of its length field.

    The positions rise and stay inside, unless a length is negative: that is found when the lengths are read again.
    """
    if count == 1:  # a producer that does not batch: whether its record fills the body is found out with all others
        return [0]
    starts: list[int] | NDArray[np.int64]
    try:
        if count < PROBE:
            starts = []
            here = _walk(body, 0, count, starts)
        else:
            starts, here = _leap(body, count)
    except (IndexError, ValueError) as damage:
        raise CorruptBatch("a record runs past the end of the batch") from damage
    if here != len(body):
        raise CorruptBatch(f"its {count} records take {here} bytes, and {len(body)} are there")
    return starts


def _walk(body: memoryview, here: int, count: int, starts: list[int]) -> int:
    append = starts.append
    for _ in range(count):
        append(here)
        byte = body[here]
        if byte < 0x80:
            # Zigzag. An odd number is a negative length: passed over here, and refused when lengths are read again.
            here += (byte >> 1) + 1
        elif (high := body[here + 1]) < 0x80:
            here += (byte & 0x7F | high << 7) // 2 + 2
        else:
            length, here = read_varint(body, here)
            here += length
    return here


def _leap(body: memoryview, count: int) -> tuple[NDArray[np.int64], int]:
    """Over records of one size together as long as there are some, and over the others step by step."""
    pieces: list[NDArray[np.int64]] = []
    walk_count = WALK_FIRST
    here = 0
    left = count
    while left:
        alike, size = _count_alike(body, here, left)
        if alike:
            pieces.append(np.arange(here, here + alike * size, size))
            here += alike * size
            left -= alike
        if alike < PROBE and left:
            starts: list[int] = []
            steps = min(left, walk_count)
            here = _walk(body, here, steps, starts)
            pieces.append(np.array(starts, dtype=np.int64))
            left -= steps
            walk_count = min(2 * walk_count, WALK_MAX)
    return np.concatenate(pieces), here


def _count_alike(body: memoryview, here: int, left: int) -> tuple[int, int]:
    """How many records from here on have the length of the first, and the size of each. 0: too few to matter.

    No guess is made: the record at `here` says where the next one begins, and if the same length stands there, so does
    that one.
    """
    length, fields = read_varint(body, here)
    size = fields - here + length
    mark = body[here:fields]
    if length < 0 or any(body[(at := here + hop * size) : at + len(mark)] != mark for hop in HOPS_FIRST):
        return 0, size
    octets = np.frombuffer(body, dtype=np.uint8)
    alike = 1
    probe = PROBE
    while True:
        most = min(probe, left, (len(body) - here) // size)
        rows = octets[here : here + most * size].reshape(most, size)[alike:]
        differs = rows[:, 0] != mark[0]
        for index in range(1, len(mark)):
            differs |= rows[:, index] != mark[index]
        if differs.any():
            return alike + int(differs.argmax()), size
        alike = most
        if most < probe:
            return alike, size
        probe *= PROBE_GROWTH
