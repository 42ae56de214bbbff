"""Groups as DescribeGroups, ConsumerGroupDescribe and ListGroups show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.groups.classic.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from headrace.coordinators.groups.modern.modern_group import ModernGroup
from headrace.model.errors import ErrorCode
from headrace.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from headrace.wire.messages.describe_groups import DescribedGroup
from headrace.wire.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.coordinators.groups.group import Group

DEAD_IS_AN_ERROR_FROM: Final = 6  # DescribeGroups: older clients are shown an unknown group as one that is dead


def described_group(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    if isinstance(group, ClassicGroup):
        return group.describe()
    described = DescribedGroup(group_id=group_id, group_state="Dead")
    if version >= DEAD_IS_AN_ERROR_FROM:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = _not_described(group_id, group, "classic")
    return described


def described_consumer_group(group_id: str, group: Group | None) -> DescribedConsumerGroup:
    if isinstance(group, ModernGroup):
        return group.describe()
    return DescribedConsumerGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=_not_described(group_id, group, "consumer"),
        group_id=group_id,
    )


def listed_groups(
    groups: Mapping[str, Group | None], states: Collection[str], types: Collection[str]
) -> list[ListedGroup]:
    """None stands for a simple group, which has offsets alone."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    return [
        listed
        for listed in (_listed(group_id, group) for group_id, group in groups.items())
        if (not wanted_states or listed.group_state.lower() in wanted_states)
        and (not wanted_types or listed.group_type in wanted_types)
    ]


def _listed(group_id: str, group: Group | None) -> ListedGroup:
    if group is None:
        return ListedGroup(group_id, "", "Empty", "classic")
    if isinstance(group, ModernGroup):
        return ListedGroup(group_id, CONSUMER_PROTOCOL_TYPE, group.state_name, "consumer")
    return ListedGroup(group_id, group.protocol_type, group.state_name, "classic")


def _not_described(group_id: str, group: Group | None, wanted: str) -> str:
    return f"there is no group {group_id!r}" if group is None else f"group {group_id!r} is not a {wanted} group"
