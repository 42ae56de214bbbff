"""The whole life of a member in each version of the requests it is made of, as clients of every age live it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.client.groups.consumer_protocol import encode_assignment
from headrace.model.errors import ErrorCode
from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.clients.nodes import new_name
from tests.clients.raw_members import SEVERAL_LEAVE_FROM, RawMember, RawModernMember, find_coordinator, versions_of

if TYPE_CHECKING:
    from tests.clients.raw_connection import RawConnection

pytest_plugins = ["tests.clients.node_fixtures", "tests.clients.group_fixtures"]

STATIC_FROM = 5  # of JoinGroup
PROTOCOL_TYPE_FROM = 7

DYNAMIC = [(version, None) for version in versions_of(ApiKey.JOIN_GROUP)]
STATIC = [(version, "instance") for version in versions_of(ApiKey.JOIN_GROUP) if version >= STATIC_FROM]


@pytest.mark.parametrize(("version", "instance_id"), DYNAMIC + STATIC)
def test_a_classic_member(
    connection: RawConnection, two_partitions: str, version: int, instance_id: str | None
) -> None:
    find_coordinator(connection)
    group = new_name("group")
    member = RawMember(connection, group, instance_id, [two_partitions])
    joined = member.ask_to_join(version)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        member.member_id = joined.member_id
        joined = member.ask_to_join(version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert joined.leader == joined.member_id == joined.members[0].member_id
    assert joined.protocol_type == ("consumer" if version >= PROTOCOL_TYPE_FROM else None)
    member.member_id, member.generation = joined.member_id, joined.generation_id

    share = encode_assignment([TopicPartition(two_partitions, 0), TopicPartition(two_partitions, 1)])
    handed_out = [SyncGroupRequestAssignment(member.member_id, share)]
    synced = member.ask_to_sync(min(version, 5), assignments=handed_out)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, share)
    assert member.ask_heartbeat(min(version, 4)).error_code == ErrorCode.NONE

    for describing in versions_of(ApiKey.DESCRIBE_GROUPS):
        (described,) = connection.ask(DescribeGroupsRequest([group]), describing).groups
        assert (described.group_state, described.protocol_type, described.protocol_data) == (
            ("Stable", "consumer", "range")
        )
        assert described.members[0].member_assignment == share
    for listing in versions_of(ApiKey.LIST_GROUPS):
        listed = connection.ask(ListGroupsRequest(), listing).groups
        assert group in {found.group_id for found in listed if found.protocol_type == "consumer"}

    leaving = min(version, 5)
    left = member.ask_to_leave(leaving)
    assert left.error_code == ErrorCode.NONE
    if leaving >= SEVERAL_LEAVE_FROM:
        assert [(one.member_id, one.error_code) for one in left.members] == [(member.member_id, ErrorCode.NONE)]
    assert connection.ask(DescribeGroupsRequest([group])).groups[0].group_state == "Empty"


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT))
def test_a_member_of_the_newer_protocol(connection: RawConnection, two_partitions: str, version: int) -> None:
    find_coordinator(connection)
    group = new_name("group")
    member = RawModernMember(connection, group, [two_partitions])
    if version == 0:
        member.member_id = ""  # the node makes one
    joined = member.ask_heartbeat(
        version, rebalance_timeout_ms=1000, subscribed_topic_names=[two_partitions], topic_partitions=[]
    )
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 1)
    assert [topic.partitions for topic in joined.assignment.topic_partitions] == [[0, 1]]
    member.member_id, member.epoch = joined.member_id, joined.member_epoch
    unchanged = member.ask_heartbeat(version)
    assert (unchanged.error_code, unchanged.assignment) == (ErrorCode.NONE, None)

    for describing in versions_of(ApiKey.CONSUMER_GROUP_DESCRIBE):
        (described,) = connection.ask(ConsumerGroupDescribeRequest([group]), describing).groups
        assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 1, 1)
        assert described.members[0].assignment == described.members[0].target_assignment
    left = member.ask_heartbeat(version, member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)
    assert member.ask_heartbeat(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
