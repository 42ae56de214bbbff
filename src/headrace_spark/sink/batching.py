"""From rows to record batches: gather the rows of each target until they fill batches, then encode them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace_spark.codec.encoder import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.model.names import TopicPartition
    from headrace_spark.codec.encoder import EncodedBatch
    from headrace_spark.sink.options import SinkOptions
    from headrace_spark.sink.partitioner import Partitioner

FULL_BATCHES = 4  # accumulated before a target is encoded, so that the last one, which is not full, matters little
ACCUMULATED_BYTES_MAX = 64 << 20  # of all targets: a topic of many partitions must not take a task's memory


@dataclass(slots=True)
class _Accumulated:
    rows: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0


def encoded_batches(
    batches: Iterable[pa.RecordBatch], partitioner: Partitioner, options: SinkOptions
) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
    """The rows as record batches, each for one target, in order within it."""
    accumulated: dict[TopicPartition, _Accumulated] = {}
    total = 0
    for batch in batches:
        for target, rows in partitioner.split(batch):
            share = accumulated.setdefault(target, _Accumulated())
            share.rows.append(rows)
            share.size += rows.nbytes
            total += rows.nbytes
            if share.size >= FULL_BATCHES * options.batch_bytes_max:
                total -= share.size
                yield from _encode(target, accumulated.pop(target), options)
        if total > ACCUMULATED_BYTES_MAX:
            total = 0
            while accumulated:
                yield from _encode(*accumulated.popitem(), options)
    while accumulated:
        yield from _encode(*accumulated.popitem(), options)


def _encode(
    target: TopicPartition, accumulated: _Accumulated, options: SinkOptions
) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
    rows = pa.Table.from_batches(accumulated.rows).combine_chunks()
    now_ms = time.time_ns() // 1_000_000
    for batch in encode(rows, codec=options.codec, batch_bytes_max=options.batch_bytes_max, now_ms=now_ms):
        yield target, batch
