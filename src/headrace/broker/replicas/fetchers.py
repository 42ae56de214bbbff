"""Following leaders: one loop of fetches for each node that leads something we have a replica of.

A follower fetches ahead of what it has flushed, and tells with each fetch how much it has. While nothing comes, a
fetch waits at the leader; when our disk has flushed more, another one is sent to say so, and the leader answers the
first at once. So the leader learns what is safe as soon as it is, and many bytes never wait for a disk. After a few
bytes the next fetch does, for a moment: until they are flushed the leader gathers more.

A fetch names only partitions of which there is something new to say. One that the leader refuses is left out for a
moment, so that it does not slow down the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.broker.membership.peers import RETRY_FIRST_S, RETRY_MAX_S
from headrace.broker.partitions.fetch_session import GATHER_BELOW
from headrace.broker.partitions.follower_writing import UnexpectedGaps
from headrace.broker.replicas.fetcher_session import PARTITION_BYTES, FetcherSession
from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, NO_OFFSET, Epoch, LogId, Offset
from headrace.runtime.tasks import TaskScope
from headrace.storage.files.damage import DamagedLog
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.messages.fetch import FetchResponse, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.broker.membership.peers import Peers
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.throttling import Pacing, Throttle
    from headrace.model.names import NodeId
    from headrace.storage.store.log_store import LogStore
    from headrace.wire.messages.fetch import FetchRequest, PartitionData

log = logging.getLogger(__name__)

LANE: Final = "replicas"
WAIT_MS: Final = 500
ANSWER_S: Final = 5.0  # beyond the wait: a leader may have to read a cold disk
FETCH_BYTES: Final = 8 << 20
AHEAD_MAX: Final = 2  # fetches under way: one that waits, and one that says what was flushed meanwhile
GATHER_S: Final = 0.01  # a usual disk has flushed by then


class ReplicaFetchers:
    """Which partitions this node follows, and from whom."""

    def __init__(
        self,
        node_id: NodeId,
        peers: Peers,
        store: LogStore,
        broker_epoch: Callable[[], int],
        on_failure: Callable[[str, BaseException], None],
        pacing: Pacing | None = None,
    ) -> None:
        self.begin_anew: Callable[[Partition, Offset], None] = lambda *_: None
        """Hears that a replica is to be thrown away, and begun where its leader's log begins."""
        self.bad_fetch: Callable[[Partition, NodeId], None] = lambda *_: None
        """Hears that what a leader sent was damaged."""
        self.no_room: Callable[[Partition], None] = lambda _: None
        """Hears that a replica cannot follow for lack of space on the disk."""
        self._node_id = node_id
        self._peers = peers
        self._store = store
        self._broker_epoch = broker_epoch
        self._pacing = pacing
        self._tasks = TaskScope(on_failure)
        self._fetchers: dict[NodeId, _LeaderFetcher] = {}
        self._leaders: dict[LogId, NodeId] = {}
        self._cuts: dict[LogId, asyncio.Future[None]] = {}

    def follow(self, partition: Partition, leader: NodeId) -> None:
        """From its present leader epoch on. Whoever was followed before is no longer."""
        self.leave(partition)
        if leader < 0:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = _LeaderFetcher(self, leader)
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

    def throttle_of(self, partition: Partition) -> Throttle | None:
        return None if self._pacing is None else self._pacing.throttle_of(partition)

    def ask(self, leader: NodeId, request: FetchRequest, wait_ms: int) -> Coroutine[object, object, FetchResponse]:
        request.replica_state = ReplicaState(self._node_id, self._broker_epoch())
        request.max_wait_ms, request.min_bytes, request.max_bytes = wait_ms, 1, FETCH_BYTES
        return self._peers.ask(leader, request, FetchResponse, lane=LANE, timeout_s=WAIT_MS / 1000 + ANSWER_S)

    async def store_starts(self) -> None:
        await self._store.checkpoints.write_start_offsets()

    async def expect_gaps(self, partition: Partition) -> None:
        await self._store.replacer.expect_gaps(partition.log)

    async def cut(self, partition: Partition, offset: Offset) -> None:
        await self._keep_committed(partition, offset)
        log.info("%s: cut at %d, where the leader's log goes on differently", partition.name, offset)
        done = self._cuts[partition.log_id] = asyncio.get_running_loop().create_future()
        try:
            await self._store.truncation.truncate(partition.log, offset, partition.follower_writer.was_cut)
        finally:
            del self._cuts[partition.log_id]
            done.set_result(None)

    async def _keep_committed(self, partition: Partition, offset: Offset) -> None:
        """The leader lacks what was once committed: whoever elected it knew no better, or did not mind. What is cut off
        here may be the last copy. Raises Refusal if there is no room to keep it."""
        committed = max(partition.high_watermark, self._store.checkpoints.committed_offset(partition.log_id))
        if offset >= committed:
            return
        kept = await self._store.truncation.keep_tail(partition.log, offset)
        settings = partition.settings
        is_expected = settings.unclean_leader_election_enable or not settings.commits_when_flushed
        log.log(
            logging.WARNING if is_expected else logging.ERROR,
            "%s: its leader, node %d, lacks records that were committed. This copy is cut at %d, and was known to be "
            "committed up to %d; what is cut off is kept in %s",
            partition.name,
            partition.replica.leader,
            offset,
            committed,
            ", ".join(kept) or "no file: it held nothing there",
        )

    async def cut_done(self, log_id: LogId) -> None:
        """Until nothing is being cut off: nobody may write there meanwhile, a new leader least of all."""
        while (cut := self._cuts.get(log_id)) is not None:
            await asyncio.shield(cut)


class _UnderWay(NamedTuple):
    answer: asyncio.Task[FetchResponse]
    number: int


class _LeaderFetcher:
    """The loop for one leader."""

    def __init__(self, fetchers: ReplicaFetchers, leader: NodeId) -> None:
        self._fetchers = fetchers
        self._leader = leader
        self._partitions: dict[LogId, Partition] = {}
        self._resting: dict[LogId, asyncio.TimerHandle] = {}
        """Partitions of which nothing is asked for now."""
        self._stuck: set[LogId] = set()
        """Those whose records our own disk does not take: said once, and tried again more seldom."""
        self._session = FetcherSession(self._appetite)
        self._held: dict[LogId, None] = {}
        """Partitions of which nothing is asked for until the throttle has room."""
        self._hold: asyncio.TimerHandle | None = None
        self._has_news = False
        self._stirred = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None
        """While it is set, the next fetch waits for what the last one brought to be flushed."""
        self._owes_starts = False
        """A log begins elsewhere now, and that is not stored yet: the leader must not be told."""

    def add(self, partition: Partition) -> None:
        self._partitions[partition.log_id] = partition
        self._session.add(partition)
        self._tell()

    def remove(self, partition: Partition) -> None:
        log_id = partition.log_id
        self._partitions.pop(log_id, None)
        self._session.remove(log_id)
        self._stuck.discard(log_id)
        rest = self._resting.pop(log_id, None)
        if rest is not None:
            rest.cancel()
        self._tell()

    def flushed(self, partition: Partition) -> None:
        self._session.may_have_changed(partition.log_id)
        self._tell()

    def _tell(self) -> None:
        """There is something that the leader should know."""
        self._has_news = True
        self._end_gathering()

    def _gather(self) -> None:
        """Let the leader gather what comes meanwhile. It could not be flushed here any sooner, and a fetch for each
        of many small messages costs all nodes more than the messages do."""
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_S, self._end_gathering)

    def _end_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._stirred.set()

    async def run(self) -> None:
        retry_s = RETRY_FIRST_S
        while True:
            if not self._partitions:
                await self._next_stir()
                continue
            try:
                await self._fetch_on()
                retry_s = RETRY_FIRST_S
            except (ClientError, Refusal) as trouble:
                log.debug("node %d cannot be followed now: %s", self._leader, trouble)
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, RETRY_MAX_S)

    async def _next_stir(self) -> None:
        await self._stirred.wait()
        self._stirred.clear()

    async def _fetch_on(self) -> None:
        """Fetch after fetch in one session, until there is trouble, or nothing to follow any more."""
        under_way: deque[_UnderWay] = deque()
        self._session.reset()
        await self._store_starts()
        try:
            while self._partitions and not self._session.is_used_up:
                if self._is_time_to_ask(len(under_way)):
                    under_way.append(self._ask(len(under_way)))
                elif under_way and under_way[0].answer.done():
                    first = under_way.popleft()
                    await self._take(first.answer.result(), first.number)
                else:
                    await self._next_stir()
        finally:
            self._end_gathering()
            for fetch in under_way:
                fetch.answer.cancel()

    def _is_time_to_ask(self, under_way_count: int) -> bool:
        if not under_way_count:
            return len(self._session) > 0 and self._gathering is None
        return self._has_news and self._session.is_open and under_way_count < AHEAD_MAX

    def _ask(self, under_way_count: int) -> _UnderWay:
        request = self._session.request(under_way_count)
        self._has_news = self._session.has_more_to_say
        wait_ms = WAIT_MS if self._session.is_open and not self._has_news else 0
        answer = asyncio.ensure_future(self._fetchers.ask(self._leader, request, wait_ms))
        answer.add_done_callback(lambda _: self._stirred.set())
        return _UnderWay(answer, self._session.request_number)

    async def _take(self, answer: FetchResponse, number: int) -> None:
        if answer.error_code:
            raise Refusal(ErrorCode(answer.error_code), f"node {self._leader} refuses to be followed")
        if not self._session.answered(answer.session_id):
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"node {self._leader} keeps no fetch session")
        taken_bytes = 0
        for topic in answer.responses:
            for part in topic.partitions:
                taken_bytes += len(part.records or b"")
                partition = self._session.expects(LogId(topic.topic_id, part.partition_index), number)
                if partition is not None:
                    self._count(partition, len(part.records or b""))
                if partition is not None and not await self._take_partition(partition, part, number):
                    self._rest(partition)
        await self._store_starts()
        if 0 < taken_bytes < GATHER_BELOW and not self._has_news:
            self._gather()

    def _count(self, partition: Partition, size: int) -> None:
        throttle = self._fetchers.throttle_of(partition) if size else None
        if throttle is not None:
            throttle.took(size)

    def _appetite(self, partition: Partition) -> int:
        """How much of it to ask for in the next request. Whoever may have nothing still says how far it is."""
        throttle = self._fetchers.throttle_of(partition)
        if throttle is None:
            return PARTITION_BYTES
        if throttle.room() > 0:
            return throttle.portion(PARTITION_BYTES)
        self._held[partition.log_id] = None
        if self._hold is None:
            self._hold = asyncio.get_running_loop().call_later(throttle.ready_in_s(), self._end_hold)
        return 0

    def _end_hold(self) -> None:
        self._hold = None
        for log_id in self._held:
            self._session.may_have_changed(log_id)
        self._held.clear()
        self._tell()

    async def _take_partition(self, partition: Partition, part: PartitionData, number: int) -> bool:
        """False if the partition is better left alone for a moment."""
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and part.log_start_offset > partition.log.next_offset:
            return self._begin_anew(partition, Offset(part.log_start_offset))
        if part.error_code:
            log.debug("%s: node %d answers %s", partition.name, self._leader, ErrorCode(part.error_code).name)
            return False
        epoch, end = Epoch(part.diverging_epoch.epoch), Offset(part.diverging_epoch.end_offset)
        if end == NO_OFFSET:
            return await self._append_with_gaps(partition, part, number)
        return self._begin_anew(partition, end) if epoch == NO_EPOCH else await self._cut(partition, epoch, end)

    def _begin_anew(self, partition: Partition, start: Offset) -> bool:
        log.warning(
            "%s: the leader has nothing before %d any more, and this replica, which ends at %d, nothing that it knows "
            "of; it begins anew there",
            partition.name,
            start,
            partition.log.next_offset,
        )
        self.remove(partition)
        self._fetchers.begin_anew(partition, start)
        return True

    async def _append_with_gaps(self, partition: Partition, part: PartitionData, number: int) -> bool:
        try:
            return self._append(partition, part)
        except UnexpectedGaps:
            pass
        try:
            await self._fetchers.expect_gaps(partition)
        except Refusal as refusal:
            self._got_stuck(partition, refusal)
            return False
        if self._session.expects(partition.log_id, number) is not partition or not partition.log.may_have_gaps:
            return False  # it was cut, begun anew or given up meanwhile
        return self._append(partition, part)

    def _append(self, partition: Partition, part: PartitionData) -> bool:
        self._session.may_have_changed(partition.log_id)
        records = memoryview(part.records or b"")
        try:
            self._owes_starts |= partition.follower_writer.append(
                records,
                Offset(part.high_watermark),
                Offset(part.log_start_offset),
                may_have_gaps=part.may_have_gaps,
            )
        except CorruptBatch as damage:
            log.warning(
                "%s: node %d sent bad bytes: %s; they are asked for again", partition.name, self._leader, damage
            )
            self._fetchers.bad_fetch(partition, self._leader)
            return False
        except Refusal as refusal:
            self._got_stuck(partition, refusal)
            return False
        if records and partition.log_id in self._stuck:
            self._stuck.discard(partition.log_id)
            log.info("%s follows again", partition.name)
        if records and not partition.settings.commits_when_flushed:
            self._tell()  # to have it written is enough for some topics
        return True

    async def _store_starts(self) -> None:
        if self._owes_starts:
            await self._fetchers.store_starts()
            self._owes_starts = False
            self._tell()

    async def _cut(self, partition: Partition, epoch: Epoch, end: Offset) -> bool:
        """To the latest place that both logs may have; if they part earlier, the next fetch tells."""
        _, own_end = partition.log.epochs.end_offset_for(epoch, partition.log.next_offset)
        try:
            await self._fetchers.cut(partition, Offset(min(end, own_end if own_end >= 0 else end)))
        except Refusal as refusal:
            self._got_stuck(partition, refusal)
            return False
        except DamagedLog as damage:
            partition.met(damage)
            return False
        self._session.begin_again(partition)
        self._tell()  # a fetch that waits there now knows nothing of it
        return True

    def _got_stuck(self, partition: Partition, refusal: Refusal) -> None:
        """The disk has no room. Said once."""
        if partition.log_id not in self._stuck:
            self._stuck.add(partition.log_id)
            self._fetchers.no_room(partition)
            log.warning("%s cannot follow now: %s", partition.name, refusal.message)

    def _rest(self, partition: Partition) -> None:
        """Ask for it again a little later. The image may tell by then who leads; at once would be told the same.

        A full disk has no room in a moment either, and what the leader sends meanwhile is thrown away.
        """
        log_id = partition.log_id
        rest_s = RETRY_MAX_S if log_id in self._stuck else RETRY_FIRST_S
        if self._partitions.get(log_id) is partition:
            self._session.remove(log_id)
            self._resting[log_id] = asyncio.get_running_loop().call_later(rest_s, self._end_rest, partition)

    def _end_rest(self, partition: Partition) -> None:
        del self._resting[partition.log_id]
        self._session.add(partition)
        self._tell()
