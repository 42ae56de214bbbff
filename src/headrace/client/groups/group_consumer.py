"""Reads topics together with others: each partition goes to one member of the group, which shares them out anew
whenever members come and go.

Everything that concerns the caller happens inside `poll`: partitions are taken away and given only there, so that
whatever the last `poll` returned still belongs to the caller until it polls again. Waiting for the other members does
not hold `poll` up for longer than it was told to wait; it goes on behind it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError
from headrace.client.groups.group_offsets import CommittedOffset, GroupMetadata, commit_offsets, fetch_offsets
from headrace.client.groups.membership import EXPELLED, Membership, MembershipSettings
from headrace.client.reading.consumer import POLL_RECORDS, AssignedConsumer, ConsumerSettings
from headrace.client.reading.offsets import Edge, IsolationLevel
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.client.reading.consumer import Start
    from headrace.model.names import TopicPartition
    from headrace.wire.batches.records import Record

AUTO_COMMIT_INTERVAL_S = 5.0  # Kafka's default: what a crash makes the group read again
HEARTBEATS = "heartbeats"
FIND_PLACES = "find places to start"
LEADER_PAUSE_S = 1.0  # between two looks whether somebody leads a partition by now
REJOIN_PAUSE_S = 0.1  # a group that turns members away again and again is not to be asked in a tight loop


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConsumerSettings(MembershipSettings):
    """How to read, when to commit, and how to be a member."""

    start: Edge = Edge.EARLIEST
    """Where to begin in a partition of which the group has committed nothing."""
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    auto_commit: bool = False
    """Commit what earlier polls returned, now and then when `poll` is called, and when partitions are taken away."""
    auto_commit_interval_s: float = AUTO_COMMIT_INTERVAL_S
    reading: ConsumerSettings = field(default_factory=ConsumerSettings)
    """How to fetch. Its `isolation` is the one above."""


class GroupConsumer:
    """Reads topics as a member of a classic group. Use it with `async with`, and `poll` again and again.

        async with GroupConsumer(cluster, "billing", ["orders"]) as consumer:
            while True:
                for partition, records in (await consumer.poll()).items():
                    ...
                await consumer.commit()

    Set `on_revoked` to finish with partitions before they go to another member: the callback can still commit them,
    unless the group has already given them away, and then `commit` says so. Set `on_assigned` to hear of new ones.
    """

    def __init__(
        self, cluster: Cluster, group_id: str, topics: Sequence[str], settings: GroupConsumerSettings | None = None
    ) -> None:
        self.settings = settings or GroupConsumerSettings()
        self.on_assigned: Callable[[list[TopicPartition]], Awaitable[None]] | None = None
        self.on_revoked: Callable[[list[TopicPartition]], Awaitable[None]] | None = None
        self._cluster = cluster
        self._reader = AssignedConsumer(cluster, replace(self.settings.reading, isolation=self.settings.isolation))
        self._membership = Membership(cluster, group_id, topics, self.settings, self._reader.wake)
        # Commits have a way of their own: they must not wait behind a join that waits for the other members.
        self._coordinator = Coordinator(cluster, CoordinatorKind.GROUP, group_id)
        self._owned: dict[TopicPartition, None] = {}
        self._unplaced: list[TopicPartition] = []  # ours, but where to start is not known yet
        self.without_leader: list[TopicPartition] = []
        """Ours, but nobody can say where to start as long as nobody leads them."""
        self._unannounced: list[TopicPartition] = []  # ours, but `on_assigned` has not heard of them
        self._committed: dict[TopicPartition, int] = {}
        self._scope = TaskScope(self._broke)
        self._step: asyncio.Task[Any] | None = None
        self._shared_out: list[TopicPartition] | None = None
        self._trouble: Exception | None = None
        self._commit_due_s = cluster.clock.monotonic_s() + self.settings.auto_commit_interval_s
        self._is_beating = False
        self._is_cast_out = False
        self._is_closed = False

    async def __aenter__(self) -> GroupConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Reading.

    async def poll(self, max_records: int = POLL_RECORDS, wait_s: float = 1.0) -> dict[TopicPartition, list[Record]]:
        """What has arrived, in order within each partition; empty if nothing does within `wait_s`.

        Also the place where the caller takes part in the group: whoever does not poll for `rebalance_timeout_ms` loses
        its partitions. `on_revoked` and `on_assigned` are called here, and nowhere else but in `close`.

        Raises what keeps the member out of the group or partitions from being read, as Refusal or ClientError; to poll
        again is to try again.
        """
        if self._is_closed:
            raise ClientError("this consumer is closed")
        deadline_s = self._cluster.clock.monotonic_s() + wait_s
        self._membership.poll_began()
        try:
            await asyncio.sleep(0)  # a caller who always finds records must let heartbeats out, too
            await self._auto_commit_if_due()
            while True:
                await self._keep_in_step()
                taken = self._reader.poll_nowait(max_records, self._announced)
                if taken or not await self._reader.wait_arrival(deadline_s):
                    return taken
        finally:
            self._membership.poll_ended()

    @property
    def _announced(self) -> list[TopicPartition] | None:
        """What may be handed out: nothing of a partition before the caller has heard of it. It may have been another's
        meanwhile, who read on in it; and whoever has to join once more is told only after that. None: everything.
        """
        return [name for name in self._owned if name not in self._unannounced] if self._unannounced else None

    @property
    def is_joined(self) -> bool:
        """True if the group has given this member its share, where to read on is known, and the caller was told.

        Partitions without a leader do not count if they are waited for."""
        is_settled = not (self._unplaced or self._unannounced or self._shared_out is not None)
        return is_settled and not self._membership.needs_join

    @property
    def assignment(self) -> dict[TopicPartition, int]:
        """What this member reads, and the offset that `poll` hands out next of each."""
        return {name: self._reader.position(name) for name in self._owned if self._is_placed(name)}

    def position(self, name: TopicPartition) -> int:
        """The offset that `poll` hands out next. Refusal if the partition is not ours."""
        self._check_owned([name])
        return self._reader.position(name)

    def rewind(self) -> None:
        """Read again from what the group has committed: what was polled since has come to nothing."""
        self._reader.withdraw(list(self._owned))
        self._unplaced = list(self._owned)
        self.without_leader = []

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who this member is at the moment, for a transaction that commits its offsets."""
        return self._membership.who

    # Committing.

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Remember for the group how far this member is: next offsets to read; by default, all that `poll` returned.

        Refusal if the partitions are not this member's any more. They will be read again, by whoever has them.
        """
        if offsets is None:
            positions = self.assignment
            offsets = {name: place for name, place in positions.items() if self._committed.get(name) != place}
        else:
            self._check_owned(offsets)
        if not offsets:
            return
        who = self._membership.who
        try:
            await commit_offsets(
                self._coordinator,
                who,
                {name: CommittedOffset(Offset(offset)) for name, offset in offsets.items()},
            )
        except Refusal as refusal:
            self._membership.refused(who, refusal.code)
            raise
        self._committed.update({name: offset for name, offset in offsets.items() if name in self._owned})

    async def _auto_commit_if_due(self) -> None:
        now_s = self._cluster.clock.monotonic_s()
        if self.settings.auto_commit and now_s >= self._commit_due_s:
            self._commit_due_s = now_s + self.settings.auto_commit_interval_s
            await self._auto_commit()

    async def _auto_commit(self) -> None:
        try:
            await self.commit()
        except Refusal as refusal:
            # The partitions have gone to others, who start from the last commit. That is what at-least-once means.
            if refusal.code not in EXPELLED and refusal.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                raise

    def _check_owned(self, names: Collection[TopicPartition]) -> None:
        foreign = [str(name) for name in names if name not in self._owned or not self._is_placed(name)]
        if foreign:
            raise Refusal(
                ErrorCode.ILLEGAL_GENERATION,
                f"{', '.join(foreign)}: not, or not any more, read by this member of group "
                f"{self._membership.who.group_id!r}",
            )

    def _is_placed(self, name: TopicPartition) -> bool:
        return name not in self._unplaced and name not in self.without_leader

    # The group.

    async def _keep_in_step(self) -> None:
        """Do all that can be done without waiting for the group, and start what has to wait."""
        while True:
            if self._trouble is not None:
                trouble = self._trouble
                if not self._is_cast_out:
                    self._trouble = None  # whoever polls again tries again
                raise trouble
            if self._step is not None and not self._step.done():
                if not self._membership.needs_join or self._step.get_name() != FIND_PLACES:
                    return
                self._step.cancel()  # an open transaction may hold it up; the others must not wait for that
            if self._shared_out is not None:
                await self._take_over(self._shared_out)
            elif self._membership.needs_join:
                await self._rejoin()
            elif self._unplaced:
                self._start(self._find_places(), FIND_PLACES)
            elif self._unannounced:
                await self._announce()
            elif self.without_leader:
                self._start(self._wait_for_leaders(), FIND_PLACES)
            else:
                return

    async def _rejoin(self) -> None:
        if self._membership.is_expelled or not self.settings.is_cooperative:
            await self._revoke(list(self._owned))
        if not self._is_beating:
            self._is_beating = True
            self._scope.start(self._membership.beat_for_ever(), HEARTBEATS)
        self._start(self._join(), "join the group")

    async def _join(self) -> None:
        if self._membership.is_expelled and self._owned:
            return  # it was told so on the way here, and has to give up all first
        self._shared_out = await self._membership.join(self._owned)
        if self._shared_out is None:
            await asyncio.sleep(REJOIN_PAUSE_S)

    async def _take_over(self, assignment: list[TopicPartition]) -> None:
        gone = [name for name in self._owned if name not in assignment]
        if gone:
            self._membership.needs_join = True  # once given up they can be given to others
            await self._revoke(gone)
        fresh = [name for name in assignment if name not in self._owned]
        self._owned.update(dict.fromkeys(fresh))
        self._unplaced += fresh
        self._unannounced += fresh
        self._shared_out = None

    async def _revoke(self, names: list[TopicPartition]) -> None:
        """Let the caller finish with partitions, then let them go. Nothing of them is returned any more."""
        if not names:
            return
        try:
            if self.settings.auto_commit and not self._membership.is_expelled:
                await self._auto_commit()
            known = [name for name in names if name not in self._unannounced]
            if known and self.on_revoked is not None:
                await self.on_revoked(known)
        finally:
            self._reader.withdraw(names)
            for name in names:
                self._owned.pop(name, None)
                self._committed.pop(name, None)
            self._unplaced = [name for name in self._unplaced if name in self._owned]
            self.without_leader = [name for name in self.without_leader if name in self._owned]
            self._unannounced = [name for name in self._unannounced if name in self._owned]

    async def _find_places(self) -> None:
        names = list(self._unplaced)
        committed = await _committed_offsets(
            self._coordinator,
            self._membership.who.group_id,
            names,
            require_stable=self.settings.isolation is IsolationLevel.READ_COMMITTED,
        )
        starts: dict[TopicPartition, Start] = {
            name: committed[name].offset if name in committed else self.settings.start for name in names
        }
        unknown: list[TopicPartition] = []
        if self.settings.reading.waits_for_leaders:
            unknown = await _without_leader(self._cluster, [name for name in names if name not in committed])
        try:
            await self._reader.extend({name: start for name, start in starts.items() if name not in unknown})
        except Refusal as refusal:
            if refusal.code is ErrorCode.LEADER_NOT_AVAILABLE and self.settings.reading.waits_for_leaders:
                return  # lost meanwhile: the next attempt sees which
            raise
        self._committed.update({name: place.offset for name, place in committed.items()})
        self._unplaced = [name for name in self._unplaced if name not in names]
        self.without_leader += unknown

    async def _wait_for_leaders(self) -> None:
        await asyncio.sleep(LEADER_PAUSE_S)
        with suppress(ClientError, Refusal):  # whoever reads the others meets the same trouble
            await self._cluster.refresh()
        self._unplaced, self.without_leader = self.without_leader, []

    async def _announce(self) -> None:
        names, self._unannounced = self._unannounced, []
        if self.on_assigned is not None:
            await self.on_assigned(names)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._step = self._scope.start(work, name)
        self._step.add_done_callback(lambda _: self._reader.wake())

    def _broke(self, name: str, error: BaseException) -> None:
        if isinstance(error, ClientError | Refusal):
            self._trouble = error
        else:
            self._trouble = ClientError(f"{name} failed: {error!r}")
        self._is_cast_out |= name == HEARTBEATS
        self._reader.wake()

    # Leaving.

    async def close(self) -> None:
        """Finish with what is owned, and leave the group, so that others need not wait for the session to end.

        A static member does not leave: it may come back before its session ends.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._revoke(list(self._owned))
        finally:
            try:
                await self._scope.close()
                await self._membership.leave()
            finally:  # also when the caller has no time for a farewell
                await self._reader.close()


async def _without_leader(cluster: Cluster, names: list[TopicPartition]) -> list[TopicPartition]:
    for topic in dict.fromkeys(name.topic for name in names):
        await cluster.topic(topic)
    return [name for name in names if cluster.leader_of(name) is None]


async def _committed_offsets(
    coordinator: Coordinator, group_id: str, names: list[TopicPartition], *, require_stable: bool
) -> dict[TopicPartition, CommittedOffset]:
    while True:
        try:
            return await fetch_offsets(coordinator, group_id, names, require_stable=require_stable)
        except Refusal as refusal:
            # A transaction is about to commit these offsets. It ends in its own time, at the latest by its timeout.
            if refusal.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
