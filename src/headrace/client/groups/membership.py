"""One member of a classic group: joins, learns what it shall read, shows that it is alive, leaves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError, refuse_unless_ok
from headrace.client.groups.assignors import ASSIGNORS, COOPERATIVE, COOPERATIVE_STICKY, RANGE, ROUND_ROBIN, Member
from headrace.client.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.client.groups.group_offsets import NO_GENERATION, GroupMetadata
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from headrace.client.connections.cluster import Cluster

SESSION_TIMEOUT_MS = 45_000  # Kafka's default: how long a member may be silent before it counts as dead
REBALANCE_TIMEOUT_MS = 300_000  # Kafka's max.poll.interval.ms: how long a caller may be busy between two polls
HEARTBEAT_INTERVAL_MS = 3_000  # several must be lost before the session ends
ANSWER_GRACE_S = 5.0  # beyond the rebalance timeout, when the coordinator answers at the latest
LEAVE_TIMEOUT_S = 5.0  # whoever cannot say goodbye in this time is found missing by its silence

JOIN_VERSIONS = (5, 9)  # static members
SYNC_VERSIONS = (3, 5)
HEARTBEAT_VERSIONS = (3, 4)
LEAVE_VERSIONS = (3, 5)

EXPELLED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
"""The group has gone on without this member; what it read belongs to others now."""

_GENERATION = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """How to be a member of a classic group. ValueError for what the group would not accept."""

    instance_id: str | None = None
    """A name that outlives a restart: whoever comes back under it within its session finds its partitions."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    """A member that is not polled for this long leaves the group, and is not waited for in a rebalance."""
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    assignors: tuple[str, ...] = (RANGE, ROUND_ROBIN)
    """In order of preference. All members must share one; these two are what most clients offer by default."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.assignors if name not in ASSIGNORS]
        if unknown or not self.assignors:
            raise ValueError(f"assignors are {self.assignors}; expected some of {', '.join(ASSIGNORS)}")
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}; expected more than 0 and less than "
                f"session_timeout_ms, which is {self.session_timeout_ms}"
            )

    @property
    def is_cooperative(self) -> bool:
        """True if partitions are kept over a rebalance, unless they move."""
        return COOPERATIVE.issuperset(self.assignors)


class Membership:
    """`join` whenever `needs_join`, and keep `beat_for_ever` running."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        settings: MembershipSettings,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when the group asks this member to act."""
        self.who = GroupMetadata(group_id, instance_id=settings.instance_id)
        self.needs_join = True
        self.is_expelled = False
        """What it read belongs to others already: nothing of it can be committed."""
        self._cluster = cluster
        self._topics = list(dict.fromkeys(topics))
        self._settings = settings
        self._on_change = on_change
        self._lane = cluster.new_lane("group")
        self._coordinator = Coordinator(cluster, CoordinatorKind.GROUP, group_id, self._lane)
        self._is_joining = False
        self._led_topics: dict[str, int] | None = None  # as leader: what was shared out, to notice that it grew
        self._expects_join_by_s: float | None = None
        """As leader: partitions may be nobody's until their last owner has given them up, and joins again for that. If
        nobody has by then, it died before it could, and a static member that comes back does not know of it."""
        self._idle_since_s: float | None = cluster.clock.monotonic_s()

    # Joining.

    async def join(self, owned: Collection[TopicPartition]) -> list[TopicPartition] | None:
        """Enter the group, or a new generation of it, and wait for the others. Returns what to read.

        None if it came to nothing for a reason that passes: then look at `is_expelled`, and join again.
        """
        self._is_joining = True
        if self.is_expelled:
            self.who = self.who._replace(member_id="", generation_id=NO_GENERATION)
        try:
            joined = await self._enter(owned)
            assignment = await self._share_out(joined)
        except Refusal as refusal:
            if refusal.code in EXPELLED:
                self.is_expelled = True
            elif refusal.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                raise
            return None
        except asyncio.CancelledError:
            self._cluster.close_lane(self._lane)  # the answer, still to come, would hold up a farewell
            raise
        finally:
            self._is_joining = False
        self.needs_join = self.is_expelled = False
        return assignment

    async def _enter(self, owned: Collection[TopicPartition]) -> JoinGroupResponse:
        settings = self._settings
        subscription = encode_subscription(
            self._topics, owned, self.who.generation_id, _GENERATION.pack(self.who.generation_id)
        )
        while True:
            request = JoinGroupRequest(
                self.who.group_id,
                settings.session_timeout_ms,
                settings.rebalance_timeout_ms,
                self.who.member_id,
                settings.instance_id,
                PROTOCOL_TYPE,
                [JoinGroupRequestProtocol(name, subscription) for name in settings.assignors],
            )
            answer = await self._coordinator.ask(
                request,
                JoinGroupResponse,
                self._check_join,
                versions=JOIN_VERSIONS,
                timeout_s=settings.rebalance_timeout_ms / 1000 + ANSWER_GRACE_S,
            )
            self.who = self.who._replace(member_id=answer.member_id)
            if answer.error_code == ErrorCode.NONE:
                self.who = self.who._replace(generation_id=answer.generation_id)
                return answer

    def _check_join(self, answer: JoinGroupResponse) -> None:
        if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:  # which is half a yes: it brings the id to join with
            refuse_unless_ok(answer.error_code, f"group {self.who.group_id!r} does not let us join", right="READ on it")

    async def _share_out(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        assignments: list[SyncGroupRequestAssignment] = []
        self._led_topics = self._expects_join_by_s = None
        if joined.leader == joined.member_id:
            assignments = await self._assign(joined)
        answer = await self._coordinator.ask(
            SyncGroupRequest(
                self.who.group_id,
                joined.generation_id,
                joined.member_id,
                self._settings.instance_id,
                PROTOCOL_TYPE,
                joined.protocol_name,
                assignments,
            ),
            SyncGroupResponse,
            lambda answer: refuse_unless_ok(
                answer.error_code, f"group {self.who.group_id!r} gives us nothing to read", right="READ on it"
            ),
            versions=SYNC_VERSIONS,
            timeout_s=self._settings.rebalance_timeout_ms / 1000 + ANSWER_GRACE_S,
        )
        return decode_assignment(answer.assignment)

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """This member leads: it decides for all."""
        members = []
        for each in joined.members:
            said = decode_subscription(each.metadata)
            owned = tuple(TopicPartition(own.topic, index) for own in said.owned_partitions for index in own.partitions)
            generation_id = said.generation_id
            if joined.protocol_name == COOPERATIVE_STICKY and generation_id < 0 and len(said.user_data or b"") == 4:
                (generation_id,) = _GENERATION.unpack(said.user_data or b"")  # clients older than the field
            members.append(Member(each.member_id, each.group_instance_id, frozenset(said.topics), owned, generation_id))
        names = sorted(frozenset[str]().union(*(member.topics for member in members)))
        self._led_topics = await self._partition_counts(names)
        protocol = joined.protocol_name or RANGE
        if joined.skip_assignment:  # a static leader came back; the group goes on as it was
            self._expect_join(may_be_incomplete=protocol in COOPERATIVE)
            return []
        shares = ASSIGNORS[protocol](members, self._led_topics)
        self._expect_join(may_be_incomplete=sum(map(len, shares.values())) < sum(self._led_topics.values()))
        return [SyncGroupRequestAssignment(member_id, encode_assignment(share)) for member_id, share in shares.items()]

    def _expect_join(self, *, may_be_incomplete: bool) -> None:
        if may_be_incomplete:
            within_s = self._settings.session_timeout_ms / 1000  # then whoever has not joined is known to be gone
            self._expects_join_by_s = self._cluster.clock.monotonic_s() + within_s

    async def _partition_counts(self, names: Collection[str]) -> dict[str, int]:
        topics = await self._cluster.topics(names)
        return {name: len(topics[name].partitions) if name in topics else 0 for name in names}

    # Staying.

    def poll_began(self) -> None:
        """The caller is here: its partitions stay with it."""
        self._idle_since_s = None

    def poll_ended(self) -> None:
        """From now on the caller may be busy for `rebalance_timeout_ms`."""
        self._idle_since_s = self._cluster.clock.monotonic_s()

    def refused(self, who: GroupMetadata, code: ErrorCode) -> None:
        """The coordinator refused something that was asked as `who`. If that is who we still are, act on it."""
        if who != self.who or self._is_joining:
            return
        if code in EXPELLED:
            self._lose_place()
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._ask_for_join()

    async def beat_for_ever(self) -> None:
        """Raises only what no rejoining can mend, such as another member with the same instance id."""
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            if self._is_joining or self.is_expelled or self.who.generation_id == NO_GENERATION:
                continue
            if self._is_forgotten():
                who = self.who
                self._lose_place()
                await self._leave_as(who)
                continue
            try:
                await self._beat()
                self._look_for_expected_join()
                await self._look_for_new_partitions()
            except (ClientError, Refusal) as trouble:
                if isinstance(trouble, Refusal) and not trouble.code.is_retriable:
                    raise
                # The next beat tries again; if none gets through, the group will say so.

    async def _beat(self) -> None:
        who = self.who
        request = HeartbeatRequest(who.group_id, who.generation_id, who.member_id, who.instance_id)
        try:
            await self._coordinator.ask(
                request,
                HeartbeatResponse,
                lambda answer: refuse_unless_ok(
                    answer.error_code, f"group {who.group_id!r} refuses this member", right="READ on it"
                ),
                versions=HEARTBEAT_VERSIONS,
            )
        except Refusal as refusal:
            if refusal.code is not ErrorCode.REBALANCE_IN_PROGRESS and refusal.code not in EXPELLED:
                raise
            self.refused(who, refusal.code)

    async def _look_for_new_partitions(self) -> None:
        """The leader alone watches: when topics grow, it asks for a new generation by joining again."""
        led = self._led_topics
        if led is not None and await self._partition_counts(led) != led and led is self._led_topics:
            self._ask_for_join()

    def _look_for_expected_join(self) -> None:
        expected_s = self._expects_join_by_s
        if expected_s is not None and self._cluster.clock.monotonic_s() > expected_s:
            self._expects_join_by_s = None
            self._ask_for_join()

    def _is_forgotten(self) -> bool:
        """True if the caller has not polled for too long: others should have these partitions."""
        since_s = self._idle_since_s
        limit_s = self._settings.rebalance_timeout_ms / 1000
        return since_s is not None and self._cluster.clock.monotonic_s() - since_s > limit_s

    def _ask_for_join(self) -> None:
        self.needs_join = True
        self._on_change()

    def _lose_place(self) -> None:
        self.is_expelled = True
        self._ask_for_join()

    # Leaving.

    async def leave(self) -> None:
        """Give the partitions back at once. A static member stays: it may come back before its session ends."""
        try:
            await self._leave_as(self.who)
        finally:
            self._cluster.close_lane(self._lane)

    async def _leave_as(self, who: GroupMetadata) -> None:
        if not who.member_id or who.instance_id is not None:
            return
        try:
            connection = await self._coordinator.connection()
            await connection.request(
                LeaveGroupRequest(who.group_id, members=[MemberIdentity(who.member_id)]),
                LeaveGroupResponse,
                version=connection.version_for(LeaveGroupRequest, LEAVE_VERSIONS),
                timeout_s=LEAVE_TIMEOUT_S,
            )
        except (ClientError, Refusal):
            return  # its silence will tell
