"""Fetches: what a consumer wants, what it has been told already, and the waiting in between.

A fetch session (KIP-227) remembers a consumer's partitions, so that a request names only what changed and an answer
holds only what is new. Partitions tell their sessions when they advance; a wake looks at those alone. Visiting all of
4,000 partitions each time would cost a third of a core. A fetch without a session is a session that lives for one
request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace.broker.partitions.milestones import ByteWait, shares
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, NO_OFFSET, Epoch, NodeId, Offset
from headrace.storage.files.damage import DamagedLog
from headrace.storage.log.repairs import NotYet
from headrace.wire.fetch import FetchedPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.throttling import Throttle
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.runtime.disk import FileSlice

SLICES_MAX: Final = 256  # files that one answer keeps open until it has left
ANSWERS_APART_S: Final = 0.004  # small ones to a follower: one for each of many small messages costs more than they do
GATHER_BELOW: Final = 64 << 10  # bytes of an answer, at either end of it; for more nobody waits

NOT_SEEN: Final = -1
NO_SESSION: Final = 0

Fetched = FetchedPartition["FileSlice"]


class PartitionFetch(NamedTuple):
    """What a request says of one partition: from where on, how much, and where the one who asks is."""

    offset: Offset
    max_bytes: int
    leader_epoch: Epoch
    last_epoch: Epoch = NO_EPOCH
    """Of a follower's last batch before `offset`."""
    flushed: Offset = NO_OFFSET
    """What a follower has on its device."""
    log_start: Offset = NO_OFFSET
    """Where a follower's log begins, for good."""


class SessionPartition:
    """One partition of a session: what was last asked of it, and what was answered."""

    __slots__ = (
        "_found_end",
        "appended_before",
        "fetch",
        "index",
        "partition",
        "position",
        "sent_in",
        "told",
        "topic",
    )

    def __init__(self, topic: str | bytes, index: int, fetch: PartitionFetch) -> None:
        self.topic = topic
        self.index = index
        self.fetch = fetch
        self.position = self._found_end = fetch.offset
        """Where to read on: a follower's next answer follows the one before, also if it has not seen that yet."""
        self.sent_in = 0
        """The number of the last request whose answer had records of it."""
        self.partition: Partition | None = None
        self.told: tuple[int, int, int] | None = None
        """Error, high watermark and log start as last answered; None if never, or after an error."""
        self.appended_before = NOT_SEEN
        """What was ever written to the partition when a waiting fetch last looked."""

    def change(self, newer: PartitionFetch, seen: int) -> None:
        """Whoever fetches says where it is, having seen the answers to requests up to number `seen`."""
        before, self.fetch = self.fetch, newer
        if self.sent_in <= seen or newer.leader_epoch != before.leader_epoch:
            self.position = newer.offset
        if self.told is not None and newer.log_start < self.told[2] and newer.flushed > before.flushed:
            self.told = None  # a follower moves its start only over what it has flushed: now it can go further

    def found_until(self, end: Offset) -> None:
        """A look found records up to there. Whether they are sent is not decided yet."""
        self._found_end = end

    def sent(self, request_number: int) -> None:
        self.position = self._found_end
        self.sent_in = request_number


class Collected:
    """The makings of an answer. Its slices are leased: answer with it or release it."""

    __slots__ = ("bytes_read", "has_error", "is_held_back", "results", "throttled_bytes")

    def __init__(self) -> None:
        self.results: list[tuple[SessionPartition, Fetched]] = []
        self.bytes_read = 0
        self.has_error = False
        self.throttled_bytes = 0
        """Of those that were read: of replicas that are copied at a limited rate."""
        self.is_held_back = False
        """There was more, and the rate does not allow it yet."""

    def slices(self) -> list[FileSlice]:
        return [fetched.records for _, fetched in self.results if fetched.records is not None]

    def release(self) -> None:
        for records in self.slices():
            records.release()

    def give_up(self, unreadable: FileSlice) -> None:
        """These bytes cannot be read: their partition is answered with an error, and all others as before."""
        self.results = [self._without(unreadable, *result) for result in self.results]
        self.bytes_read -= unreadable.size
        self.has_error = True
        unreadable.release()

    @staticmethod
    def _without(unreadable: FileSlice, part: SessionPartition, fetched: Fetched) -> tuple[SessionPartition, Fetched]:
        if fetched.records is not unreadable:
            return part, fetched
        part.told = None  # recovery is news again
        return part, _cannot_read(part)


class WaitingFetch(Protocol):
    """A fetch that waits for its session to have news."""

    def session_changed(self) -> None: ...

    def hurry(self) -> None:
        """Answer now, with whatever there is."""
        ...


class Reader(Protocol):
    """Who reads, where not everybody may read everything."""

    @property
    def identity(self) -> object: ...

    @property
    def generation(self) -> int:
        """Another one whenever what may be read may have changed."""
        ...

    def may_read(self, topic: str | bytes) -> bool: ...


class FetchingFollower(NamedTuple):
    """A node that follows, and which of its lives."""

    node_id: NodeId
    broker_epoch: int


class FetchSession:
    """The partitions that a consumer, or a follower, is interested in. A `watchers.Watcher`.

    A consumer has one request under way. A follower may have several: it tells what it has flushed without waiting for
    an answer. What was sent to it is not sent again because a request crossed the answer.
    """

    def __init__(self, topics: TopicTable, *, session_id: int = NO_SESSION, uses_topic_ids: bool = False) -> None:
        self.follower: FetchingFollower | None = None
        """The follower that fetches; None for a consumer."""
        self.reader: Reader | None = None
        """None where everybody may read everything."""
        self._reader_generation = 0
        self.throttle: Throttle | None = None
        """How fast followers that are not in sync may be served, where a topic's settings say so."""
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used_s = 0.0
        self.on_change: WaitingFetch | None = None
        self.request_number = 0
        self._seen = 0
        self._last_records_s = 0.0
        """When an answer last had records."""
        self._topics = topics
        self._partitions: dict[tuple[str | bytes, int], SessionPartition] = {}
        self._dirty: dict[SessionPartition, None] = {}
        self._by_partition: dict[Partition, SessionPartition] = {}
        self._is_committed_only = False
        self._byte_wait: ByteWait | None = None

    def __len__(self) -> int:
        return len(self._partitions)

    def begin_request(self, unanswered: int = 0) -> None:
        """The next request has come; its reader had no answer yet to so many of those before."""
        self._seen = self.request_number - unanswered
        self.request_number += 1

    def want(self, topic: str | bytes, index: int, fetch: PartitionFetch) -> None:
        """Add a partition, or change where it is read from."""
        part = self._partitions.get((topic, index))
        if part is None:
            part = self._partitions[topic, index] = SessionPartition(topic, index, fetch)
        else:
            part.change(fetch, self._seen)
        self._dirty[part] = None

    def forget(self, topic: str | bytes, index: int) -> None:
        part = self._partitions.pop((topic, index), None)
        if part is not None:
            self._dirty.pop(part, None)
            self._detach(part)

    def close(self) -> None:
        for part in self._partitions.values():
            self._detach(part)
        self._partitions.clear()
        self._dirty.clear()
        self.stop_waiting()

    def partition_changed(self, partition: Partition) -> None:
        self.partition_advanced(partition)
        if self.on_change is not None:
            self.on_change.session_changed()

    def partition_advanced(self, partition: Partition) -> None:
        self._dirty[self._by_partition[partition]] = None

    def partition_readable(self, partition: Partition, *, is_stable: bool) -> None:
        self._dirty[self._by_partition[partition]] = None
        if self.on_change is not None and self._byte_wait is None and is_stable == self._is_committed_only:
            self.on_change.session_changed()

    def await_bytes(self, lacking: int) -> None:
        """After a look that found too little: `on_change` hears of it once there may be so many bytes more."""
        self.stop_waiting()
        parts = [it for it in self._partitions.values() if it.partition is not None]
        self._byte_wait = waiting = ByteWait(self._may_have_enough)
        for it, share in zip(parts, shares(lacking, [_gain(it) for it in parts]), strict=True):
            assert it.partition is not None
            it.partition.watchers.await_bytes(share, waiting, is_committed_only=self._is_committed_only)

    def stop_waiting(self) -> None:
        if self._byte_wait is not None:
            self._byte_wait.is_over = True
            self._byte_wait = None

    def _may_have_enough(self) -> None:
        if self.on_change is not None:
            self.on_change.session_changed()

    def collect(self, max_bytes: int, *, is_full: bool, is_committed_only: bool) -> Collected:
        """Read what there is. A full answer names every partition, another one only those with news."""
        if is_committed_only != self._is_committed_only:
            self._is_committed_only = is_committed_only
            self._dirty |= dict.fromkeys(self._partitions.values())
        if self.reader is not None and (generation := self.reader.generation) != self._reader_generation:
            self._reader_generation = generation
            if not is_full:
                self._dirty |= dict.fromkeys(self._partitions.values())
        collected = Collected()
        slices_left = SLICES_MAX
        try:
            for part in list(self._partitions.values() if is_full else self._dirty):
                room = max_bytes - collected.bytes_read if slices_left else 0
                fetched = self._read(part, room, collected, is_committed_only)
                self._take(collected, part, fetched, is_full=is_full, is_committed_only=is_committed_only)
                slices_left -= fetched.records is not None
        except BaseException:
            collected.release()
            raise
        return collected

    def gather_s(self, collected: Collected, now_s: float) -> float:
        """For how long a follower waits for more than that, if it got something only a moment ago. Not above 0: it does
        not."""
        if self.follower is None or collected.has_error or collected.bytes_read >= GATHER_BELOW:
            return 0.0
        return self._last_records_s + ANSWERS_APART_S - now_s

    def note_told(self, collected: Collected, request_number: int, now_s: float) -> None:
        """These results, which were collected just now, answer that request."""
        if collected.bytes_read:
            self._last_records_s = now_s
        if collected.throttled_bytes and self.throttle is not None:
            self.throttle.took(collected.throttled_bytes)
        for part, fetched in collected.results:
            if fetched.error_code:
                part.told = None  # recovery is news again
            else:
                part.told = _telling(fetched)
            if fetched.records is not None:
                if self.follower is not None:
                    part.sent(request_number)
                # The next answer begins with those that got nothing this time.
                self._dirty.pop(part, None)
                self._dirty[part] = None

    def _take(
        self, collected: Collected, part: SessionPartition, fetched: Fetched, *, is_full: bool, is_committed_only: bool
    ) -> None:
        has_records, has_news = fetched.records is not None, part.told != _telling(fetched)
        if fetched.error_code or fetched.diverging is not None:
            collected.has_error = True
        elif (
            not has_records
            and not has_news  # else it must be found again: this look may not lead to an answer
            and self._readable_end(part, fetched, is_committed_only) <= part.position
        ):
            self._dirty.pop(part, None)  # until the partition says otherwise
        if not has_records and not fetched.error_code and self.follower is None and part.partition is not None:
            part.partition.watchers.arm(self, is_committed_only=is_committed_only)
        if is_full or has_records or collected.has_error or has_news:
            collected.results.append((part, fetched))
            if fetched.records is not None:
                collected.bytes_read += fetched.records.size

    def _readable_end(self, part: SessionPartition, fetched: Fetched, is_committed_only: bool) -> int:
        if self.follower is not None and part.partition is not None:
            return part.partition.log.next_offset
        return fetched.last_stable_offset if is_committed_only else fetched.high_watermark

    def _read(self, part: SessionPartition, room: int, collected: Collected, is_committed_only: bool) -> Fetched:
        if self.reader is not None and not self.reader.may_read(part.topic):
            return FetchedPartition(part.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1, -1)
        try:
            partition = self._topics.partition(part.topic, part.index)
            if part.partition is not partition:
                self._attach(part, partition)
            if self.follower is not None:
                return self._read_for_follower(partition, part, room, collected)
            readable = partition.read(
                part.position,
                min(part.fetch.max_bytes, room),
                at_least_one=collected.bytes_read == 0,
                leader_epoch=part.fetch.leader_epoch,
                is_committed_only=is_committed_only,
            )
        except NotYet:
            return _cannot_read(part) if partition.log.damage else _nothing_yet(partition)
        except Refusal as refusal:
            return FetchedPartition(part.index, refusal.code, -1, -1, -1)
        except DamagedLog as damage:
            partition.met(damage)
            return _cannot_read(part)
        return FetchedPartition(
            part.index,
            ErrorCode.NONE,
            readable.high_watermark,
            readable.last_stable_offset,
            readable.log_start_offset,
            readable.records,
            [(aborted.producer_id, aborted.first_offset) for aborted in readable.aborted]
            if is_committed_only
            else None,
        )

    def _read_for_follower(
        self, partition: Partition, part: SessionPartition, room: int, collected: Collected
    ) -> Fetched:
        partition.replica.check_epoch(part.fetch.leader_epoch)
        partition.replica.check_read()
        diverging = partition.divergence(part.fetch.offset, part.fetch.last_epoch)
        if diverging is not None:
            return FetchedPartition(part.index, ErrorCode.NONE, -1, -1, -1, diverging=diverging)
        position, start = part.position, Offset(partition.log.start_offset)
        if position < start:
            first = partition.log.reader.first_batch_offset()
            if position < first:  # what it lacks is gone here as well: it has to begin anew where we do
                return FetchedPartition(part.index, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, first)
            position = start  # in the middle of a batch, which it gets whole
        throttle = self._throttle_of(partition)
        most = min(part.fetch.max_bytes, room)
        at_least_one = collected.bytes_read == 0 and part.fetch.max_bytes > 0
        if throttle is not None:
            allowed = max(0, throttle.room() - collected.throttled_bytes)
            at_least_one = allowed > 0 and (at_least_one or allowed < most)  # a large batch is paid for afterwards
            most = min(most, allowed)
            collected.is_held_back |= not allowed and position < partition.log.next_offset
        readable, end = partition.read_for_follower(position, most, at_least_one=at_least_one)
        part.found_until(end)
        if throttle is not None and readable.records is not None:
            collected.throttled_bytes += readable.records.size
        return FetchedPartition(
            part.index,
            ErrorCode.NONE,
            readable.high_watermark,
            readable.last_stable_offset,
            readable.log_start_offset,
            readable.records,
            may_have_gaps=partition.log.may_have_gaps,
        )

    def _throttle_of(self, partition: Partition) -> Throttle | None:
        """What limits the copying of this partition to this follower, if anything does."""
        assert self.follower is not None
        replica = partition.replica
        if not partition.settings.throttles_leader(partition.index, replica.node_id):
            return None
        return None if self.follower.node_id in replica.in_sync else self.throttle

    def held_back_s(self, collected: Collected) -> float | None:
        """After how long there may be more than was collected. None: only the partitions know."""
        return self.throttle.ready_in_s() if collected.is_held_back and self.throttle is not None else None

    def note_progress(self, topic: str | bytes, index: int, fetch: PartitionFetch) -> None:
        """A follower says how far it is. Once for each time that it says so, not for each time that it is served."""
        assert self.follower is not None
        partition = self._topics.find(topic, index)
        if partition is None or not partition.replica.is_leader:
            return
        try:
            is_ours = fetch.leader_epoch == partition.replica.leader_epoch and (
                partition.divergence(fetch.offset, fetch.last_epoch) is None
            )
        except NotYet:
            return
        except DamagedLog as damage:
            partition.met(damage)
            return
        if is_ours:
            partition.follower_fetched(*self.follower, fetch.offset, fetch.flushed, fetch.log_start)

    def _attach(self, part: SessionPartition, partition: Partition) -> None:
        if part.partition is not None:
            self._detach(part)
        part.partition = partition
        self._by_partition[partition] = part
        partition.watchers.add(self, is_follower=self.follower is not None)

    def _detach(self, part: SessionPartition) -> None:
        if part.partition is not None:
            part.partition.watchers.remove(self)
            self._by_partition.pop(part.partition, None)
            part.partition = None


def _cannot_read(part: SessionPartition) -> Fetched:
    return FetchedPartition(part.index, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)


def _nothing_yet(partition: Partition) -> Fetched:
    """There may be records, but what finds them is being made: the partition says when it is there."""
    start = partition.log.start_offset
    return FetchedPartition(
        partition.index, ErrorCode.NONE, partition.high_watermark, partition.last_stable_offset, start
    )


def _gain(part: SessionPartition) -> int:
    """What was written to a partition since the last call."""
    assert part.partition is not None
    before, part.appended_before = part.appended_before, part.partition.log.bytes_appended
    return max(0, part.appended_before - before) if before != NOT_SEEN else 0


def _telling(fetched: Fetched) -> tuple[int, int, int]:
    return fetched.error_code, fetched.high_watermark, fetched.log_start_offset


def by_topic(results: Iterable[tuple[SessionPartition, Fetched]]) -> list[tuple[str | bytes, list[Fetched]]]:
    """Group an answer's partitions by topic, in the order in which topics first appear."""
    topics: dict[str | bytes, list[Fetched]] = {}
    for part, fetched in results:
        topics.setdefault(part.topic, []).append(fetched)
    return list(topics.items())
