"""What a member may and may not say: first on its own, then measured by what we know of the member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.groups.modern.assignors import ASSIGNORS
from headrace.coordinators.groups.modern.members import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    partitions_of,
)
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ID_BYTES_MAX, TOPIC_NAME_MAX

if TYPE_CHECKING:
    from headrace.coordinators.groups.modern.members import Member
    from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

SUBSCRIBED_MAX: Final = 10_000  # names that one record of a member holds; a regex stands for any number
MEMBERS_NAME_THEMSELVES_FROM: Final = 1
"""From this version on. An older client gets its id with the first answer, and counts twice if that gets lost."""


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    _check_names(request, version)
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("only a static member may leave for a while (epoch -2), and it must send its instance id")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"the member epoch {request.member_epoch} means nothing; the least is {STATIC_LEAVE_EPOCH}")
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r}; expected one of {', '.join(ASSIGNORS)}",
        )


def _check_names(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    is_known = request.member_epoch > JOIN_EPOCH or request.member_epoch == LEAVE_EPOCH
    if (is_known or version >= MEMBERS_NAME_THEMSELVES_FROM) and not request.member_id.strip():
        raise _invalid("the member id is empty; expected the one that the member made or was given")
    for what, name in (
        ("group id", request.group_id),
        ("instance id", request.instance_id),
        ("rack id", request.rack_id),
    ):
        if name is not None and not name.strip():
            raise _invalid(f"the {what} is empty")
    topics = request.subscribed_topic_names or ()
    if any(len(name) > TOPIC_NAME_MAX for name in topics) or len(topics) > SUBSCRIBED_MAX:
        raise _invalid(
            f"a member names {SUBSCRIBED_MAX} topics at most, and no name has more than {TOPIC_NAME_MAX} letters"
        )
    for name in (request.member_id, request.instance_id, request.rack_id):
        if name is not None and len(name.encode()) > ID_BYTES_MAX:
            raise _invalid(f"a member's ids may have {ID_BYTES_MAX} bytes each, one has {len(name.encode())}")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms < 0:
        raise _invalid(
            f"a member joins with the rebalance timeout {request.rebalance_timeout_ms} ms; expected 0 or more"
        )
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("a member that joins owns nothing; expected an empty list of partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("a member that joins must say what it subscribes to, by names, by a regex or by an empty list")


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def check_member_epoch(member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
    """A member must be at the epoch that it was told last, or at the one before it: an answer may get lost.

    At the one before, it may only own what it is assigned now; else it missed more than an answer.
    """
    current = member.current
    if request.member_epoch == current.epoch:
        return
    is_one_behind = request.member_epoch == current.previous_epoch and request.member_epoch < current.epoch
    if (
        is_one_behind
        and request.topic_partitions is not None
        and partitions_of(request.topic_partitions) <= current.assigned
    ):
        return
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member {member.member_id!r} is at epoch {current.epoch}, not {request.member_epoch}; "
        "expected it to give up all its partitions and to join again",
    )


def check_not_stale(member: Member, member_epoch: int) -> None:
    if member_epoch != member.current.epoch:
        raise Refusal(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"the member {member.member_id!r} is at epoch {member.current.epoch}, not {member_epoch}",
        )
