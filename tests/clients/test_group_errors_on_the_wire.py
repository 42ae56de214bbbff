"""What groups refuse, and with which of Kafka's errors, in every version of each API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.api import ApiKey
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.join_group import JoinGroupRequestProtocol
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.clients.group_fixtures import SESSION_MS_MIN
from tests.clients.nodes import new_name
from tests.clients.raw_members import (
    COMMIT_BY_ID_FROM,
    FETCH_SEVERAL_FROM,
    SEVERAL_LEAVE_FROM,
    RawMember,
    RawModernMember,
    commit,
    fetch,
    find_coordinator,
    versions_of,
)

if TYPE_CHECKING:
    from tests.clients.raw_connection import RawConnection

pytest_plugins = ["tests.clients.node_fixtures", "tests.clients.group_fixtures"]

METADATA_BYTES_MAX = 4096  # offset.metadata.max.bytes
SESSION_MS_MAX = 1_800_000
COMMIT_STATIC_FROM = 7
COMMIT_KNOWS_MISSING_GROUPS_FROM = 9
STALE_EPOCHS_FROM = 9
UNKNOWN = "nobody-1"


@pytest.fixture(autouse=True)
def _coordinators(connection: RawConnection) -> None:
    find_coordinator(connection)


@pytest.fixture
def group() -> str:
    return new_name("group")


# ---- classic members


def test_a_new_dynamic_member_must_come_back_with_its_id_from_version_4_on(connection: RawConnection) -> None:
    for version in versions_of(ApiKey.JOIN_GROUP):
        joined = RawMember(connection, new_name("group")).ask_to_join(version)
        assert joined.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE)
        assert joined.member_id.startswith("raw-")


def test_an_illegal_generation(connection: RawConnection, group: str, two_partitions: str) -> None:
    member = RawMember(connection, group).enter()
    for generation in (member.generation - 1, member.generation + 1):
        for version in versions_of(ApiKey.SYNC_GROUP):
            answer = member.ask_to_sync(version, generation_id=generation)
            assert answer.error_code == ErrorCode.ILLEGAL_GENERATION
        for version in versions_of(ApiKey.HEARTBEAT):
            answer = member.ask_heartbeat(version, generation_id=generation)
            assert answer.error_code == ErrorCode.ILLEGAL_GENERATION
        for version in versions_of(ApiKey.OFFSET_COMMIT):
            who = {"generation": generation, "member_id": member.member_id}
            codes = commit(connection, group, {(two_partitions, 0): 1}, version, **who)  # type: ignore[arg-type]
            assert codes == {(two_partitions, 0): ErrorCode.ILLEGAL_GENERATION}
    assert member.ask_heartbeat().error_code == ErrorCode.NONE


def test_an_unknown_member(connection: RawConnection, group: str, two_partitions: str) -> None:
    inside = RawMember(connection, group).enter()
    stranger = RawMember(connection, group)
    stranger.member_id, stranger.generation = UNKNOWN, inside.generation
    for version in versions_of(ApiKey.JOIN_GROUP):
        assert stranger.ask_to_join(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for version in versions_of(ApiKey.SYNC_GROUP):
        assert stranger.ask_to_sync(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for version in versions_of(ApiKey.HEARTBEAT):
        assert stranger.ask_heartbeat(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for version in versions_of(ApiKey.LEAVE_GROUP):
        answer = stranger.ask_to_leave(version)
        code = answer.members[0].error_code if version >= SEVERAL_LEAVE_FROM else answer.error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        codes = commit(
            connection,
            group,
            {(two_partitions, 0): 1},
            version,
            generation=inside.generation,
            member_id=UNKNOWN,
        )
        assert codes == {(two_partitions, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert inside.ask_heartbeat().error_code == ErrorCode.NONE


def test_a_static_member_whose_place_was_taken_is_fenced(
    connection: RawConnection, group: str, two_partitions: str
) -> None:
    old = RawMember(connection, group, "instance").enter()
    new = RawMember(connection, group, "instance").enter()
    assert (new.generation, new.member_id != old.member_id) == (old.generation, True)
    for version in versions_of(ApiKey.JOIN_GROUP, first=5):
        assert old.ask_to_join(version).error_code == ErrorCode.FENCED_INSTANCE_ID
    for version in versions_of(ApiKey.SYNC_GROUP, first=3):
        assert old.ask_to_sync(version).error_code == ErrorCode.FENCED_INSTANCE_ID
    for version in versions_of(ApiKey.HEARTBEAT, first=3):
        assert old.ask_heartbeat(version).error_code == ErrorCode.FENCED_INSTANCE_ID
    for version in versions_of(ApiKey.LEAVE_GROUP, first=SEVERAL_LEAVE_FROM):
        assert old.ask_to_leave(version).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    for version in versions_of(ApiKey.OFFSET_COMMIT, first=COMMIT_STATIC_FROM):
        codes = commit(
            connection,
            group,
            {(two_partitions, 0): 1},
            version,
            generation=old.generation,
            member_id=old.member_id,
            instance_id="instance",
        )
        assert codes == {(two_partitions, 0): ErrorCode.FENCED_INSTANCE_ID}
    assert new.ask_heartbeat().error_code == ErrorCode.NONE


def test_a_member_needs_a_group_with_a_name(connection: RawConnection) -> None:
    member = RawMember(connection, "")
    member.member_id = UNKNOWN
    for version in versions_of(ApiKey.JOIN_GROUP):
        assert member.ask_to_join(version).error_code == ErrorCode.INVALID_GROUP_ID
    for version in versions_of(ApiKey.SYNC_GROUP):
        assert member.ask_to_sync(version).error_code == ErrorCode.INVALID_GROUP_ID
    for version in versions_of(ApiKey.HEARTBEAT):
        assert member.ask_heartbeat(version).error_code == ErrorCode.INVALID_GROUP_ID
    for version in versions_of(ApiKey.LEAVE_GROUP):
        assert member.ask_to_leave(version).error_code == ErrorCode.INVALID_GROUP_ID
    for version in versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        answer = connection.ask(ConsumerGroupHeartbeatRequest("", UNKNOWN), version)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert connection.ask(OffsetDeleteRequest("")).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [SESSION_MS_MIN - 1, SESSION_MS_MAX + 1, 0, -1])
def test_a_session_out_of_bounds(connection: RawConnection, group: str, session_ms: int) -> None:
    for version in versions_of(ApiKey.JOIN_GROUP):
        answer = RawMember(connection, group).ask_to_join(version, session_timeout_ms=session_ms)
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(("kind", "protocol"), [("consumer", "roundrobin"), ("connect", "range"), ("", "range")])
def test_a_protocol_that_the_members_do_not_share(
    connection: RawConnection, group: str, kind: str, protocol: str
) -> None:
    inside = RawMember(connection, group).enter()
    offer = [JoinGroupRequestProtocol(protocol, b"")]
    for version in versions_of(ApiKey.JOIN_GROUP):
        answer = RawMember(connection, group).ask_to_join(version, protocol_type=kind, protocols=offer)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for version in versions_of(ApiKey.SYNC_GROUP, first=5):
        answer = inside.ask_to_sync(version, protocol_type=kind, protocol_name=protocol)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert inside.ask_heartbeat().error_code == ErrorCode.NONE


# ---- members of the newer protocol


def test_a_fenced_epoch_and_an_unknown_member(connection: RawConnection, group: str, two_partitions: str) -> None:
    member = RawModernMember(connection, group, [two_partitions]).enter()
    for version in versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        fenced = member.ask_heartbeat(version, member_epoch=member.epoch + 1)
        assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert fenced.error_message
        unknown = member.ask_heartbeat(version, member_id=UNKNOWN)
        assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        missing = member.ask_heartbeat(version, group_id=new_name("missing"))
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert member.ask_heartbeat(version).error_code == ErrorCode.NONE


def test_an_instance_that_another_member_holds(connection: RawConnection, group: str, two_partitions: str) -> None:
    holder = RawModernMember(connection, group, [two_partitions], "instance").enter()
    rival = RawModernMember(connection, group, [two_partitions], "instance")
    joining = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": [two_partitions], "topic_partitions": []}
    for version in versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        refused = rival.ask_heartbeat(version, **joining)
        assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        fenced = rival.ask_heartbeat(version, member_epoch=holder.epoch)
        assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
        assert holder.ask_heartbeat(version).error_code == ErrorCode.NONE


def test_what_a_member_cannot_ask_for(connection: RawConnection, group: str, two_partitions: str) -> None:
    member = RawModernMember(connection, group, [two_partitions])
    joining = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": [two_partitions], "topic_partitions": []}
    assert member.ask_heartbeat(**joining, server_assignor="mine").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    bad_pattern = {**joining, "subscribed_topic_names": None, "subscribed_topic_regex": "("}
    assert member.ask_heartbeat(**bad_pattern).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert member.ask_heartbeat(**{**joining, "topic_partitions": None}).error_code == ErrorCode.INVALID_REQUEST
    assert member.ask_heartbeat(member_epoch=-2).error_code == ErrorCode.INVALID_REQUEST


def test_a_stale_epoch_neither_commits_nor_fetches(connection: RawConnection, group: str, two_partitions: str) -> None:
    member = RawModernMember(connection, group, [two_partitions]).enter()
    place = (two_partitions, 0)
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        who = {"member_id": member.member_id, "generation": member.epoch + 1}
        codes = commit(connection, group, {place: 7}, version, **who)  # type: ignore[arg-type]
        is_modern = version >= STALE_EPOCHS_FROM
        assert codes == {place: ErrorCode.STALE_MEMBER_EPOCH if is_modern else ErrorCode.UNSUPPORTED_VERSION}
    for version in versions_of(ApiKey.OFFSET_FETCH, first=STALE_EPOCHS_FROM):
        stale = fetch(
            connection, group, two_partitions, [0], version, member_id=member.member_id, member_epoch=member.epoch + 1
        )
        assert stale == (ErrorCode.STALE_MEMBER_EPOCH, {})
        unknown = fetch(connection, group, two_partitions, [0], version, member_id=UNKNOWN, member_epoch=1)
        assert unknown == (ErrorCode.UNKNOWN_MEMBER_ID, {})


# ---- one protocol per group


def test_members_of_the_other_protocol_are_refused(connection: RawConnection, two_partitions: str) -> None:
    classic, modern = new_name("classic"), new_name("modern")
    old = RawMember(connection, classic).enter()
    new = RawModernMember(connection, modern, [two_partitions]).enter()
    for version in versions_of(ApiKey.JOIN_GROUP):
        answer = RawMember(connection, modern).ask_to_join(version)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    joining = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": [two_partitions], "topic_partitions": []}
    for version in versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        answer = RawModernMember(connection, classic, [two_partitions]).ask_heartbeat(version, **joining)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert old.ask_heartbeat().error_code == new.ask_heartbeat().error_code == ErrorCode.NONE


# ---- offsets


def test_what_nobody_has_committed_is_no_error(connection: RawConnection, group: str, two_partitions: str) -> None:
    for version in versions_of(ApiKey.OFFSET_FETCH):
        nothing = (-1, "", ErrorCode.NONE)
        assert fetch(connection, group, two_partitions, [0, 1], version) == (0, {0: nothing, 1: nothing})


def test_a_commit_is_fetched_in_every_version(connection: RawConnection, group: str, two_partitions: str) -> None:
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        places = {(two_partitions, 0): 100 + version, (two_partitions, 1): 200 + version}
        codes = commit(connection, group, places, version, metadata="as said")
        assert codes == dict.fromkeys(places, ErrorCode.NONE)
        for fetching in versions_of(ApiKey.OFFSET_FETCH):
            _, found = fetch(connection, group, two_partitions, [0, 1], fetching)
            assert found == {0: (100 + version, "as said", 0), 1: (200 + version, "as said", 0)}


def test_oversized_metadata_costs_its_partition_alone(
    connection: RawConnection, group: str, two_partitions: str
) -> None:
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        topic_id = connection.topic_id(two_partitions)
        parts = [
            OffsetCommitRequestPartition(0, version, committed_metadata="x" * (METADATA_BYTES_MAX + 1)),
            OffsetCommitRequestPartition(1, version, committed_metadata="x" * METADATA_BYTES_MAX),
        ]
        topics = [OffsetCommitRequestTopic(two_partitions, topic_id, parts)]
        answer = connection.ask(OffsetCommitRequest(group, topics=topics), version)
        codes = [part.error_code for part in answer.topics[0].partitions]
        assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
        _, found = fetch(connection, group, two_partitions, [0, 1], FETCH_SEVERAL_FROM)
        assert [found[0][0], found[1][0]] == [-1, version]


def test_partitions_that_do_not_exist_are_refused_alone(
    connection: RawConnection, group: str, two_partitions: str
) -> None:
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        is_by_id = version >= COMMIT_BY_ID_FROM
        parts = [OffsetCommitRequestPartition(number, version, committed_metadata="") for number in (1, 2, -1)]
        topics = [
            OffsetCommitRequestTopic(two_partitions, connection.topic_id(two_partitions), parts),
            OffsetCommitRequestTopic(new_name("missing"), b"\x42" * 16, parts[:1]),
        ]
        answer = connection.ask(OffsetCommitRequest(group, topics=topics), version)
        found, lost = ([part.error_code for part in topic.partitions] for topic in answer.topics)
        assert found == [ErrorCode.NONE, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2]
        assert lost == [ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        _, kept = fetch(connection, group, two_partitions, [1], FETCH_SEVERAL_FROM)
        assert kept == {1: (version, "", ErrorCode.NONE)}


def test_a_member_of_no_group_cannot_commit(connection: RawConnection, group: str, two_partitions: str) -> None:
    place = (two_partitions, 0)
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        codes = commit(connection, group, {place: 1}, version, generation=1, member_id=UNKNOWN)
        is_known = version >= COMMIT_KNOWS_MISSING_GROUPS_FROM
        assert codes == {place: ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nobody_moves_or_deletes_a_group_at_work(connection: RawConnection, two_partitions: str, protocol: str) -> None:
    group = new_name("group")
    place = (two_partitions, 0)
    commit(connection, group, {place: 5}, 8)
    old, new = (
        RawMember(connection, group, topics=[two_partitions]),
        RawModernMember(connection, group, [two_partitions]),
    )
    (old if protocol == "classic" else new).enter()
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        assert commit(connection, group, {place: 0}, version) == {place: ErrorCode.UNKNOWN_MEMBER_ID}
    assert delete_codes(connection, group, set(versions_of(ApiKey.DELETE_GROUPS))) == {ErrorCode.NON_EMPTY_GROUP}
    wanted = [OffsetDeleteRequestTopic(two_partitions, [OffsetDeleteRequestPartition(0)])]
    deleted = connection.ask(OffsetDeleteRequest(group, wanted))
    assert deleted.error_code == ErrorCode.NONE
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert fetch(connection, group, two_partitions, [0], 8) == (0, {0: (5, "", 0)})

    if protocol == "classic":
        old.ask_to_leave()
    else:
        new.ask_heartbeat(member_epoch=-1)
    assert commit(connection, group, {place: 0}, 8) == {place: ErrorCode.NONE}
    assert connection.ask(OffsetDeleteRequest(group, wanted)).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert delete_codes(connection, group, {0}) == {ErrorCode.NONE}
    assert delete_codes(connection, group, {0, 1, 2}) == {ErrorCode.GROUP_ID_NOT_FOUND}
    assert fetch(connection, group, two_partitions, [0], 8) == (0, {0: (-1, "", 0)})


def delete_codes(connection: RawConnection, group: str, versions: set[int]) -> set[int]:
    answers = [connection.ask(DeleteGroupsRequest([group]), version) for version in sorted(versions)]
    return {answer.results[0].error_code for answer in answers}
