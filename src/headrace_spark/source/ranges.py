"""Ranges of offsets, and how they are shared out: between batches, and between the tasks of a batch. No IO here."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import TopicPartition
from headrace_spark.source.offsets import LATEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.model.names import TopicId
    from headrace_spark.source.data_loss import Bounds, LossPolicy
    from headrace_spark.source.offsets import Offsets


class OffsetRange(NamedTuple):
    """Offsets of one partition from `start` on and before `end`."""

    topic: str
    partition: int
    start: int
    end: int
    """Exclusive."""
    topic_id: TopicId | None = None
    """Of the topic that is meant, if the cluster tells ids: another one may get its name."""

    @property
    def name(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """An upper bound of the records in it: markers have offsets too, and compaction leaves gaps."""
        return self.end - self.start


def readable_range(
    name: TopicPartition, start: int, end: int, bounds: Bounds, losses: LossPolicy
) -> OffsetRange | None:
    """What of a range is there. None if that is nothing; records that ought to be there and are not are reported."""
    if start == LATEST:
        return None
    if end < start:
        losses.report_missing(name, f"the offsets from {start} on are", bounds)
        return None
    if start < end and (start < bounds.first or end > bounds.end):
        losses.report_missing(name, f"offsets {start} to {end - 1} are", bounds)
        start, end = max(start, bounds.first), min(end, bounds.end)
    return OffsetRange(*name, start, end) if start < end else None


def check_starts(starts: Offsets, bounds: Mapping[TopicPartition, Bounds], losses: LossPolicy) -> None:
    """Report what happened to partitions since they were read last, before anything is planned on top of it."""
    for name, start in sorted(starts.items()):
        if start == LATEST:
            continue
        if name not in bounds:
            losses.report_gone(name, start)
        elif not bounds[name].first <= start <= bounds[name].end:
            losses.report_missing(name, f"the offsets from {start} on are", bounds[name])


def past_expired(starts: Offsets, bounds: Mapping[TopicPartition, Bounds]) -> Offsets:
    """What expired counts as read, or a limited batch might not get past it."""
    return {
        name: start if start == LATEST else max(start, bounds[name].first)
        for name, start in starts.items()
        if name in bounds
    }


def backlog(starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """How much there is to read of each partition. One that was not known before is read from its first offset."""
    sizes = {name: end - starts.get(name, 0) for name, end in ends.items() if starts.get(name) != LATEST}
    return {name: size for name, size in sizes.items() if size > 0}


def limit_ends(starts: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Ends that leave about `limit` offsets to read, shared between partitions in proportion to their backlog.

    Small ones get one offset at least, or they would starve beside large ones.
    """
    sizes = backlog(starts, ends)
    total = sum(sizes.values())
    if total <= limit:
        return ends
    limited = dict(ends)
    for name, size in sizes.items():
        share = max(1, math.floor(limit * size / total))
        limited[name] = min(ends[name], starts.get(name, 0) + share)
    return limited


def split_ranges(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """One task per range, unless more are wanted: then the larger ranges are cut into even pieces."""
    pieces = list(ranges)
    if max_records is not None:
        pieces = [piece for whole in pieces for piece in _cut(whole, math.ceil(whole.size / max_records))]
    if min_partitions is None or not pieces or len(pieces) >= min_partitions:
        return pieces
    total = sum(piece.size for piece in pieces)
    # Small ranges stay whole. They are left out of the reckoning, or the large ones would be cut too rarely.
    small = {piece for piece in pieces if round(piece.size / total * min_partitions) <= 1}
    total_large = total - sum(piece.size for piece in small)
    wanted_large = max(1, min_partitions - len(small))
    cut: list[OffsetRange] = []
    for piece in pieces:
        count = 1 if piece in small else max(1, round(piece.size / total_large * wanted_large))
        cut += _cut(piece, count)
    return cut


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, whole.size)
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [whole._replace(start=start, end=end) for start, end in pairwise(edges)]
