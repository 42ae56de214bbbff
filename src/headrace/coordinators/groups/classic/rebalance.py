"""The life of a classic group: its states, its generations, and what it waits for.

    Empty ──someone joins──► PreparingRebalance ──all have joined──► CompletingRebalance ──the leader's──► Stable
      ▲                          │         ▲                                  │            sync, written     │
      └─── all left, written ────┘         └────── someone comes, goes, is lost or wants another protocol ───┘

A rebalance has two waits. In PreparingRebalance every member must join again, and is parked until all are there or the
rebalance timeout is over; then the next generation begins. In CompletingRebalance its members are parked until the
leader has said who gets what.

**What is kept.** A group becomes Stable or Empty in `apply` alone, and as long as it is either, all that it knows of
its generation is what the last record says: so a reload finds the same. During a rebalance the picture runs ahead of
the log. Who is in the group, who leads and even the generation's number are soft then, and a crash takes them back. It
takes nothing from anyone: nobody is given an assignment before its generation is in the log, and the lost number may
serve again. Who is parked, who owes a sync and when sessions end is never kept.

A command writes at most one record, as the last thing that it does, and counts on `apply` before the next command.

Kafka's fifth state, Dead, is that of a group which is gone. Here no object stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.coordinators.effects import Effects, Reply
from headrace.coordinators.groups.classic.answers import dismissed
from headrace.coordinators.groups.classic.members import Member, Roster
from headrace.coordinators.groups.sizes import EXPECTED_BYTES
from headrace.coordinators.records import LogRecord
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_TIMESTAMP, Millis
from headrace.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue
from headrace.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.coordinators.effects import Now
    from headrace.coordinators.groups.settings import GroupSettings


RECORD_BYTES_MAX: Final = 12 << 20  # of subscriptions and assignments; the largest batch of the log has 16 MiB


class State(Enum):
    """The values are the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True)
class _JoinWait:
    """How long PreparingRebalance lasts at most.

    The first rebalance of an empty group does not end when all have joined, because nobody knows who all are: it waits
    for a delay, and for another one while newcomers arrive.
    """

    ends_ms: int
    is_initial: bool = False
    latest_end_ms: int = 0
    someone_came: bool = False


class RebalanceCycle:
    """Everything of a group but its requests. They change who is here or expected, and then call `rebalance`."""

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self.state = State.EMPTY
        self.recorded_at_ms: Millis = NO_TIMESTAMP
        self.protocol_type = ""
        self.protocol = ""
        self.generation = 0
        self.roster = Roster()
        self._pending: dict[str, int] = {}
        """Ids given to clients who have yet to join with them, and until when they are expected."""
        self._join_wait: _JoinWait | None = None
        """Set in PreparingRebalance, and only there."""
        self._sync_ends_ms: int | None = None
        self._first_session_end_ms: int | None = None
        """No session ends before. It may well end later: a heartbeat does not look for the earliest of all."""

    # The log

    def apply(self, value: GroupMetadataValue) -> None:
        """The group is now what the record says. Members whom we know keep their sessions."""
        assert self._join_wait is None, "a record ends a rebalance, and no command goes on after it"
        protocol = value.protocol or ""
        roster = Roster()
        for kept in value.members:
            member = self.roster.get(kept.member_id) or Member(kept.member_id, kept.group_instance_id)
            member.settle(kept, protocol)
            roster.add(member)
        if value.leader is not None and roster.get(value.leader) is not None:
            roster.leader_id = value.leader
        self.roster = roster
        self.state = State.STABLE if value.members else State.EMPTY
        self.protocol_type = value.protocol_type
        self.protocol = protocol
        self.generation = value.generation
        self.recorded_at_ms = Millis(value.current_state_timestamp)

    def record(self, assignments: Mapping[str, bytes], at_ms: Millis) -> LogRecord:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.roster.leader_id,
            current_state_timestamp=at_ms,
            members=[member.to_record(assignments.get(member.member_id, b"")) for member in self.roster],
        )
        return LogRecord(GroupMetadataKey(self.group_id), value)

    def _record_without_members(self, at_ms: Millis) -> LogRecord:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation + 1,
            protocol=None,
            leader=None,
            current_state_timestamp=at_ms,
        )
        return LogRecord(GroupMetadataKey(self.group_id), value)

    # Members

    def leads(self, member: Member) -> bool:
        return member.member_id == self.roster.leader_id

    def membership(self, member: Member) -> JoinGroupResponse:
        """What a member of the generation is told. The leader also hears of everybody in it."""
        heard_of = self.roster if self.leads(member) else ()
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.roster.leader_id or "",
            member_id=member.member_id,
            members=[
                JoinGroupResponseMember(other.member_id, other.instance_id, other.subscription or b"")
                for other in heard_of
            ],
        )

    def share(self, assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=assignment)

    @property
    def expected_bytes(self) -> int:
        return EXPECTED_BYTES * len(self._pending)

    def is_expected(self, member_id: str) -> bool:
        return member_id in self._pending

    def expect(self, member_id: str, until_ms: int) -> None:
        """A client was given this id, and shall join with it: a rebalance that is under way waits for it."""
        self._pending[member_id] = until_ms
        self._watch_session(until_ms)

    def expect_no_more(self, member_id: str) -> bool:
        """False if it was not expected."""
        return self._pending.pop(member_id, None) is not None

    def note_newcomer(self) -> None:
        if self._join_wait is not None:
            self._join_wait.someone_came = True

    def remove(self, member: Member, code: ErrorCode, effects: Effects) -> None:
        """The caller rebalances afterwards."""
        self.roster.remove(member)
        effects.replies += dismissed(member, code)

    def start_session(self, member: Member, now: Now, timeout_ms: int | None = None) -> None:
        """`timeout_ms` None: as long as the member asked for."""
        member.session_ends_ms = now.steady_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        self._watch_session(member.session_ends_ms)

    def _watch_session(self, ends_ms: int) -> None:
        first_ms = self._first_session_end_ms
        self._first_session_end_ms = ends_ms if first_ms is None else min(first_ms, ends_ms)

    # The rebalance

    def rebalance(self, now: Now) -> Effects:
        """Someone came, went or changed: begin a rebalance, or see whether the wait for all is over now."""
        return self._prepare(now) if self._join_wait is None else self.complete_join_if_all_came(now)

    def _prepare(self, now: Now) -> Effects:
        effects = Effects()
        for member in self.roster:
            self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), effects, now)
        self._sync_ends_ms = None
        was_empty = self.state is State.EMPTY
        self.state = State.PREPARING
        timeout_ms = self.roster.rebalance_timeout_ms
        if not was_empty:
            self._join_wait = _JoinWait(now.steady_ms + timeout_ms)
            effects.add(self.complete_join_if_all_came(now))
            return effects
        delay_ms = self.settings.initial_rebalance_delay_ms
        latest_end_ms = now.steady_ms + max(delay_ms, timeout_ms)
        self._join_wait = _JoinWait(now.steady_ms + delay_ms, is_initial=True, latest_end_ms=latest_end_ms)
        if delay_ms == 0:
            effects.add(self._complete_join(now))
        return effects

    def complete_join_if_all_came(self, now: Now) -> Effects:
        if self._join_wait is None or self._join_wait.is_initial or self._pending:
            return Effects()
        if any(member.joining is None for member in self.roster):
            return Effects()
        return self._complete_join(now)

    def _complete_join(self, now: Now) -> Effects:
        """Begin the next generation with those who have joined, and static members, who may just be restarting."""
        for member in list(self.roster):
            if member.joining is None and member.instance_id is None:
                self.roster.remove(member)
        if not self.roster:
            self._join_wait = None
            return Effects(records=[self._record_without_members(now.wall_ms)])
        timeout_ms = self.roster.rebalance_timeout_ms
        if not self.roster.elect_joined_leader():
            # Static members alone, all of them away: wait on, until one comes or their sessions end.
            self._join_wait = _JoinWait(now.steady_ms + timeout_ms)
            return Effects()
        self._join_wait = None
        self._sync_ends_ms = now.steady_ms + timeout_ms
        self.state = State.COMPLETING
        self.generation += 1
        self.protocol = self.roster.elected_protocol()
        return self._answer_joins(now)

    def _answer_joins(self, now: Now) -> Effects:
        effects = Effects()
        for member in self.roster:
            member.subscription = member.protocols[self.protocol]
        for member in self.roster:
            if member.joining is not None:
                effects.replies.append(Reply(member.joining, self.membership(member)))
            member.joining = None
            member.is_new = False
            member.owes_sync = True
            self.start_session(member, now)
        return effects

    def hand_out(self, assignments: Mapping[str, bytes], now: Now) -> Effects:
        """The leader has decided. Those who asked are told as soon as it is written, the others when they ask."""
        if self._record_bytes(assignments) > RECORD_BYTES_MAX:
            return self._too_large_to_keep(now)
        effects = Effects(records=[self.record(assignments, now.wall_ms)])
        for member in self.roster:
            self._answer_sync(member, self.share(assignments.get(member.member_id, b"")), effects, now)
        return effects

    def _record_bytes(self, assignments: Mapping[str, bytes]) -> int:
        """About: what else a member has is short."""
        return sum(
            len(member.subscription or b"") + len(assignments.get(member.member_id, b"")) for member in self.roster
        )

    def _too_large_to_keep(self, now: Now) -> Effects:
        """As Kafka does it: this generation cannot be, and its members hear that it is not their fault."""
        effects = Effects()
        for member in self.roster:
            self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), effects, now)
        effects.add(self._prepare(now))
        return effects

    def _answer_sync(self, member: Member, response: SyncGroupResponse, effects: Effects, now: Now) -> None:
        if member.syncing is None:
            return
        effects.replies.append(Reply(member.syncing, response))
        member.syncing = None
        self.start_session(member, now)

    # Time

    def next_deadline_ms(self) -> int | None:
        join_ends_ms = None if self._join_wait is None else self._join_wait.ends_ms
        deadlines = (self._first_session_end_ms, join_ends_ms, self._sync_ends_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now: Now) -> Effects:
        if self._first_session_end_ms is not None and self._first_session_end_ms <= now.steady_ms:
            return self._end_sessions(now)
        if self._join_wait is not None and self._join_wait.ends_ms <= now.steady_ms:
            return self._end_join_wait(self._join_wait, now)
        if self._sync_ends_ms is not None and self._sync_ends_ms <= now.steady_ms:
            return self._end_sync_wait(now)
        return Effects()

    def _end_sessions(self, now: Now) -> Effects:
        effects = Effects()
        self._pending = {member_id: end_ms for member_id, end_ms in self._pending.items() if end_ms > now.steady_ms}
        lost = [member for member in self.roster if member.can_expire and member.session_ends_ms <= now.steady_ms]
        for member in lost:
            self.remove(member, ErrorCode.UNKNOWN_MEMBER_ID, effects)
        ends_ms = [member.session_ends_ms for member in self.roster if member.can_expire]
        self._first_session_end_ms = min([*ends_ms, *self._pending.values()], default=None)
        effects.add(self.rebalance(now) if lost else self.complete_join_if_all_came(now))
        return effects

    def _end_join_wait(self, wait: _JoinWait, now: Now) -> Effects:
        if wait.is_initial and wait.someone_came and now.steady_ms < wait.latest_end_ms:
            wait.someone_came = False
            wait.ends_ms = min(now.steady_ms + self.settings.initial_rebalance_delay_ms, wait.latest_end_ms)
            return Effects()
        return self._complete_join(now)

    def _end_sync_wait(self, now: Now) -> Effects:
        """Whoever got its generation but never asked for its share is gone, the leader too."""
        effects = Effects()
        self._sync_ends_ms = None
        silent = [member for member in self.roster if member.owes_sync]
        for member in silent:
            self.remove(member, ErrorCode.UNKNOWN_MEMBER_ID, effects)
        if silent:
            effects.add(self._prepare(now))
        return effects
