"""JoinGroup: who is let into a classic group, and what becomes of those who were in it before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.effects import Effects, Reply
from headrace.coordinators.groups.classic.answers import dismissed, join_refused
from headrace.coordinators.groups.classic.members import Member, offered
from headrace.coordinators.groups.classic.rebalance import State
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from headrace.coordinators.effects import Caller, Now, Token
    from headrace.coordinators.groups.classic.rebalance import RebalanceCycle
    from headrace.wire.messages.join_group import JoinGroupRequest

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000  # Kafka's; a client that gave up on its first join comes under another id

MEMBER_ID_REQUIRED_FROM: Final = 4  # JoinGroup: a client that repeats a lost first join must not become two members
SKIP_ASSIGNMENT_FROM: Final = 9  # JoinGroup: a leader can be told that there is nothing to assign


def join(cycle: RebalanceCycle, request: JoinGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
    try:
        _check_session_timeout(cycle, request)
        if not _has_room_for(cycle, request):
            return _turn_away(cycle, request, token, now)
        _check_protocols(cycle, request)
        if not request.member_id:
            return _join_unnamed(cycle, request, caller, token, now)
        if cycle.is_expected(request.member_id) and request.group_instance_id is None:
            return _admit(cycle, Member.asking(request, caller, request.member_id), request, token, now)
        member = cycle.roster.find(request.member_id, request.group_instance_id)
        return _rejoin(cycle, member, request, token, now)
    except Refusal as refusal:
        return Effects(replies=[join_refused(token, refusal.code, request.member_id)])


def _check_session_timeout(cycle: RebalanceCycle, request: JoinGroupRequest) -> None:
    least_ms, most_ms = cycle.settings.min_session_timeout_ms, cycle.settings.max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        raise Refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"a session timeout of {request.session_timeout_ms} ms; allowed are {least_ms} to {most_ms} ms",
        )


def _check_protocols(cycle: RebalanceCycle, request: JoinGroupRequest) -> None:
    protocols = offered(request)
    roster = cycle.roster
    if not request.protocol_type or not protocols:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member offers a protocol, and says of which type")
    if roster and not (request.protocol_type == cycle.protocol_type and roster.accepts(protocols)):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"{sorted(protocols)} of type {request.protocol_type!r}: expected one that every member "
            f"of this group of type {cycle.protocol_type!r} supports",
        )


def _has_room_for(cycle: RebalanceCycle, request: JoinGroupRequest) -> bool:
    roster = cycle.roster
    member = roster.with_instance(request.group_instance_id) or roster.get(request.member_id)
    if cycle.state is State.PREPARING:
        # Only those who have joined again count, so that a group above its limit shrinks to it.
        is_inside = member is not None and member.joining is not None
        return is_inside or roster.joining_count < cycle.settings.max_size
    return member is not None or len(roster) < cycle.settings.max_size


def _turn_away(cycle: RebalanceCycle, request: JoinGroupRequest, token: Token, now: Now) -> Effects:
    effects = Effects(replies=[join_refused(token, ErrorCode.GROUP_MAX_SIZE_REACHED, "")])
    cycle.expect_no_more(request.member_id)
    member = cycle.roster.get(request.member_id)
    if member is not None:
        cycle.remove(member, ErrorCode.GROUP_MAX_SIZE_REACHED, effects)
    effects.add(cycle.complete_join_if_all_came(now))
    return effects


def _join_unnamed(cycle: RebalanceCycle, request: JoinGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
    assert caller.fresh_member_id, "whoever passes a JoinGroup on brings an id for a new member"
    newcomer = Member.asking(request, caller, caller.fresh_member_id)
    predecessor = cycle.roster.with_instance(request.group_instance_id)
    if predecessor is not None:
        return _replace_static(cycle, predecessor, newcomer, caller, token, now)
    if newcomer.instance_id is None and caller.version >= MEMBER_ID_REQUIRED_FROM:
        cycle.expect(newcomer.member_id, now.steady_ms + request.session_timeout_ms)
        return Effects(replies=[join_refused(token, ErrorCode.MEMBER_ID_REQUIRED, newcomer.member_id)])
    return _admit(cycle, newcomer, request, token, now)


def _admit(cycle: RebalanceCycle, newcomer: Member, request: JoinGroupRequest, token: Token, now: Now) -> Effects:
    if not cycle.roster:
        cycle.protocol_type = request.protocol_type
    cycle.expect_no_more(newcomer.member_id)
    cycle.roster.add(newcomer)
    newcomer.joining = token
    newcomer.is_new = True
    cycle.start_session(newcomer, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
    cycle.note_newcomer()
    return cycle.rebalance(now)


def _rejoin(cycle: RebalanceCycle, member: Member, request: JoinGroupRequest, token: Token, now: Now) -> Effects:
    # A leader that joins again while all is well has seen a change that we cannot see, such as a new partition.
    is_settled = cycle.state is State.COMPLETING or (cycle.state is State.STABLE and not cycle.leads(member))
    if is_settled and member.offers(offered(request)):
        return Effects(replies=[Reply(token, cycle.membership(member))])
    effects = Effects()
    if member.joining is not None:
        effects.replies.append(join_refused(member.joining, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.offer(request)
    member.joining = token
    effects.add(cycle.rebalance(now))
    return effects


def _replace_static(cycle: RebalanceCycle, old: Member, new: Member, caller: Caller, token: Token, now: Now) -> Effects:
    """A static member came back without its id: it takes its old place, and whoever uses the old id is fenced."""
    effects = Effects(replies=dismissed(old, ErrorCode.FENCED_INSTANCE_ID))
    new.subscription, new.assignment = old.subscription, old.assignment
    was_led_by = cycle.roster.leader_id or ""
    cycle.roster.replace(old, new)
    cycle.start_session(new, now)
    if cycle.state is not State.STABLE or cycle.roster.elected_protocol() != cycle.protocol:
        # A leader that is assigning at this moment would assign to the old id: all must join again.
        new.joining = token
        effects.add(cycle.rebalance(now))
        return effects
    new.subscription = new.protocols[cycle.protocol]
    membership = cycle.membership(new)
    if cycle.leads(new) and caller.version >= SKIP_ASSIGNMENT_FROM:
        membership.skip_assignment = True
    elif cycle.leads(new):
        # Nobody else has joined, so it must not assign. Told that its old id leads, it just asks for its share.
        membership.leader, membership.members = was_led_by, []
    assignments = {member.member_id: member.assignment for member in cycle.roster}
    effects.records.append(cycle.record(assignments, cycle.recorded_at_ms))
    effects.replies.append(Reply(token, membership))
    return effects
