"""One member against a scripted coordinator: what it sends, and how it takes a no."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.groups.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.client.groups.membership import Membership, MembershipSettings
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.messages.heartbeat import HeartbeatResponse
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.messages.sync_group import SyncGroupResponse
from tests.unit.client.scripted_node import HANG_UP, TOPIC, ScriptedNode, joined

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from headrace.client.connections.cluster import Cluster

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)
LIVELY = MembershipSettings(heartbeat_interval_ms=1)
ZERO, ONE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
PATIENCE_S = 120.0  # against hangs only


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode(partitions=2).start()
    yield running
    await running.stop()


@pytest.fixture
async def cluster(node: ScriptedNode) -> AsyncIterator[Cluster]:
    async with node.cluster(QUICK) as reached:
        yield reached


class Beating:
    """A member with its heartbeats, and an event for when it is asked to act."""

    def __init__(self, cluster: Cluster, settings: MembershipSettings = LIVELY) -> None:
        self.changed = asyncio.Event()
        self.member = Membership(cluster, "g", [TOPIC], settings, self.changed.set)
        self.beats: asyncio.Task[None]

    async def __aenter__(self) -> Beating:
        self.member.poll_began()
        self.beats = asyncio.create_task(self.member.beat_for_ever())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.beats.cancel()
        await asyncio.gather(self.beats, return_exceptions=True)


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.001)


def refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)


# Joining.


async def test_a_new_member_is_told_its_id_and_joins_with_it(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.JOIN_GROUP] = [refused(ErrorCode.MEMBER_ID_REQUIRED, "m-7")]
    async with Beating(cluster) as beating:
        assert await beating.member.join([]) == [ZERO, ONE]
        assert beating.member.who == ("g", 1, "m-7", None)
        assert not beating.member.needs_join
    first, second = node.asked(ApiKey.JOIN_GROUP)
    assert (first.member_id, second.member_id) == ("", "m-7")
    assert (second.session_timeout_ms, second.rebalance_timeout_ms, second.protocol_type) == (
        45_000,
        300_000,
        "consumer",
    )
    assert [protocol.name for protocol in second.protocols] == ["range", "roundrobin"]


async def test_the_leader_decides_for_all(node: ScriptedNode, cluster: Cluster) -> None:
    def with_another(request: JoinGroupRequest) -> JoinGroupResponse:
        answer = joined(node, request)
        answer.members.append(JoinGroupResponseMember("m-2", None, encode_subscription([TOPIC, "gone"], [], -1, None)))
        return answer

    node.script[ApiKey.JOIN_GROUP] = [with_another]
    member = Membership(cluster, "g", [TOPIC], LIVELY, lambda: None)
    assert await member.join([]) == [ZERO]
    (sync,) = node.asked(ApiKey.SYNC_GROUP)
    shares = {share.member_id: decode_assignment(share.assignment) for share in sync.assignments}
    assert shares == {"m-1": [ZERO], "m-2": [ONE]}
    assert (sync.generation_id, sync.protocol_type, sync.protocol_name) == (1, "consumer", "range")


async def test_a_follower_takes_what_it_is_given(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.JOIN_GROUP] = [
        JoinGroupResponse(generation_id=4, protocol_name="range", leader="x", member_id="m")
    ]
    node.script[ApiKey.SYNC_GROUP] = [SyncGroupResponse(assignment=encode_assignment([ONE]))]
    member = Membership(cluster, "g", [TOPIC], LIVELY, lambda: None)
    assert await member.join([]) == [ONE]
    assert node.asked(ApiKey.SYNC_GROUP)[0].assignments == []


async def test_a_static_leader_that_came_back_decides_nothing(node: ScriptedNode, cluster: Cluster) -> None:
    def skipping(request: JoinGroupRequest) -> JoinGroupResponse:
        answer = joined(node, request)
        answer.skip_assignment = True
        return answer

    node.script[ApiKey.JOIN_GROUP] = [skipping]
    node.script[ApiKey.SYNC_GROUP] = [SyncGroupResponse(assignment=encode_assignment([ONE]))]
    member = Membership(cluster, "g", [TOPIC], MembershipSettings(instance_id="i-1"), lambda: None)
    assert await member.join([]) == [ONE]
    assert node.asked(ApiKey.SYNC_GROUP)[0].assignments == []
    assert node.asked(ApiKey.JOIN_GROUP)[0].group_instance_id == "i-1"


@pytest.mark.parametrize(
    ("code", "is_expelled"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
    ],
)
async def test_a_sync_that_comes_too_late_is_begun_anew(
    node: ScriptedNode, cluster: Cluster, code: ErrorCode, is_expelled: bool
) -> None:
    node.script[ApiKey.SYNC_GROUP] = [SyncGroupResponse(error_code=code)]
    member = Membership(cluster, "g", [TOPIC], LIVELY, lambda: None)
    assert await member.join([]) is None
    assert (member.needs_join, member.is_expelled) == (True, is_expelled)
    assert await member.join([]) == [ZERO, ONE]
    assert (member.needs_join, member.is_expelled) == (False, False)
    assert node.asked(ApiKey.JOIN_GROUP)[1].member_id == ("" if is_expelled else "m-1")


async def test_a_member_that_the_group_forgot_joins_as_a_new_one(node: ScriptedNode, cluster: Cluster) -> None:
    member = Membership(cluster, "g", [TOPIC], LIVELY, lambda: None)
    await member.join([])
    node.script[ApiKey.JOIN_GROUP] = [refused(ErrorCode.UNKNOWN_MEMBER_ID)]
    assert await member.join([]) is None
    assert member.is_expelled
    await member.join([])
    assert [asked.member_id for asked in node.asked(ApiKey.JOIN_GROUP)] == ["", "m-1", ""]


async def test_a_lost_answer_is_asked_for_again_with_the_same_id(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.JOIN_GROUP] = [refused(ErrorCode.MEMBER_ID_REQUIRED, "m-7"), HANG_UP]
    member = Membership(cluster, "g", [TOPIC], LIVELY, lambda: None)
    assert await member.join([]) == [ZERO, ONE]
    assert [asked.member_id for asked in node.asked(ApiKey.JOIN_GROUP)] == ["", "m-7", "m-7"]


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED]
)
async def test_what_cannot_be_mended_is_raised(node: ScriptedNode, cluster: Cluster, code: ErrorCode) -> None:
    node.script[ApiKey.JOIN_GROUP] = [refused(code)]
    with pytest.raises(Refusal, match=code.name.lower().replace("_", " ")):
        await Membership(cluster, "g", [TOPIC], LIVELY, lambda: None).join([])


async def test_a_cooperative_member_says_what_it_owns(node: ScriptedNode, cluster: Cluster) -> None:
    settings = MembershipSettings(assignors=("cooperative-sticky",))
    member = Membership(cluster, "g", [TOPIC], settings, lambda: None)
    await member.join([])
    await member.join([ZERO, ONE])
    said = decode_subscription(node.asked(ApiKey.JOIN_GROUP)[1].protocols[0].metadata)
    assert [(own.topic, own.partitions) for own in said.owned_partitions] == [(TOPIC, [0, 1])]
    assert (said.topics, said.generation_id, said.user_data) == ([TOPIC], 1, b"\0\0\0\1")


# Staying.


@pytest.mark.parametrize(
    ("code", "is_expelled"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
    ],
)
async def test_heartbeats_hear_that_the_group_changes(
    node: ScriptedNode, cluster: Cluster, code: ErrorCode, is_expelled: bool
) -> None:
    async with Beating(cluster) as beating:
        await beating.member.join([])
        await until(lambda: len(node.asked(ApiKey.HEARTBEAT)) >= 3)
        assert not beating.changed.is_set()
        node.script[ApiKey.HEARTBEAT] = [HeartbeatResponse(0, code)]
        await asyncio.wait_for(beating.changed.wait(), PATIENCE_S)
        assert (beating.member.needs_join, beating.member.is_expelled) == (True, is_expelled)
    beat = node.asked(ApiKey.HEARTBEAT)[0]
    assert (beat.group_id, beat.generation_id, beat.member_id) == ("g", 1, "m-1")


async def test_heartbeats_outlive_a_lost_connection(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.HEARTBEAT] = [HANG_UP]
    async with Beating(cluster) as beating:
        await beating.member.join([])
        await until(lambda: len(node.asked(ApiKey.HEARTBEAT)) >= 4)
        assert not beating.member.needs_join


async def test_heartbeats_outlive_a_coordinator_that_is_long_in_loading(node: ScriptedNode) -> None:
    """Longer than trouble is ridden out for: a member that has its place all the same must not lose it by that."""
    impatient = ClusterSettings(retry_for_s=0.05, backoff_first_s=0.001, backoff_max_s=0.01)
    async with node.cluster(impatient) as cluster, Beating(cluster) as beating:
        await beating.member.join([])
        loading = HeartbeatResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        node.script[ApiKey.HEARTBEAT] = [loading] * 100
        await until(lambda: beating.beats.done() or not node.script[ApiKey.HEARTBEAT])
        count = len(node.asked(ApiKey.HEARTBEAT))
        await until(lambda: beating.beats.done() or len(node.asked(ApiKey.HEARTBEAT)) > count)
        assert not beating.beats.done()
        assert not beating.member.needs_join


async def test_two_with_one_instance_id_cannot_both_stay(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.HEARTBEAT] = [HeartbeatResponse(0, ErrorCode.FENCED_INSTANCE_ID)]
    async with Beating(cluster, MembershipSettings(heartbeat_interval_ms=1, instance_id="i")) as beating:
        await beating.member.join([])
        with pytest.raises(Refusal, match="fenced instance id"):
            await asyncio.wait_for(beating.beats, PATIENCE_S)


async def test_the_leader_joins_again_when_its_topics_grow(node: ScriptedNode, cluster: Cluster) -> None:
    async with Beating(cluster) as beating:
        await beating.member.join([])
        node.partitions = 3
        await cluster.refresh()
        await asyncio.wait_for(beating.changed.wait(), PATIENCE_S)
        assert await beating.member.join([]) == [ZERO, ONE, TopicPartition(TOPIC, 2)]


COOPERATING = MembershipSettings(
    assignors=("cooperative-sticky",), heartbeat_interval_ms=1, session_timeout_ms=50, instance_id="i-1"
)


async def test_a_leader_joins_again_if_nobody_does_for_a_partition_that_was_held_back(
    node: ScriptedNode, cluster: Cluster
) -> None:
    """Its last owner was to give it up first. It died, and came back as the same static member, who owns nothing."""

    def with_an_owner(request: JoinGroupRequest) -> JoinGroupResponse:
        answer = joined(node, request)
        owner = encode_subscription([TOPIC], [ZERO, ONE], 0, None)
        answer.members.append(JoinGroupResponseMember("m-2", "i-2", owner))
        return answer

    node.script[ApiKey.JOIN_GROUP] = [with_an_owner]
    async with Beating(cluster, COOPERATING) as beating:
        assert await beating.member.join([]) == []
        (sync,) = node.asked(ApiKey.SYNC_GROUP)
        assert sum(len(decode_assignment(share.assignment)) for share in sync.assignments) == 1
        await until(lambda: beating.member.needs_join)
        await beating.member.join([])  # now it shares out all
        beats = len(node.asked(ApiKey.HEARTBEAT))
        await until(lambda: len(node.asked(ApiKey.HEARTBEAT)) > beats + 100)
        assert not beating.member.needs_join


async def test_a_static_leader_that_came_back_sees_once_that_every_partition_has_an_owner(
    node: ScriptedNode, cluster: Cluster
) -> None:
    def skipping(request: JoinGroupRequest) -> JoinGroupResponse:
        answer = joined(node, request)
        answer.skip_assignment = True
        return answer

    node.script[ApiKey.JOIN_GROUP] = [skipping]
    node.script[ApiKey.SYNC_GROUP] = [SyncGroupResponse(assignment=encode_assignment([ONE]))]
    async with Beating(cluster, COOPERATING) as beating:
        assert await beating.member.join([]) == [ONE]
        await until(lambda: beating.member.needs_join)


async def test_a_member_that_is_not_polled_leaves(node: ScriptedNode, cluster: Cluster) -> None:
    async with Beating(cluster, MembershipSettings(heartbeat_interval_ms=1, rebalance_timeout_ms=50)) as beating:
        await beating.member.join([])
        await until(lambda: len(node.asked(ApiKey.HEARTBEAT)) >= 100)  # as long as a poll lasts it stays
        assert node.asked(ApiKey.LEAVE_GROUP) == []
        beating.member.poll_ended()
        await until(lambda: node.asked(ApiKey.LEAVE_GROUP))
        assert beating.member.is_expelled


# Leaving.


async def test_a_member_says_goodbye(node: ScriptedNode, cluster: Cluster) -> None:
    member = Membership(cluster, "g", [TOPIC], LIVELY, lambda: None)
    await member.join([])
    await member.leave()
    (left,) = node.asked(ApiKey.LEAVE_GROUP)
    assert [each.member_id for each in left.members] == ["m-1"]


async def test_a_static_member_goes_without_a_word(node: ScriptedNode, cluster: Cluster) -> None:
    member = Membership(cluster, "g", [TOPIC], MembershipSettings(instance_id="i"), lambda: None)
    await member.join([])
    await member.leave()
    assert node.asked(ApiKey.LEAVE_GROUP) == []


async def test_one_that_never_joined_has_nobody_to_leave(node: ScriptedNode, cluster: Cluster) -> None:
    await Membership(cluster, "g", [TOPIC], LIVELY, lambda: None).leave()
    assert node.requests == []


# What it says.


def test_an_older_subscription_is_read_too() -> None:
    said = decode_subscription(b"\0\0" + b"\0\0\0\1\0\6events" + b"\xff\xff\xff\xff")
    assert (said.topics, said.owned_partitions, said.generation_id) == (["events"], [], -1)


def test_a_newer_subscription_is_read_as_far_as_it_is_known() -> None:
    newer = bytearray(encode_subscription([TOPIC], [ZERO], 3, None)) + b"more"
    newer[1] = 9
    assert decode_subscription(bytes(newer)).generation_id == 3


def test_no_assignment_at_all_is_an_empty_one() -> None:
    assert decode_assignment(b"") == []


def test_a_member_of_another_kind_is_refused() -> None:
    with pytest.raises(Refusal, match="does not speak the consumer protocol"):
        decode_subscription(b"\0\1\0\0\0\5")


@pytest.mark.parametrize(
    "wrong",
    [{"assignors": ("sticky",)}, {"assignors": ()}, {"heartbeat_interval_ms": 45_000}, {"heartbeat_interval_ms": 0}],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        MembershipSettings(**wrong)
