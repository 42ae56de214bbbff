"""One group of the classic protocol, as its clients meet it: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and commits.

The requests are judged here (JoinGroup in `joining`). What follows from them is the business of the group's
`RebalanceCycle`, which also says what is kept and what is soft. All is as Kafka does it, but for these, each so that
nobody waits or is sent away for nothing:

- A request that is overtaken by a newer one of the same member is answered with REBALANCE_IN_PROGRESS, and a parked
  SyncGroup of a member that is removed with UNKNOWN_MEMBER_ID. Kafka forgets both.
- A static member may come back to a full group, because it takes its own place.
- A client that was given an id and leaves before it has joined causes no rebalance.
- Whoever finds the group full while it rebalances is not waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.effects import Effects, Reply
from headrace.coordinators.groups.classic.answers import described, sync_refused, topics_of
from headrace.coordinators.groups.classic.joining import join
from headrace.coordinators.groups.classic.rebalance import RebalanceCycle, State
from headrace.coordinators.groups.sizes import MEMBER_BYTES
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TIMESTAMP
from headrace.wire.messages.describe_groups import DescribedGroup
from headrace.wire.messages.heartbeat import HeartbeatResponse
from headrace.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from headrace.coordinators.effects import Caller, Now, Token
    from headrace.coordinators.groups.classic.members import Member
    from headrace.coordinators.groups.settings import GroupSettings
    from headrace.model.names import Millis
    from headrace.wire.messages.group_records import GroupMetadataValue
    from headrace.wire.messages.heartbeat import HeartbeatRequest
    from headrace.wire.messages.join_group import JoinGroupRequest
    from headrace.wire.messages.leave_group import LeaveGroupRequest
    from headrace.wire.messages.sync_group import SyncGroupRequest

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
PROTOCOL_REQUIRED_FROM: Final = 5  # SyncGroup: a member says which protocol it believes in
SEVERAL_LEAVE_FROM: Final = 3  # LeaveGroup: members leave together, each with its own result


class ClassicGroup:
    """Every token is answered exactly once: by the command that brings it, or in the effects of a later one."""

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self._cycle = RebalanceCycle(group_id, settings)

    @property
    def settings(self) -> GroupSettings:
        return self._cycle.settings

    @settings.setter
    def settings(self, settings: GroupSettings) -> None:
        self._cycle.settings = settings

    # What others may know

    @property
    def state_name(self) -> str:
        return self._cycle.state.value

    @property
    def protocol_type(self) -> str:
        return self._cycle.protocol_type

    @property
    def generation(self) -> int:
        return self._cycle.generation

    @property
    def is_empty(self) -> bool:
        return self._cycle.state is State.EMPTY

    @property
    def empty_since_ms(self) -> Millis | None:
        """None if the group has members, or if its log does not say."""
        since_ms = self._cycle.recorded_at_ms
        return since_ms if self.is_empty and since_ms != NO_TIMESTAMP else None

    @property
    def held_bytes(self) -> int:
        """About what its members take."""
        return sum(MEMBER_BYTES + member.held_bytes for member in self._cycle.roster) + self._cycle.expected_bytes

    def said_bytes(self, member_id: str, instance_id: str | None) -> int:
        """What a member has said of itself; 0 if there is no such member."""
        roster = self._cycle.roster
        member = roster.with_instance(instance_id) or roster.get(member_id)
        return 0 if member is None else member.said_bytes

    def subscribed_topics(self) -> set[str] | None:
        """The topics of the generation's members; None if they are not consumers, or not such as we can read."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        subscriptions = (member.subscription for member in self._cycle.roster)
        return topics_of(subscription for subscription in subscriptions if subscription is not None)

    def describe(self) -> DescribedGroup:
        is_stable = self._cycle.state is State.STABLE
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type,
            protocol_data=self._cycle.protocol if is_stable else "",
            members=[described(member, is_stable=is_stable) for member in self._cycle.roster],
        )

    # The log and the clock

    def apply(self, value: GroupMetadataValue) -> None:
        self._cycle.apply(value)

    def loaded(self, now: Now) -> Effects:
        """The whole log is applied: everybody in it has a full session to show up."""
        cycle = self._cycle
        for member in cycle.roster:
            cycle.start_session(member, now)
        # If the limit was lowered, a rebalance lets in as many as it allows.
        return cycle.rebalance(now) if len(cycle.roster) > cycle.settings.max_size else Effects()

    def next_deadline_ms(self) -> int | None:
        """When to `tick`, on the steady clock. It may turn out that nothing was due."""
        return self._cycle.next_deadline_ms()

    def tick(self, now: Now) -> Effects:
        """End sessions and waits that are over, one kind at a time: `next_deadline_ms` says if more is due."""
        return self._cycle.tick(now)

    # JoinGroup, SyncGroup

    def join(self, request: JoinGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
        return join(self._cycle, request, caller, token, now)

    def sync(self, request: SyncGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
        cycle = self._cycle
        try:
            member = self._member_of_generation(request.member_id, request.group_instance_id, request.generation_id)
            self._check_same_protocol(request, caller)
        except Refusal as refusal:
            return Effects(replies=[sync_refused(token, refusal.code)])
        if cycle.state is State.PREPARING:
            return Effects(replies=[sync_refused(token, ErrorCode.REBALANCE_IN_PROGRESS)])
        member.owes_sync = False
        if cycle.state is State.STABLE:
            return Effects(replies=[Reply(token, cycle.share(member.assignment))])
        effects = Effects()
        if member.syncing is not None:
            effects.replies.append(sync_refused(member.syncing, ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = token
        if cycle.leads(member):
            assignments = {given.member_id: given.assignment for given in request.assignments}
            effects.add(cycle.hand_out(assignments, now))
        return effects

    def _check_same_protocol(self, request: SyncGroupRequest, caller: Caller) -> None:
        believed = (request.protocol_type, request.protocol_name)
        if caller.version >= PROTOCOL_REQUIRED_FROM and believed != (self.protocol_type, self._cycle.protocol):
            raise Refusal(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the member says {believed}; the generation uses {self.protocol_type!r}, {self._cycle.protocol!r}",
            )

    # Heartbeat, LeaveGroup, commits

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, token: Token, now: Now) -> Effects:  # noqa: ARG002 - as all commands
        is_rebalancing = self._cycle.state is State.PREPARING
        code = ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE
        try:
            member = self._member_of_generation(request.member_id, request.group_instance_id, request.generation_id)
            self._cycle.start_session(member, now)
        except Refusal as refusal:
            code = refusal.code
        return Effects(replies=[Reply(token, HeartbeatResponse(error_code=code))])

    def _member_of_generation(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        member = self._cycle.roster.find(member_id, instance_id)
        if generation != self.generation:
            raise Refusal(
                ErrorCode.ILLEGAL_GENERATION, f"generation {generation}; the group is in generation {self.generation}"
            )
        return member

    def leave(self, request: LeaveGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
        leaving = request.members if caller.version >= SEVERAL_LEAVE_FROM else [MemberIdentity(request.member_id)]
        effects = Effects()
        size_before = len(self._cycle.roster)
        results = [
            MemberResponse(identity.member_id, identity.group_instance_id, self._leave_one(identity, effects))
            for identity in leaving
        ]
        if caller.version >= SEVERAL_LEAVE_FROM:
            response = LeaveGroupResponse(members=results)
        else:
            response = LeaveGroupResponse(error_code=results[0].error_code)
        effects.replies.append(Reply(token, response))
        has_shrunk = len(self._cycle.roster) < size_before
        effects.add(self._cycle.rebalance(now) if has_shrunk else self._cycle.complete_join_if_all_came(now))
        return effects

    def _leave_one(self, identity: MemberIdentity, effects: Effects) -> ErrorCode:
        if self._cycle.expect_no_more(identity.member_id):
            return ErrorCode.NONE
        roster = self._cycle.roster
        # An administrator may know only the instance.
        holder = None if identity.member_id else roster.with_instance(identity.group_instance_id)
        try:
            member = holder or roster.find(identity.member_id, identity.group_instance_id)
        except Refusal as refusal:
            return refusal.code
        self._cycle.remove(member, ErrorCode.UNKNOWN_MEMBER_ID, effects)
        return ErrorCode.NONE

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,  # noqa: ARG002 - groups of the newer protocol judge by it, and both are asked alike
        *,
        is_transactional: bool,
        now: Now,
    ) -> None:
        """Raises Refusal unless this member may commit offsets now. A plain commit is as good as a heartbeat."""
        if generation < 0 and self.is_empty:
            return  # a consumer that chooses its partitions itself, or an administrator
        if generation < 0 and not member_id and instance_id is None:
            if is_transactional:
                return  # producers of older versions do not say for whom they commit
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and only they may commit for it")
        member = self._member_of_generation(member_id, instance_id, generation)
        if is_transactional:
            return
        if self._cycle.state is State.COMPLETING:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "the generation's partitions are being assigned")
        self._cycle.start_session(member, now)
