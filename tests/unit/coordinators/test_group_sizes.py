"""What groups may make a node remember."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.coordinators.effects import Caller, Now
from headrace.coordinators.groups import sizes
from headrace.coordinators.groups.coordinator import GroupCoordinator
from headrace.coordinators.groups.settings import GroupSettings
from headrace.coordinators.groups.sizes import ALL_BYTES_MAX, GROUP_BYTES, GROUP_BYTES_MAX, MEMBER_BYTES_MAX
from headrace.model.errors import ErrorCode
from headrace.model.names import Millis
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    import pytest

NOW = Now(1_000, Millis(1_700_000_000_000))


class NoTopics:
    def named(self, name: str) -> None: ...

    def with_id(self, topic_id: object) -> None: ...

    def names(self) -> tuple[str, ...]:
        return ()


class Coordinator:
    """A mind whose records are applied at once."""

    def __init__(self, elsewhere: int = 0) -> None:
        self.mind = GroupCoordinator(GroupSettings(initial_rebalance_delay_ms=0), NoTopics(), lambda: elsewhere)
        self._number = 0

    def _done(self, effects: Any, token: object) -> Any:
        for record in effects.records:
            self.mind.apply(record)
        return next((reply.response for reply in effects.replies if reply.token is token), None)

    def join(
        self, group: str = "group", metadata: bytes = b"x", *, member: str = "", version: int = 3, client_id: str = ""
    ) -> Any:
        """The answer, if there is one at once."""
        self._number += 1
        token = object()
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", metadata)],
        )
        caller = Caller(client_id, "host", version, f"member-{self._number}")
        return self._done(self.mind.join(request, caller, token, NOW), token)

    def tell(self, request: Any, command: str, version: int = 1) -> Any:
        token = object()
        caller = Caller("", "host", version, "fresh")
        return self._done(getattr(self.mind, command)(request, caller, token, NOW), token)

    def heartbeat(self, member: str, names: list[str], group: str = "modern") -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=names,
            topic_partitions=[],
        )
        return self.tell(request, "consumer_heartbeat")


def code_of(answer: Any) -> ErrorCode:
    """Who is not answered yet waits for others to join."""
    return ErrorCode.NONE if answer is None else ErrorCode(answer.error_code)


def test_a_member_says_no_more_than_it_may() -> None:
    it = Coordinator()
    assert it.join(metadata=bytes(MEMBER_BYTES_MAX)).error_code == ErrorCode.INVALID_REQUEST
    assert it.join(client_id="c" * MEMBER_BYTES_MAX).error_code == ErrorCode.INVALID_REQUEST
    assert it.mind.held_bytes == 0
    answer = it.heartbeat("one", [f"{'t' * 200}{number}" for number in range(9_000)])
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "by a pattern" in answer.error_message
    assert it.heartbeat("one", ["topic"]).error_code == ErrorCode.NONE


def test_the_members_of_a_group_say_no_more_than_they_may_together() -> None:
    """40 members with megabytes each are some of them too many."""
    it = Coordinator()
    answers = [it.join(metadata=bytes(MEMBER_BYTES_MAX - 100)) for _ in range(40)]
    refused = [answer for answer in answers if answer is not None and answer.error_code]
    assert {answer.error_code for answer in refused} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert len(refused) > 20
    assert it.mind.held_bytes <= GROUP_BYTES_MAX
    assert code_of(it.join("another")) is ErrorCode.NONE


def test_all_groups_of_a_node_have_one_limit() -> None:
    crowded = Coordinator(elsewhere=ALL_BYTES_MAX - GROUP_BYTES)
    assert code_of(crowded.join()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(crowded.heartbeat("one", ["topic"])) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    roomy = Coordinator(elsewhere=ALL_BYTES_MAX // 2)
    assert code_of(roomy.join()) is ErrorCode.NONE
    assert code_of(roomy.heartbeat("one", ["topic"])) is ErrorCode.NONE


def test_groups_that_somebody_invents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "ALL_BYTES_MAX", 1 << 20)
    it = Coordinator()
    codes = [answer.error_code for number in range(2000) if (answer := it.join(f"group-{number}")) is not None]
    assert codes.count(ErrorCode.COORDINATOR_NOT_AVAILABLE) > 1000
    assert it.mind.held_bytes <= 1 << 20


def test_ids_that_nobody_joins_with_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "GROUP_BYTES_MAX", 1 << 20)
    it = Coordinator()
    codes = [it.join(version=5).error_code for _ in range(6000)]
    assert codes[0] == ErrorCode.MEMBER_ID_REQUIRED
    assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_is_gone_counts_no_more() -> None:
    it = Coordinator()
    for number in range(5):
        it.join(f"group-{number}")
    before = it.mind.held_bytes
    for number in range(5):
        it.tell(LeaveGroupRequest(f"group-{number}", members=[MemberIdentity(f"member-{number + 1}")]), "leave", 4)
    assert it.mind.held_bytes < before


def test_a_member_may_say_again_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no room for anybody else."""
    it = Coordinator()
    it.join(metadata=bytes(1000))
    monkeypatch.setattr(sizes, "ALL_BYTES_MAX", it.mind.held_bytes)
    assert code_of(it.join("other")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(it.join(metadata=bytes(1000), member="member-1")) is ErrorCode.NONE
    assert code_of(it.join(metadata=bytes(2000), member="member-1")) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_assignments_count_too() -> None:
    it = Coordinator()
    it.join()
    request = SyncGroupRequest(
        "group", 1, "member-1", assignments=[SyncGroupRequestAssignment("member-1", bytes(GROUP_BYTES_MAX))]
    )
    assert it.tell(request, "sync").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
