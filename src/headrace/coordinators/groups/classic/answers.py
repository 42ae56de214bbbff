"""What members of a classic group are told, and what others are told about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.coordinators.effects import Reply
from headrace.model.errors import ErrorCode
from headrace.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from headrace.wire.messages.describe_groups import DescribedGroupMember
from headrace.wire.messages.join_group import JoinGroupResponse
from headrace.wire.messages.sync_group import SyncGroupResponse
from headrace.wire.primitives import Malformed, Reader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.coordinators.effects import Token
    from headrace.coordinators.groups.classic.members import Member


def join_refused(token: Token, code: ErrorCode, member_id: str) -> Reply:
    return Reply(token, JoinGroupResponse(error_code=code, member_id=member_id))


def sync_refused(token: Token, code: ErrorCode) -> Reply:
    return Reply(token, SyncGroupResponse(error_code=code))


def dismissed(member: Member, code: ErrorCode) -> list[Reply]:
    """Answers to all that a member waits for, because it is one no longer."""
    replies = []
    if member.joining is not None:
        # A client that keeps an unknown id would never get in again.
        member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        replies.append(join_refused(member.joining, code, member_id))
    if member.syncing is not None:
        replies.append(sync_refused(member.syncing, code))
    member.joining = member.syncing = None
    return replies


def described(member: Member, *, is_stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        # During a rebalance the protocol may change, and nobody could tell what the bytes mean.
        member_metadata=(member.subscription or b"") if is_stable else b"",
        member_assignment=member.assignment,
    )


def topics_of(subscriptions: Iterable[bytes]) -> set[str] | None:
    """The topics in consumers' subscriptions; None if one of them cannot be read."""
    topics: set[str] = set()
    for subscription in subscriptions:
        reader = Reader(subscription)
        try:
            reader.int16()
            # Every version begins with the fields of the first, those to come as well.
            topics.update(ConsumerProtocolSubscription.decode(reader, 0).topics)
        except Malformed:
            return None
    return topics
