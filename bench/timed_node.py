"""`python -m bench.timed_node serve …`: a node that takes the time of each stage of a produce with acks=all.

It is the node that everybody runs, with a few of its methods wrapped: what is measured costs nothing where nobody
measures. When it stops, it writes what it saw to the file that BENCH_TIMINGS names, in microseconds.

- append: from the bytes' arrival until they are written to the log, in the page cache.
- flush: from then until they are on this node's device.
- replicate: from then until they are on the devices of the others in sync, and this node knows. Both run side by side,
  so this is what is left of it when the own flush is done.
- answer: from then until the answer was handed to the socket.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.__main__ import main
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.writing import PartitionWriter
from headrace.servers.kafka.connections.connection import Connection

if TYPE_CHECKING:
    from headrace.model.names import Offset

STAGES = ("append", "flush", "replicate", "answer")


class _Batch:
    def __init__(self, next_offset: int, received_ns: int, appended_ns: int) -> None:
        self.next_offset = next_offset
        self.received_ns = received_ns
        self.appended_ns = appended_ns
        self.flushed_ns = 0


class StageClock:
    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {stage: [] for stage in STAGES}
        self._received_ns = 0
        self._open: dict[Partition, deque[_Batch]] = {}
        self._committed: list[tuple[_Batch, int]] = []

    def received(self) -> None:
        self._received_ns = time.perf_counter_ns()

    def appended(self, partition: Partition) -> None:
        batch = _Batch(partition.log.next_offset, self._received_ns, time.perf_counter_ns())
        self._open.setdefault(partition, deque()).append(batch)

    def flushed(self, partition: Partition) -> None:
        for batch in self._open.get(partition, ()):
            if batch.flushed_ns == 0 and batch.next_offset <= partition.log.flushed_offset:
                batch.flushed_ns = time.perf_counter_ns()

    def committed(self, partition: Partition, high_watermark: Offset) -> None:
        waiting, now_ns = self._open.get(partition), time.perf_counter_ns()
        while waiting and waiting[0].next_offset <= high_watermark:
            self._committed.append((waiting.popleft(), now_ns))

    def answered(self) -> None:
        now_ns = time.perf_counter_ns()
        for batch, committed_ns in self._committed:
            flushed_ns = batch.flushed_ns or committed_ns
            ends = (batch.received_ns, batch.appended_ns, flushed_ns, committed_ns, now_ns)
            for stage, begin_ns, end_ns in zip(STAGES, ends, ends[1:], strict=False):
                self.seen[stage].append((end_ns - begin_ns) / 1e3)
        self._committed.clear()


def wrap(clock: StageClock) -> None:
    receive, send = Connection.received, Connection._send_together
    commit, flush, advance = PartitionWriter.commit_staged, Partition.flushed, Partition.advance

    def received(self: Connection, count: int) -> None:
        clock.received()
        receive(self, count)

    def commit_staged(self: PartitionWriter) -> None:
        commit(self)
        clock.appended(self.partition)

    def flushed(self: Partition) -> None:
        clock.flushed(self)
        flush(self)

    def advanced(self: Partition, high_watermark: Offset) -> None:
        clock.committed(self, high_watermark)
        advance(self, high_watermark)

    def send_together(self: Connection) -> None:
        send(self)
        clock.answered()

    wrapped: dict[Any, dict[str, Any]] = {
        Connection: {"received": received, "_send_together": send_together},
        PartitionWriter: {"commit_staged": commit_staged},
        Partition: {"flushed": flushed, "advance": advanced},
    }
    for owner, methods in wrapped.items():
        for name, method in methods.items():
            setattr(owner, name, method)


if __name__ == "__main__":
    the_clock = StageClock()
    wrap(the_clock)
    atexit.register(lambda: Path(os.environ["BENCH_TIMINGS"]).write_text(json.dumps(the_clock.seen)))
    main()
