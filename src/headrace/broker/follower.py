"""Following leaders: one loop of fetches for each node that leads something we have a replica of.

A follower fetches ahead of what it has flushed, and tells with each fetch how much it has. While nothing comes, a
fetch waits at the leader; when our disk has flushed more, another one is sent to say so, and the leader answers the
first at once. So the leader learns what is safe as soon as it is, and bytes never wait for a disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, Epoch, LogId, Offset
from headrace.runtime.tasks import TaskScope
from headrace.wire.batches import CorruptBatch
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.broker.partition import Partition
    from headrace.broker.peers import Peers
    from headrace.model.names import NodeId, TopicId
    from headrace.storage.store import LogStore
    from headrace.wire.messages.fetch import PartitionData

Asked = dict[LogId, tuple[Epoch, Offset]]
"""In which leader epoch, and from where on, each partition was asked for."""

log = logging.getLogger(__name__)

LANE: Final = "replicas"
WAIT_MS: Final = 500
ANSWER_S: Final = 5.0  # beyond the wait: a leader may have to read a cold disk
FETCH_BYTES: Final = 8 << 20
PARTITION_BYTES: Final = 1 << 20
AHEAD_MAX: Final = 2  # fetches under way: one that waits, and one that says what was flushed meanwhile
RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 1.0


class Followers:
    """Which partitions this node follows, and from whom."""

    def __init__(
        self,
        node_id: NodeId,
        peers: Peers,
        store: LogStore,
        broker_epoch: Callable[[], int],
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        self.begin_anew: Callable[[Partition, Offset], None]
        """Set by whoever opens partitions: throw a replica away and begin it where its leader does."""
        self.bad_fetch: Callable[[Partition, NodeId], None]
        """Set by whoever cares for damage: what a leader sent was damaged."""
        self._node_id = node_id
        self._peers = peers
        self._store = store
        self._broker_epoch = broker_epoch
        self._tasks = TaskScope(on_failure)
        self._fetchers: dict[NodeId, _Fetcher] = {}
        self._leaders: dict[LogId, NodeId] = {}
        self._cuts: dict[LogId, asyncio.Future[None]] = {}

    def follow(self, partition: Partition, leader: NodeId) -> None:
        """From its present leader epoch on. Whoever was followed before is no longer."""
        self.leave(partition)
        if leader < 0:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = _Fetcher(self, leader)
            self._tasks.start(fetcher.run(), f"follow node {leader}")
        self._leaders[partition.log_id] = leader
        partition.on_flushed = fetcher.flushed
        fetcher.add(partition)

    def leave(self, partition: Partition) -> None:
        partition.on_flushed = None
        leader = self._leaders.pop(partition.log_id, None)
        if leader is not None:
            self._fetchers[leader].remove(partition)

    async def close(self) -> None:
        await self._tasks.close()

    # ---- what fetchers need

    def request(self, topics: list[FetchTopic]) -> FetchRequest:
        return FetchRequest(
            replica_state=ReplicaState(self._node_id, self._broker_epoch()),
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=topics,
        )

    def ask(self, leader: NodeId, request: FetchRequest) -> Coroutine[object, object, FetchResponse]:
        return self._peers.ask(leader, request, FetchResponse, lane=LANE, timeout_s=WAIT_MS / 1000 + ANSWER_S)

    async def store_starts(self) -> None:
        await self._store.write_start_offsets()

    async def cut(self, partition: Partition, offset: Offset) -> None:
        log.info("%s: cut at %d, where the leader's log goes on differently", partition.name, offset)
        done = self._cuts[partition.log_id] = asyncio.get_running_loop().create_future()
        try:
            await self._store.truncate(partition.log, offset, partition.was_cut)
        finally:
            del self._cuts[partition.log_id]
            done.set_result(None)

    async def cut_done(self, log_id: LogId) -> None:
        """Until nothing is being cut off: nobody may write there meanwhile, a new leader least of all."""
        while (cut := self._cuts.get(log_id)) is not None:
            await asyncio.shield(cut)


class _UnderWay(NamedTuple):
    answer: asyncio.Task[FetchResponse]
    asked: Asked


class _Fetcher:
    """The loop for one leader."""

    def __init__(self, followers: Followers, leader: NodeId) -> None:
        self._followers = followers
        self._leader = leader
        self._partitions: dict[LogId, Partition] = {}
        self._news = asyncio.Event()
        self._owes_starts = False
        """A log begins elsewhere now, and that is not stored yet: the leader must not be told."""

    def add(self, partition: Partition) -> None:
        self._partitions[partition.log_id] = partition
        self._news.set()

    def remove(self, partition: Partition) -> None:
        self._partitions.pop(partition.log_id, None)
        self._news.set()

    def flushed(self, _: Partition) -> None:
        self._news.set()

    async def run(self) -> None:
        retry_s = RETRY_FIRST_S
        while True:
            if not self._partitions:
                await self._news.wait()
                self._news.clear()
                continue
            try:
                await self._fetch_on()
                retry_s = RETRY_FIRST_S
            except (ClientError, Refusal) as trouble:
                log.debug("node %d cannot be followed now: %s", self._leader, trouble)
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, RETRY_MAX_S)

    async def _fetch_on(self) -> None:
        """Fetch after fetch, until there is trouble, or nothing to follow any more."""
        under_way: deque[_UnderWay] = deque()
        await self._store_starts()
        try:
            while self._partitions:
                if not under_way or (self._news.is_set() and len(under_way) < AHEAD_MAX):
                    self._news.clear()
                    under_way.append(self._ask())
                    continue
                await _first_of(under_way[0].answer, self._news if len(under_way) < AHEAD_MAX else None)
                if under_way[0].answer.done():
                    first = under_way.popleft()
                    await self._take(first.answer.result(), first.asked)
        finally:
            for fetch in under_way:
                fetch.answer.cancel()

    def _ask(self) -> _UnderWay:
        answer = asyncio.ensure_future(self._followers.ask(self._leader, self._request()))
        asked = {
            log_id: (partition.replica.leader_epoch, Offset(partition.log.next_offset))
            for log_id, partition in self._partitions.items()
        }
        return _UnderWay(answer, asked)

    def _request(self) -> FetchRequest:
        topics: dict[TopicId, FetchTopic] = {}
        for log_id, partition in self._partitions.items():
            topic = topics.get(log_id.topic_id)
            if topic is None:
                topic = topics[log_id.topic_id] = FetchTopic(topic_id=log_id.topic_id)
            topic.partitions.append(_wanted(log_id, partition))
        return self._followers.request(list(topics.values()))

    async def _take(self, answer: FetchResponse, asked: Asked) -> None:
        if answer.error_code:
            raise Refusal(ErrorCode(answer.error_code), f"node {self._leader} refuses to be followed")
        has_trouble = False
        for topic in answer.responses:
            for part in topic.partitions:
                log_id = LogId(topic.topic_id, part.partition_index)
                partition = self._partitions.get(log_id)
                place = asked.get(log_id)
                if partition is not None and place is not None and _is_current(partition, *place):
                    has_trouble |= not await self._take_partition(partition, part, place[1])
        await self._store_starts()
        if has_trouble:  # the image will tell who leads now; asking at once would be told the same
            await asyncio.sleep(RETRY_FIRST_S)

    async def _take_partition(self, partition: Partition, part: PartitionData, asked_offset: Offset) -> bool:
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and part.log_start_offset > partition.log.next_offset:
            log.warning(
                "%s: the leader has nothing before %d any more, and this replica ends at %d; it begins anew there",
                partition.name,
                part.log_start_offset,
                partition.log.next_offset,
            )
            self.remove(partition)
            self._followers.begin_anew(partition, Offset(part.log_start_offset))
            return True
        if part.error_code:
            log.debug("%s: node %d answers %s", partition.name, self._leader, ErrorCode(part.error_code).name)
            return False
        if part.diverging_epoch.end_offset >= 0:
            await self._cut(partition, Epoch(part.diverging_epoch.epoch), Offset(part.diverging_epoch.end_offset))
            return True
        try:
            self._owes_starts |= partition.append_from_leader(
                memoryview(part.records or b""),
                asked_offset,
                Offset(part.high_watermark),
                Offset(part.log_start_offset),
            )
        except CorruptBatch as damage:
            log.warning(
                "%s: node %d sent bad bytes: %s; they are asked for again", partition.name, self._leader, damage
            )
            self._followers.bad_fetch(partition, self._leader)
            return False
        except Refusal as refusal:
            log.warning("%s cannot follow now: %s", partition.name, refusal.message)
            return False
        return True

    async def _store_starts(self) -> None:
        if self._owes_starts:
            await self._followers.store_starts()
            self._owes_starts = False

    async def _cut(self, partition: Partition, epoch: Epoch, end: Offset) -> None:
        """To the latest place that both logs may have; if they part earlier, the next fetch tells."""
        _, own_end = partition.log.epochs.end_offset_for(epoch, partition.log.next_offset)
        await self._followers.cut(partition, Offset(min(end, own_end if own_end >= 0 else end)))


def _wanted(log_id: LogId, partition: Partition) -> FetchPartition:
    log_ = partition.log
    return FetchPartition(
        partition=log_id.partition,
        current_leader_epoch=partition.replica.leader_epoch,
        fetch_offset=log_.next_offset,
        last_fetched_epoch=log_.epochs.latest if log_.next_offset > log_.start_offset else NO_EPOCH,
        log_start_offset=log_.start_offset,
        partition_max_bytes=PARTITION_BYTES,
        flushed_offset=log_.flushed_offset,
    )


def _is_current(partition: Partition, epoch: Epoch, offset: Offset) -> bool:
    """Whether an answer still fits: the same leadership, and a log that was not cut back since."""
    return epoch == partition.replica.leader_epoch and offset <= partition.log.next_offset


async def _first_of(answer: asyncio.Task[FetchResponse], news: asyncio.Event | None) -> None:
    """Until the answer is there, or there is news to tell."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    answer.add_done_callback(wake)
    waiting = None if news is None else asyncio.ensure_future(news.wait())
    if waiting is not None:
        waiting.add_done_callback(wake)
    try:
        await woken
    finally:
        answer.remove_done_callback(wake)
        if waiting is not None:
            waiting.cancel()
