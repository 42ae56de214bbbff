"""One partition as this node serves it: a log on disk, a replica's mind, and those who wait for either."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partitions.follower_writing import FollowerWriter
from headrace.broker.partitions.log_settings import log_settings
from headrace.broker.partitions.pending_appends import CommitWaiters, PendingAppend
from headrace.broker.partitions.topic_rules import TopicRules
from headrace.broker.partitions.watchers import Watchers
from headrace.broker.partitions.writing import PartitionWriter
from headrace.model.errors import ErrorCode, Reason, Refusal
from headrace.model.names import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Epoch, LogId, Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.partitions.writing import AppendStage
    from headrace.metadata.configs.settings import TopicSettings
    from headrace.model.names import NodeId
    from headrace.replication.replica import Durability, Replica
    from headrace.replication.replica_view import ReplicaView
    from headrace.runtime.clock import Clock
    from headrace.runtime.disk import FileSlice
    from headrace.storage.files.damage import DamagedLog
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.segments.transaction_index import AbortedTransaction
    from headrace.storage.store.flusher import Flusher

logger = logging.getLogger(__name__)


class LogReadInfo(NamedTuple):
    """What a fetch gets of one partition."""

    records: FileSlice | None
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted: Sequence[AbortedTransaction] = ()
    """Transactions of which the records hold something that a reader of committed records leaves out."""


class Partition:
    """Implements what the seeds call a broker's partition; the bytes are `storage.log.PartitionLog`'s."""

    __slots__ = (
        "_clock",
        "_damaged_place",
        "_flusher",
        "_replica",
        "_rules",
        "follower_writer",
        "high_watermark",
        "index",
        "last_stable_offset",
        "log",
        "name",
        "on_damage",
        "on_flushed",
        "partition_epoch",
        "replica",
        "waiters",
        "was_in_sync",
        "watchers",
        "writer",
    )

    def __init__(
        self,
        name: TopicPartition,
        log: PartitionLog,
        replica: Replica,
        *,
        stage: AppendStage,
        flusher: Flusher,
        clock: Clock,
    ) -> None:
        self.name = name
        self.index = name.partition
        self.log = log
        self._replica = replica
        self.replica: ReplicaView = replica
        """The same, as others may have it."""
        self.partition_epoch = 0
        """Which state of the partition the controller was last heard of."""
        self.was_in_sync = False
        """Since this node has started: then nothing that was committed is missing here."""
        self.high_watermark = Offset(0)
        self.last_stable_offset = Offset(0)
        """Exclusive: below it every transaction is decided, and the decision is as safe as the high watermark."""
        self._flusher = flusher
        self._clock = clock
        self._rules = TopicRules(name.topic, clock)
        self.writer = PartitionWriter(self, self._rules, stage, clock)
        self.follower_writer = FollowerWriter(self, replica, flusher)
        self.waiters = CommitWaiters()
        self.watchers = Watchers(self)
        self._damaged_place: tuple[str, int] | None = None
        log.reader.on_damage = self.met
        self.on_flushed: Callable[[Partition], None] | None = None
        """While this node follows: its leader waits to hear of it."""
        self.on_damage: Callable[[Partition, int], None] | None = None
        """Somebody met bytes that make no sense, at this offset; -1 if it is not known."""

    # ---- progress

    def wrote(self, *, is_urgent: bool) -> None:
        """As the leader: the log has grown."""
        log, watchers = self.log, self.watchers
        if watchers.byte_waits is not None:
            watchers.count_bytes(self.replica.written, log.bytes_appended)
        self.advance(self._replica.on_written(Offset(log.next_offset)))
        self._flusher.want(log, is_urgent=is_urgent or bool(watchers.readers))
        if watchers.followers:
            watchers.written()

    def flushed(self) -> None:
        """The log's bytes up to its `flushed_offset` are on the device."""
        self.advance(self._replica.on_flushed(Offset(self.log.flushed_offset)))
        if self.on_flushed is not None:
            self.on_flushed(self)

    async def settled_end(self, within_s: float, *, is_committed_only: bool) -> Offset:
        """Where readers' part ends, once it holds all that is written by now, acks=1 too, or the time is up."""
        written = Offset(self.log.next_offset)
        self._flusher.want(self.log, is_urgent=True)
        everything = PendingAppend(self, None, written, written, NO_TIMESTAMP)
        await everything.settling(self._clock.monotonic_s() + within_s)
        return self.readable_end(is_committed_only=is_committed_only)

    def expire_waiters(self, now_s: float) -> None:
        if self.waiters:
            too_late = Reason(ErrorCode.REQUEST_TIMED_OUT, "not every in-sync replica has it on disk in time")
            self.waiters.refuse_late(now_s, too_late)

    def advance(self, high_watermark: Offset) -> None:
        """The high watermark is there now, or still."""
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = self.log.high_watermark = high_watermark
        stable_before = self.last_stable_offset
        self.review_stability()
        self.waiters.wake_up_to(high_watermark)
        if self.watchers.readers or self.watchers.followers:
            self.watchers.advanced(is_stable_too=self.last_stable_offset > stable_before)

    def review_stability(self) -> None:
        """A transaction begins at the log's end, so only commits, and a new start of the log, move what is stable."""
        transactions = self.log.producers.transactions
        transactions.settle(self.high_watermark)
        unstable = transactions.first_unstable_offset
        if unstable < 0:
            self.last_stable_offset = self.high_watermark
        else:
            self.last_stable_offset = Offset(min(self.high_watermark, max(unstable, self.log.start_offset)))

    # ---- reading

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        at_least_one: bool,
        leader_epoch: Epoch,
        is_committed_only: bool = False,
    ) -> LogReadInfo:
        """What a consumer may see from `offset` on. Raises Refusal if the offset or the epoch is not ours."""
        self.replica.check_epoch(leader_epoch)
        self.replica.check_read()
        log = self.log
        self._check_offset(offset)
        end = self.readable_end(is_committed_only=is_committed_only)
        records: FileSlice | None = None
        aborted: Sequence[AbortedTransaction] = ()
        if offset < end and (max_bytes > 0 or at_least_one):
            run = log.reader.read(offset, max_bytes, end, at_least_one=at_least_one)
            if run is not None:
                records, next_offset = run
                if is_committed_only:
                    aborted = self._aborted_in(records, offset, next_offset)
        elif self.high_watermark < log.next_offset:
            self._flusher.want(log, is_urgent=True)  # somebody waits for these bytes to become readable
        return LogReadInfo(records, self.high_watermark, self.last_stable_offset, Offset(log.start_offset), aborted)

    def _check_offset(self, offset: Offset) -> None:
        log = self.log
        if not log.start_offset <= offset <= log.next_offset:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} has offsets {log.start_offset} to {log.next_offset}, not {offset}",
            )

    def _aborted_in(self, records: FileSlice, offset: int, next_offset: int) -> Sequence[AbortedTransaction]:
        try:
            return self.log.transaction_indexes.aborted_between(offset, next_offset)
        except BaseException:
            records.release()
            raise

    def readable_end(self, *, is_committed_only: bool) -> Offset:
        """Where a consumer's part of the log ends (exclusive)."""
        return self.last_stable_offset if is_committed_only else self.high_watermark

    def epoch_end(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """The largest epoch that wrote here and is not above `epoch`, and where it ended."""
        current = self.replica.leader_epoch
        if epoch == current:
            return current, Offset(self.log.next_offset)
        if epoch > current:
            return NO_EPOCH, NO_OFFSET
        return self.log.epochs.end_offset_for(epoch, self.log.next_offset)

    # ---- replicas

    def read_for_follower(self, offset: Offset, max_bytes: int, *, at_least_one: bool) -> tuple[LogReadInfo, Offset]:
        """What follows `offset`, safe or not, and where it ends. Raises Refusal if the offset is not ours."""
        log = self.log
        self._check_offset(offset)
        records, end = None, offset
        if offset < log.next_offset and (max_bytes > 0 or at_least_one):
            run = log.reader.read(offset, max_bytes, Offset(log.next_offset), at_least_one=at_least_one)
            if run is not None:
                records, end = run[0], Offset(run[1])
        return LogReadInfo(records, self.high_watermark, self.last_stable_offset, Offset(log.start_offset)), end

    def divergence(self, offset: Offset, last_epoch: Epoch) -> tuple[Epoch, Offset] | None:
        """Where a follower's log went another way than ours: its last batch before `offset` is of `last_epoch`.

        NO_EPOCH: we can vouch for nothing that it has, and our log begins at the offset beside it.
        """
        if last_epoch == NO_EPOCH and offset > self.log.next_offset:  # empty, and yet it has seen more than we have
            return NO_EPOCH, Offset(self.log.reader.first_batch_offset())
        if offset < self.log.start_offset:
            first = Offset(self.log.reader.first_batch_offset())
            # Copies end where batches do. One that ends inside our first has other batches there, of another leader.
            return (NO_EPOCH, first) if first < offset else None
        if last_epoch == NO_EPOCH:
            return None
        epoch, end = self.epoch_end(last_epoch)
        if epoch == NO_EPOCH:  # all that we know of is of later leaders
            return NO_EPOCH, Offset(self.log.reader.first_batch_offset())
        return (epoch, end) if epoch < last_epoch or end < offset else None

    def follower_fetched(
        self, node_id: NodeId, broker_epoch: int, written: Offset, flushed: Offset, log_start: Offset
    ) -> None:
        """A follower that agrees with us up to `written` asks for more."""
        now_ms = int(self._clock.monotonic_s() * 1000)
        safe = min(flushed, written)
        self.advance(self._replica.on_follower_fetched(node_id, broker_epoch, written, safe, now_ms, log_start))

    def follow(self, epoch: Epoch, leader: NodeId, replicas: Sequence[NodeId]) -> None:
        """Another node leads from `epoch` on, or nobody does. Whoever waits for us has to ask there."""
        self._replica.become_follower(epoch, leader, replicas)
        self.writer.end_epoch()
        self.watchers.recount_bytes()
        self.waiters.refuse_all(
            Reason(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {leader} leads {self.name} in epoch {epoch}")
        )
        self.look_again()

    # ---- change

    def configure(self, settings: TopicSettings) -> None:
        self._rules.configure(settings)
        self.log.settings = log_settings(settings)
        policy: Durability = "flushed" if settings.commits_when_flushed else "written"
        self.advance(self._replica.set_policy(durability=policy, min_insync=settings.min_insync_replicas))

    def lead(
        self,
        epoch: Epoch,
        in_sync: Sequence[NodeId],
        replicas: Sequence[NodeId],
        partition_epoch: int = 0,
        eligible: Sequence[NodeId] = (),
    ) -> None:
        self.partition_epoch = partition_epoch
        self.writer.begin_epoch()
        now_ms = int(self._clock.monotonic_s() * 1000)
        self.advance(self._replica.become_leader(epoch, in_sync, replicas, now_ms, eligible))

    def set_leased(self, is_leased: bool) -> None:
        """Without a lease it takes and shows nothing, also if it leads: another node may do so by now. Whoever waits
        here for what he wrote should ask there: he would wait for as long as this node is alone."""
        self.advance(self._replica.set_leased(is_leased))
        if not is_leased and self.waiters:
            self.waiters.refuse_all(
                Reason(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another node may lead {self.name}: this one has no lease")
            )

    def propose_in_sync(self, wanted: tuple[NodeId, ...]) -> None:
        """As the leader: the controller is asked for this in-sync set."""
        self._replica.propose_in_sync(wanted)

    def proposal_ended(self, *, is_refused: bool) -> None:
        """The controller has not agreed, or it is not known whether it has."""
        self._replica.proposal_ended(is_refused=is_refused)

    def agreed_in_sync(self, in_sync: Sequence[NodeId], partition_epoch: int, eligible: Sequence[NodeId] = ()) -> None:
        """As the leader: the controller has agreed to this in-sync set."""
        self.partition_epoch = partition_epoch
        self.advance(self._replica.set_in_sync(in_sync, eligible))

    def met(self, damage: DamagedLog) -> None:
        """A reader met damage. It is told to the operator once, not once for every reader."""
        place = (damage.path, damage.position)
        if place != self._damaged_place:
            self._damaged_place = place
            logger.log(self.damage_level, "%s cannot be read: %s", self.name, damage)
        if self.on_damage is not None:
            self.on_damage(self, damage.offset)

    def look_again(self) -> None:
        """Something else than growth has changed, or what was not yet there to read is: everybody has to look."""
        self.watchers.changed()
        self.watchers.written()

    @property
    def damage_level(self) -> int:
        """How loudly damage is told. With other replicas it is fetched again, and nobody has to do anything."""
        return logging.WARNING if len(self.replica.replicas) > 1 else logging.ERROR

    def retire(self, reason: Reason) -> None:
        """The partition is deleted or no longer ours: nobody may wait for it any longer."""
        self.waiters.refuse_all(reason)
        self._replica.resign()
        self.writer.end_epoch()
        self.watchers.changed()

    @property
    def settings(self) -> TopicSettings:
        return self._rules.settings

    @property
    def log_id(self) -> LogId:
        return self.log.log_id
