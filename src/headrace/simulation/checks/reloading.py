"""What coordinators say of their groups and transactions, to be held against what they say when loaded anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import refuse_unless_ok
from headrace.client.groups.group_offsets import fetch_offsets
from headrace.model.errors import ErrorCode
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from headrace.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.client.connections.cluster import Cluster

KEPT_STATES: Final = {"Stable", "Empty"}  # in the others a classic group's picture runs ahead of its log, as it may

_NO_SUCH_THING = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}

Picture = dict[str, str]
"""What is known of each thing, as text."""


def names_of_members(group_id: str) -> set[str]:
    """Under which names a picture holds who belongs to a group; its offsets are another thing."""
    return {_modern_name(group_id), _classic_name(group_id)}


async def describe_all(cluster: Cluster, group_ids: Iterable[str], transactional_ids: Iterable[str]) -> Picture:
    picture: Picture = {}
    for group_id in group_ids:
        coordinator = Coordinator(cluster, CoordinatorKind.GROUP, group_id)
        picture |= await _describe_modern(coordinator, group_id)
        picture |= await _describe_classic(coordinator, group_id)
        picture[f"offsets of {group_id}"] = str(sorted((await fetch_offsets(coordinator, group_id)).items()))
    for transactional_id in transactional_ids:
        picture |= await _describe_transaction(cluster, transactional_id)
    return picture


def _modern_name(group_id: str) -> str:
    return f"consumer group {group_id}"


def _classic_name(group_id: str) -> str:
    return f"classic group {group_id}"


async def _describe_modern(coordinator: Coordinator, group_id: str) -> Picture:
    def check(answer: ConsumerGroupDescribeResponse) -> None:
        _check(group.error_code for group in answer.groups)

    answer = await coordinator.ask(ConsumerGroupDescribeRequest([group_id]), ConsumerGroupDescribeResponse, check)
    for group in answer.groups:
        group.members.sort(key=lambda member: member.member_id)
    return {_modern_name(group_id): str(answer.groups)}


async def _describe_classic(coordinator: Coordinator, group_id: str) -> Picture:
    def check(answer: DescribeGroupsResponse) -> None:
        _check(group.error_code for group in answer.groups)

    answer = await coordinator.ask(DescribeGroupsRequest([group_id]), DescribeGroupsResponse, check)
    (group,) = answer.groups
    group.members.sort(key=lambda member: member.member_id)
    return {_classic_name(group_id): str(group)} if group.group_state in KEPT_STATES else {}


async def _describe_transaction(cluster: Cluster, transactional_id: str) -> Picture:
    def check(answer: DescribeTransactionsResponse) -> None:
        _check(found.error_code for found in answer.transaction_states)

    coordinator = Coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id)
    request = DescribeTransactionsRequest([transactional_id])
    answer = await coordinator.ask(request, DescribeTransactionsResponse, check)
    return {f"transactional id {transactional_id}": str(answer.transaction_states)}


def _check(codes: Iterable[int]) -> None:
    for code in codes:
        if code not in _NO_SUCH_THING:
            refuse_unless_ok(code, "a coordinator")
