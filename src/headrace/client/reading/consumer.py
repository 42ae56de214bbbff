"""Reads chosen partitions, each from a place of the caller's choice. No group: nobody else decides what is read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from headrace.client.errors import ClientError, in_words
from headrace.client.reading.fetch_session import Wanted
from headrace.client.reading.fetcher import Fetcher, FetchPlan
from headrace.client.reading.offsets import Edge, IsolationLevel, find_bounds, find_offsets
from headrace.client.reading.partition_buffer import PartitionBuffer
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, NO_NODE
from headrace.runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import NodeId, TopicPartition
    from headrace.wire.batches.records import Record
    from headrace.wire.messages.fetch import PartitionData

POLL_RECORDS = 500  # Kafka's max.poll.records
BUFFER_BYTES = 64 << 20  # what is read ahead over all partitions, before it is opened
PARTITION_BYTES = 1 << 20  # per partition and answer; a larger batch still comes, alone
PARTITION_BYTES_MIN = 64 << 10  # also with thousands of partitions: smaller answers would cost more than they carry
FETCH_BYTES = 16 << 20  # one answer of one node
FETCH_WAIT_MS = 500  # a long poll without news
READ_AHEAD = 4  # answers of a partition that may wait to be opened
HELD_BACK_WAIT_MS = 20  # while a partition has enough read ahead: it may run dry before a long poll for others ends


class OutOfRange(Enum):
    """What to do when the next offset is not in the log any more (or never was)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class AtTime:
    """Start at the first message that is not older than this."""

    timestamp_ms: int


Start = int | Edge | AtTime
"""An offset, one of the two ends, or a time."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How much to read ahead, what to see of transactions, and what to do where records are gone."""

    out_of_range: OutOfRange = OutOfRange.EARLIEST
    buffer_bytes: int = BUFFER_BYTES
    fetch_wait_ms: int = FETCH_WAIT_MS
    fetch_min_bytes: int = 1
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    waits_for_leaders: bool = False
    """Partitions that nobody leads are waited for as long as it takes, while others are read. Otherwise they fail
    `poll` as any trouble does that lasts."""


class SetAside(Enum):
    """Why a partition is not asked for at the moment."""

    STRAYS = "its next offset does not exist; what was read ahead is handed out first"
    RETURNS = "a place that exists is being looked for"
    REFUSED = "the caller is to be told why before it is asked for again"


class AssignedConsumer:
    """Reads the partitions that it is given. Use it with `async with`; `assign` once, then `poll` until `is_finished`
    or for ever.

        async with AssignedConsumer(cluster) as consumer:
            await consumer.assign({TopicPartition("orders", 0): Edge.EARLIEST})
            for partition, records in (await consumer.poll()).items():
                ...

    It commits nothing: where it stands is the caller's business. See `GroupConsumer` for that.
    """

    def __init__(self, cluster: Cluster, settings: ConsumerSettings | None = None) -> None:
        self.settings = settings or ConsumerSettings()
        self.skipped_count = 0
        """Offsets that were gone before they could be read."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._buffers: dict[TopicPartition, PartitionBuffer] = {}
        self._set_aside: dict[TopicPartition, SetAside] = {}
        self._order: list[TopicPartition] = []
        self._turn = 0
        self._fetchers: dict[int, Fetcher] = {}
        self._scope = TaskScope(self._broke)
        self._lane = cluster.new_lane("fetch")
        self._arrived = asyncio.Event()
        self._trouble: Exception | None = None
        self._is_broken = False

    async def __aenter__(self) -> AssignedConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop fetching, and close the connections that were for that."""
        await self._scope.close()
        self._cluster.close_lane(self._lane)

    async def assign(
        self, starts: Mapping[TopicPartition, Start], ends: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Read these partitions and no others, each from its start, and up to its end (exclusive) if it has one.

        A start is an offset, `Edge.EARLIEST`, `Edge.LATEST` or `AtTime`; with no record that late, the end. Refusal if
        a topic or a partition does not exist.
        """
        offsets = await _start_offsets(self._cluster, starts, self.settings.isolation)
        self.withdraw(list(self._buffers))
        self._begin(offsets, ends or {})

    async def extend(
        self, starts: Mapping[TopicPartition, Start], ends: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Read these partitions too."""
        self._begin(await _start_offsets(self._cluster, starts, self.settings.isolation), ends or {})

    def withdraw(self, names: Collection[TopicPartition]) -> None:
        """Read these no more. What was read ahead of them is thrown away at once."""
        for name in names:
            for known in (self._buffers, self._set_aside, self.high_watermarks):
                known.pop(name, None)
        self._order = list(self._buffers)

    async def poll(
        self, max_records: int = POLL_RECORDS, wait_s: float = 1.0, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """What has arrived, in order within each partition; empty if nothing does within `wait_s`.

        Partitions take turns to come first, so that a busy one cannot keep the others from being read. `only` chooses
        among those that are assigned.

        Raises what keeps a partition from being read, once nothing else has arrived: Refusal OFFSET_OUT_OF_RANGE if the
        settings say FAIL, CORRUPT_MESSAGE for damage, ClientError if nodes are away for too long. To poll again is to
        try again.
        """
        deadline_s = self._cluster.clock.monotonic_s() + wait_s
        while True:
            taken = self.poll_nowait(max_records, only)
            if taken or self.is_finished or not await self.wait_arrival(deadline_s):
                return taken

    def poll_nowait(
        self, max_records: int = POLL_RECORDS, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """What is there already. Raises as `poll` does."""
        self._arrived.clear()
        taken = self._take(max_records, only)
        if not taken and self._trouble is not None and not self.is_finished:
            raise self._told()
        return taken

    async def wait_arrival(self, deadline_s: float) -> bool:
        """Until something has come since the last poll, or somebody called `wake`. False if nothing does in time."""
        left_s = deadline_s - self._cluster.clock.monotonic_s()
        if left_s <= 0:
            return False
        try:
            async with asyncio.timeout(left_s):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """Let whoever waits for an arrival look around."""
        self._arrived.set()

    @property
    def is_finished(self) -> bool:
        """True if every partition has an end and was read up to it."""
        return all(buffer.is_finished for buffer in self._buffers.values())

    @property
    def unfinished(self) -> list[TopicPartition]:
        """Partitions that are not read up to their end."""
        return [name for name, buffer in self._buffers.items() if not buffer.is_finished]

    def position(self, name: TopicPartition) -> int:
        """The offset that `poll` hands out next. KeyError if the partition is not assigned."""
        return self._buffers[name].position

    # Handing out.

    def _take(self, max_records: int, only: Collection[TopicPartition] | None) -> dict[TopicPartition, list[Record]]:
        taken: dict[TopicPartition, list[Record]] = {}
        left = max_records
        order = self._order
        for step in range(len(order)):
            name = order[(self._turn + step) % len(order)]
            buffer = self._buffers[name]
            if buffer.is_empty or (only is not None and name not in only):
                continue
            try:
                records = buffer.take(left)
            except Refusal as damage:
                self._fail(damage)  # raised once there is nothing else: what others gave counts as handed out
                self._set_aside.pop(name, None)  # it is read again from before the damage
                continue
            self._look_for_range(buffer)
            if records:
                taken[name] = records
                left -= len(records)
                if left == 0:
                    self._turn = (self._turn + step + 1) % len(order)
                    break
        self.leaders_moved()
        return taken

    # Places.

    def _begin(self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        for name, offset in offsets.items():
            self._buffers[name] = PartitionBuffer(name, offset, ends.get(name))
        self._order = list(self._buffers)
        self.leaders_moved()

    def _leader(self, name: TopicPartition) -> NodeId:
        partition = self._cluster.leader_of(name)
        return NO_NODE if partition is None else partition.leader

    # What fetchers call.

    def leaders_moved(self) -> None:
        """Wake the fetcher of every node that has something to give; also one for partitions without a leader."""
        for name, buffer in self._buffers.items():
            if buffer.is_fetched:
                continue
            leader = self._leader(name)
            fetcher = self._fetchers.get(leader)
            if fetcher is None:
                self._fetchers[leader] = fetcher = Fetcher(
                    leader,
                    self._cluster,
                    self._lane,
                    self,
                    self.settings.isolation,
                    waits_for_leaders=self.settings.waits_for_leaders,
                )
                self._scope.start(fetcher.run(), f"fetch from node {leader}")
            fetcher.wake()

    def plan_for(self, node_id: int) -> FetchPlan:
        """What to ask a node for: its partitions, except those that have enough read ahead."""
        buffer_bytes = self.settings.buffer_bytes
        share = buffer_bytes // (2 * READ_AHEAD * max(1, len(self._buffers)))
        share = max(PARTITION_BYTES_MIN, min(PARTITION_BYTES, share))
        is_full = sum(buffer.buffered_bytes for buffer in self._buffers.values()) >= buffer_bytes
        wanted: dict[TopicPartition, Wanted] = {}
        is_held_back = False
        for name, buffer in self._buffers.items():
            if buffer.is_fetched or name in self._set_aside or self._leader(name) != node_id:
                continue
            if buffer.buffered_bytes >= READ_AHEAD * share or (is_full and not buffer.is_empty):
                is_held_back = True
                continue
            partition = self._cluster.leader_of(name)
            epoch = NO_EPOCH if partition is None else partition.leader_epoch
            wanted[name] = Wanted(self._cluster.topic_id(name.topic), buffer.fetch_offset, epoch, share)
        wait_ms = HELD_BACK_WAIT_MS if is_held_back else self.settings.fetch_wait_ms
        return FetchPlan(wanted, wait_ms, self.settings.fetch_min_bytes, FETCH_BYTES)

    def fetched(self, name: TopicPartition, offset: int, answer: PartitionData) -> None:
        """Take the answer to a fetch from `offset`, unless something else is wanted by now."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.fetch_offset != offset or name in self._set_aside:
            return
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._set_aside[name] = SetAside.STRAYS
            self._look_for_range(buffer)
        elif code != ErrorCode.NONE:
            self._set_aside[name] = SetAside.REFUSED
            self._fail(Refusal(code, in_words(code, f"{name} cannot be read", f"READ on topic {name.topic!r}")))
        else:
            self.high_watermarks[name] = answer.high_watermark
            if answer.records:
                try:
                    buffer.add(memoryview(answer.records), answer.aborted_transactions)
                except Refusal as damage:
                    self._set_aside[name] = SetAside.REFUSED
                    self._fail(damage)
                self._arrived.set()

    def fetch_failed(self, node_id: int, trouble: Exception) -> None:
        """A node cannot be read from any more. Somebody who polls is told."""
        self._fetchers.pop(node_id, None)
        self._fail(trouble)

    def _look_for_range(self, buffer: PartitionBuffer) -> None:
        """Find the way back into the log, once all that was read ahead is handed out."""
        if self._set_aside.get(buffer.name) is SetAside.STRAYS and buffer.is_empty:
            self._set_aside[buffer.name] = SetAside.RETURNS
            self._scope.start(self._return_to_range(buffer), f"find the way back into {buffer.name}")

    async def _return_to_range(self, buffer: PartitionBuffer) -> None:
        try:
            bounds = await find_bounds(self._cluster, [buffer.name], self.settings.isolation)
        except (ClientError, Refusal) as trouble:
            self._strays_on(buffer, trouble)
            return
        if self._buffers.get(buffer.name) is not buffer:
            return  # meanwhile it was withdrawn, or assigned anew
        first, end = bounds[buffer.name]
        if first <= buffer.position <= end:
            # Another node leads by now, and has not deleted as much: what was handed out must not come again.
            self._read_on(buffer)
            return
        if self.settings.out_of_range is OutOfRange.FAIL:
            message = f"{buffer.name} holds offsets {first} to {end - 1}; {buffer.position} was asked for"
            self._strays_on(buffer, Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message))
            return
        offset = first if self.settings.out_of_range is OutOfRange.EARLIEST else end
        if buffer.position < first:
            self.skipped_count += first - buffer.position
        buffer.seek(offset)
        self._read_on(buffer)

    def _read_on(self, buffer: PartitionBuffer) -> None:
        del self._set_aside[buffer.name]
        self._arrived.set()
        self.leaders_moved()

    def _strays_on(self, buffer: PartitionBuffer, trouble: Exception) -> None:
        if self._buffers.get(buffer.name) is buffer:
            self._set_aside[buffer.name] = SetAside.STRAYS
            self._fail(trouble)

    def _told(self) -> Exception:
        """What to raise. Whoever polls again tries again, if anything is left that could."""
        assert self._trouble is not None
        trouble = self._trouble
        if not self._is_broken:
            self._trouble = None
            self._set_aside = {name: why for name, why in self._set_aside.items() if why is not SetAside.REFUSED}
            self.leaders_moved()
            for name in self._set_aside:
                self._look_for_range(self._buffers[name])
        return trouble

    def _fail(self, trouble: Exception) -> None:
        if self._trouble is None:
            self._trouble = trouble
        self._arrived.set()

    def _broke(self, name: str, error: BaseException) -> None:
        self._is_broken = True
        self._fail(ClientError(f"{name} failed: {error!r}"))


async def _start_offsets(
    cluster: Cluster, starts: Mapping[TopicPartition, Start], isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    offsets = {name: int(start) for name, start in starts.items() if isinstance(start, int)}
    wanted = {
        name: start.timestamp_ms if isinstance(start, AtTime) else start
        for name, start in starts.items()
        if name not in offsets
    }
    found = await find_offsets(cluster, wanted, isolation)
    too_late = [name for name, place in found.items() if place.offset < 0]
    ends = await find_offsets(cluster, dict.fromkeys(too_late, Edge.LATEST), isolation) if too_late else {}
    offsets.update({name: (ends.get(name) or place).offset for name, place in found.items()})
    for topic in dict.fromkeys(name.topic for name in offsets):
        await cluster.topic(topic)
    return offsets
