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
    from headrace.runtime.clock import Clock
    from headrace.runtime.disk import FileSlice
    from headrace.runtime.entropy import Entropy

EVICTABLE_AFTER_S: Final = 120.0  # a session in use is not taken away from its consumer
SESSION_PARTITIONS_MAX: Final = 500_000  # of all sessions together: some 100 MB, whatever clients pretend to want
SLICES_MAX: Final = 256  # files that one answer keeps open until it has left
SESSION_ID_MAX: Final = 2**31 - 1
ANSWERS_APART_S: Final = 0.004  # small ones to a follower: one for each of many small messages costs more than they do
GATHER_BELOW: Final = 64 << 10  # bytes of an answer, at either end of it; for more nobody waits

NOT_SEEN: Final = -1
NO_SESSION: Final = 0
EPOCH_OPENS: Final = 0
EPOCH_CLOSES: Final = -1

Fetched = FetchedPartition["FileSlice"]


class Wanted:
    """One partition of a fetch: from where on, how much, and what was answered last."""

    __slots__ = (
        "_found_end",
        "appended_before",
        "flushed",
        "index",
        "last_epoch",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "partition",
        "position",
        "sent_in",
        "told",
        "topic",
    )

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        offset: Offset,
        max_bytes: int,
        leader_epoch: Epoch,
        last_epoch: Epoch = NO_EPOCH,
        flushed: Offset = NO_OFFSET,
        log_start: Offset = NO_OFFSET,
    ) -> None:
        self.topic = topic
        self.index = index
        self.offset = offset
        self.position = offset
        """Where to read on: a follower's next answer follows the one before, also if it has not seen that yet."""
        self.sent_in = 0
        """The number of the last request whose answer had records of it."""
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_epoch = last_epoch
        """Of a follower's last batch before `offset`."""
        self.flushed = flushed
        """What a follower has on its device."""
        self.log_start = log_start
        """Where a follower's log begins, for good."""
        self.partition: Partition | None = None
        self.told: tuple[int, int, int] | None = None
        """Error, high watermark and log start as last answered; None if never, or after an error."""
        self.appended_before = NOT_SEEN
        """What was ever written to the partition when a waiting fetch last looked."""
        self._found_end = offset

    def change(self, newer: Wanted, seen: int) -> None:
        """The reader says where it is, having seen the answers to requests up to number `seen`."""
        if self.sent_in <= seen or newer.leader_epoch != self.leader_epoch:
            self.position = newer.offset
        self.offset = newer.offset
        self.max_bytes = newer.max_bytes
        self.leader_epoch, self.last_epoch = newer.leader_epoch, newer.last_epoch
        if self.told is not None and newer.log_start < self.told[2] and newer.flushed > self.flushed:
            self.told = None  # a follower moves its start only over what it has flushed: now it can go further
        self.flushed, self.log_start = newer.flushed, newer.log_start

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
        self.results: list[tuple[Wanted, Fetched]] = []
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
    def _without(unreadable: FileSlice, wanted: Wanted, fetched: Fetched) -> tuple[Wanted, Fetched]:
        if fetched.records is not unreadable:
            return wanted, fetched
        wanted.told = None  # recovery is news again
        return wanted, _cannot_read(wanted)


class Waiting(Protocol):
    """A fetch that waits for its session to have news."""

    def session_changed(self) -> None: ...

    def hurry(self) -> None:
        """Answer now, with whatever there is."""
        ...


class Reader(NamedTuple):
    """A node that follows, and which of its lives."""

    node_id: NodeId
    broker_epoch: int


class FetchSession:
    """The partitions that a consumer, or a follower, is interested in. A `watchers.Watcher`.

    A consumer has one request under way. A follower may have several: it tells what it has flushed without waiting for
    an answer. What was sent to it is not sent again because a request crossed the answer.
    """

    def __init__(self, topics: TopicTable, *, session_id: int = NO_SESSION, uses_topic_ids: bool = False) -> None:
        self.reader: Reader | None = None
        """The follower that fetches; None for a consumer."""
        self.throttle: Throttle | None = None
        """How fast followers that are not in sync may be served, where a topic's settings say so."""
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used_s = 0.0
        self.on_change: Waiting | None = None
        self.request_number = 0
        self._seen = 0
        self._last_records_s = 0.0
        """When an answer last had records."""
        self._topics = topics
        self._wanted: dict[tuple[str | bytes, int], Wanted] = {}
        self._dirty: dict[Wanted, None] = {}
        self._by_partition: dict[Partition, Wanted] = {}
        self._is_committed_only = False
        self._byte_wait: ByteWait | None = None

    def __len__(self) -> int:
        return len(self._wanted)

    def begin_request(self, unanswered: int = 0) -> None:
        """The next request has come; its reader had no answer yet to so many of those before."""
        self._seen = self.request_number - unanswered
        self.request_number += 1

    def want(self, wanted: Wanted) -> None:
        """Add a partition, or change where it is read from."""
        key = (wanted.topic, wanted.index)
        known = self._wanted.get(key)
        if known is not None:
            known.change(wanted, self._seen)
            wanted = known
        else:
            self._wanted[key] = wanted
        self._dirty[wanted] = None

    def forget(self, topic: str | bytes, index: int) -> None:
        wanted = self._wanted.pop((topic, index), None)
        if wanted is not None:
            self._dirty.pop(wanted, None)
            self._detach(wanted)

    def close(self) -> None:
        for wanted in self._wanted.values():
            self._detach(wanted)
        self._wanted.clear()
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
        wanted = [it for it in self._wanted.values() if it.partition is not None]
        self._byte_wait = waiting = ByteWait(self._may_have_enough)
        for it, share in zip(wanted, shares(lacking, [_gain(it) for it in wanted]), strict=True):
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
            self._dirty |= dict.fromkeys(self._wanted.values())
        collected = Collected()
        slices_left = SLICES_MAX
        try:
            for wanted in list(self._wanted.values() if is_full else self._dirty):
                room = max_bytes - collected.bytes_read if slices_left else 0
                fetched = self._read(wanted, room, collected, is_committed_only)
                self._take(collected, wanted, fetched, is_full=is_full, is_committed_only=is_committed_only)
                slices_left -= fetched.records is not None
        except BaseException:
            collected.release()
            raise
        return collected

    def gather_s(self, collected: Collected, now_s: float) -> float:
        """For how long a follower waits for more than that, if it got something only a moment ago. Not above 0: it does
        not."""
        if self.reader is None or collected.has_error or collected.bytes_read >= GATHER_BELOW:
            return 0.0
        return self._last_records_s + ANSWERS_APART_S - now_s

    def note_told(self, collected: Collected, request_number: int, now_s: float) -> None:
        """These results, which were collected just now, answer that request."""
        if collected.bytes_read:
            self._last_records_s = now_s
        if collected.throttled_bytes and self.throttle is not None:
            self.throttle.took(collected.throttled_bytes)
        for wanted, fetched in collected.results:
            if fetched.error_code:
                wanted.told = None  # recovery is news again
            else:
                wanted.told = _telling(fetched)
            if fetched.records is not None:
                if self.reader is not None:
                    wanted.sent(request_number)
                # The next answer begins with those that got nothing this time.
                self._dirty.pop(wanted, None)
                self._dirty[wanted] = None

    def _take(
        self, collected: Collected, wanted: Wanted, fetched: Fetched, *, is_full: bool, is_committed_only: bool
    ) -> None:
        has_records, has_news = fetched.records is not None, wanted.told != _telling(fetched)
        if fetched.error_code or fetched.diverging is not None:
            collected.has_error = True
        elif (
            not has_records
            and not has_news  # else it must be found again: this look may not lead to an answer
            and self._readable_end(wanted, fetched, is_committed_only) <= wanted.position
        ):
            self._dirty.pop(wanted, None)  # until the partition says otherwise
        if not has_records and not fetched.error_code and self.reader is None and wanted.partition is not None:
            wanted.partition.watchers.arm(self, is_committed_only=is_committed_only)
        if is_full or has_records or collected.has_error or has_news:
            collected.results.append((wanted, fetched))
            if fetched.records is not None:
                collected.bytes_read += fetched.records.size

    def _readable_end(self, wanted: Wanted, fetched: Fetched, is_committed_only: bool) -> int:
        if self.reader is not None and wanted.partition is not None:
            return wanted.partition.log.next_offset
        return fetched.last_stable_offset if is_committed_only else fetched.high_watermark

    def _read(self, wanted: Wanted, room: int, collected: Collected, is_committed_only: bool) -> Fetched:
        try:
            partition = self._topics.partition(wanted.topic, wanted.index)
            self._attach(wanted, partition)
            if self.reader is not None:
                return self._read_for_follower(partition, wanted, room, collected)
            readable = partition.read(
                wanted.position,
                min(wanted.max_bytes, room),
                at_least_one=collected.bytes_read == 0,
                leader_epoch=wanted.leader_epoch,
                is_committed_only=is_committed_only,
            )
        except NotYet:
            return _cannot_read(wanted) if partition.log.damage else _nothing_yet(partition)
        except Refusal as refusal:
            return FetchedPartition(wanted.index, refusal.code, -1, -1, -1)
        except DamagedLog as damage:
            partition.met(damage)
            return _cannot_read(wanted)
        return FetchedPartition(
            wanted.index,
            ErrorCode.NONE,
            readable.high_watermark,
            readable.last_stable_offset,
            readable.log_start_offset,
            readable.records,
            [(aborted.producer_id, aborted.first_offset) for aborted in readable.aborted]
            if is_committed_only
            else None,
        )

    def _read_for_follower(self, partition: Partition, wanted: Wanted, room: int, collected: Collected) -> Fetched:
        partition.replica.check_epoch(wanted.leader_epoch)
        partition.replica.check_read()
        diverging = partition.divergence(wanted.offset, wanted.last_epoch)
        if diverging is not None:
            return FetchedPartition(wanted.index, ErrorCode.NONE, -1, -1, -1, diverging=diverging)
        position, start = wanted.position, Offset(partition.log.start_offset)
        if position < start:
            first = partition.log.first_batch_offset()
            if position < first:  # what it lacks is gone here as well: it has to begin anew where we do
                return FetchedPartition(wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, first)
            position = start  # in the middle of a batch, which it gets whole
        throttle = self._throttle_of(partition)
        most = min(wanted.max_bytes, room)
        at_least_one = collected.bytes_read == 0 and wanted.max_bytes > 0
        if throttle is not None:
            allowed = max(0, throttle.room() - collected.throttled_bytes)
            at_least_one = allowed > 0 and (at_least_one or allowed < most)  # a large batch is paid for afterwards
            most = min(most, allowed)
            collected.is_held_back |= not allowed and position < partition.log.next_offset
        readable, end = partition.read_as_follower(position, most, at_least_one=at_least_one)
        wanted.found_until(end)
        if throttle is not None and readable.records is not None:
            collected.throttled_bytes += readable.records.size
        return FetchedPartition(
            wanted.index,
            ErrorCode.NONE,
            readable.high_watermark,
            readable.last_stable_offset,
            readable.log_start_offset,
            readable.records,
            may_have_gaps=partition.log.may_have_gaps,
        )

    def _throttle_of(self, partition: Partition) -> Throttle | None:
        """What limits the copying of this partition to this follower, if anything does."""
        assert self.reader is not None
        replica = partition.replica
        if not partition.settings.throttles_leader(partition.index, replica.node_id):
            return None
        return None if self.reader.node_id in replica.in_sync else self.throttle

    def held_back_s(self, collected: Collected) -> float | None:
        """After how long there may be more than was collected. None: only the partitions know."""
        return self.throttle.ready_in_s() if collected.is_held_back and self.throttle is not None else None

    def note_progress(self, wanted: Wanted) -> None:
        """A follower says how far it is. Once for each time that it says so, not for each time that it is served."""
        assert self.reader is not None
        partition = self._topics.find(wanted.topic, wanted.index)
        if partition is None or not partition.replica.is_leader:
            return
        try:
            is_ours = wanted.leader_epoch == partition.replica.leader_epoch and (
                partition.divergence(wanted.offset, wanted.last_epoch) is None
            )
        except NotYet:
            return
        except DamagedLog as damage:
            partition.met(damage)
            return
        if is_ours:
            partition.follower_fetched(*self.reader, wanted.offset, wanted.flushed, wanted.log_start)

    def _attach(self, wanted: Wanted, partition: Partition) -> None:
        if wanted.partition is not partition:
            self._detach(wanted)
            wanted.partition = partition
            self._by_partition[partition] = wanted
            partition.watchers.add(self, is_follower=self.reader is not None)

    def _detach(self, wanted: Wanted) -> None:
        if wanted.partition is not None:
            wanted.partition.watchers.remove(self)
            self._by_partition.pop(wanted.partition, None)
            wanted.partition = None


def _cannot_read(wanted: Wanted) -> Fetched:
    return FetchedPartition(wanted.index, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)


def _nothing_yet(partition: Partition) -> Fetched:
    """There may be records, but what finds them is being made: the partition says when it is there."""
    start = partition.log.start_offset
    return FetchedPartition(
        partition.index, ErrorCode.NONE, partition.high_watermark, partition.last_stable_offset, start
    )


def _gain(wanted: Wanted) -> int:
    """What was written to a partition since the last call."""
    assert wanted.partition is not None
    before, wanted.appended_before = wanted.appended_before, wanted.partition.log.bytes_appended
    return max(0, wanted.appended_before - before) if before != NOT_SEEN else 0


def _telling(fetched: Fetched) -> tuple[int, int, int]:
    return fetched.error_code, fetched.high_watermark, fetched.log_start_offset


class SessionCache:
    """The sessions of a node: bounded, the longest unused goes first."""

    def __init__(
        self, topics: TopicTable, clock: Clock, entropy: Entropy, *, slots: int, throttle: Throttle | None = None
    ) -> None:
        self._topics = topics
        self._throttle = throttle
        self._slots = slots
        self._clock = clock
        self._entropy = entropy
        self._sessions: dict[int, FetchSession] = {}
        self._of_followers: dict[NodeId, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def passing(self) -> FetchSession:
        """A session for one request."""
        return FetchSession(self._topics)

    def open(self, partition_count: int, *, uses_topic_ids: bool) -> FetchSession:
        """A new session, or one that lives for a single request if no place is free."""
        if not self._has_room() or self._partition_count() + partition_count > SESSION_PARTITIONS_MAX:
            return self.passing()
        return self._open(uses_topic_ids=uses_topic_ids)

    def open_for_follower(self, node_id: NodeId) -> FetchSession:
        """Always has room: there are no more of them than nodes. One that this node had before is over."""
        before = self._of_followers.get(node_id)
        if before is not None:
            self.close(before)
        session = self._open(uses_topic_ids=True)
        session.throttle = self._throttle
        self._of_followers[node_id] = session.session_id
        return session

    def _open(self, *, uses_topic_ids: bool) -> FetchSession:
        session_id = self._free_id()
        session = FetchSession(self._topics, session_id=session_id, uses_topic_ids=uses_topic_ids)
        session.last_used_s = self._clock.monotonic_s()
        self._sessions[session_id] = session
        return session

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.pop(session_id, None)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {session_id}")
        self._sessions[session_id] = session  # now the most recently used
        if epoch != session.epoch:
            raise Refusal(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} expects epoch {session.epoch}, not {epoch}",
            )
        if uses_topic_ids != session.uses_topic_ids:
            raise Refusal(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} mixes topic names and topic ids"
            )
        session.epoch = 1 if session.epoch == SESSION_ID_MAX else session.epoch + 1
        session.last_used_s = self._clock.monotonic_s()
        return session

    def check_size(self, session: FetchSession) -> None:
        """A session has grown. If all of them are too large, its consumer goes on without one."""
        if self._partition_count() > SESSION_PARTITIONS_MAX:
            self.close(session.session_id)
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session.session_id} is too large")

    def _partition_count(self) -> int:
        return sum(map(len, self._sessions.values()))

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            if session.on_change is not None:
                session.on_change.hurry()  # nothing will ever wake it, and later answers wait in line behind it
            session.close()

    def _has_room(self) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if self._clock.monotonic_s() - oldest.last_used_s < EVICTABLE_AFTER_S:
            return False
        self.close(oldest.session_id)
        return True

    def _free_id(self) -> int:
        while True:
            session_id = 1 + int(self._entropy.fraction() * (SESSION_ID_MAX - 1))
            if session_id not in self._sessions:
                return session_id


def by_topic(results: Iterable[tuple[Wanted, Fetched]]) -> list[tuple[str | bytes, list[Fetched]]]:
    """Group an answer's partitions by topic, in the order in which topics first appear."""
    topics: dict[str | bytes, list[Fetched]] = {}
    for wanted, fetched in results:
        topics.setdefault(wanted.topic, []).append(fetched)
    return list(topics.items())
