"""A classic group with a clock, a log and clients: what the shell does around the mind, without waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.coordinators.effects import Caller, Effects, Now
from headrace.coordinators.groups.classic.classic_group import ClassicGroup
from headrace.coordinators.groups.settings import GroupSettings
from headrace.coordinators.records import GROUP_KINDS, decode, encode
from headrace.model.errors import ErrorCode
from headrace.model.names import Millis
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.wire.messages.group_records import GroupMetadataValue

NOON_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = {"range": b"wants orders"}


class Call:
    """A request on its way; itself the token that the group hands back."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.answers: list[Any] = []

    @property
    def is_parked(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"{len(self.answers)} answers"
        return self.answers[0]

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.answer.error_code)


class Scene:
    def __init__(self, *, initial_rebalance_delay_ms: int = 0, **settings: int) -> None:
        self.settings = GroupSettings(initial_rebalance_delay_ms=initial_rebalance_delay_ms, **settings)
        self.group = ClassicGroup("g", self.settings)
        self.steady_ms = 1_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.calls: list[Call] = []
        self._ids_given = 0

    @property
    def now(self) -> Now:
        return Now(self.steady_ms, Millis(NOON_MS + self.steady_ms))

    @property
    def values(self) -> list[GroupMetadataValue]:
        """What was written."""
        return [value for key, kept in self.log if (value := decode(GROUP_KINDS, key, kept).value) is not None]

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        version: int = 9,
        protocols: Mapping[str, bytes] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Call:
        offered = [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols.items()]
        request = JoinGroupRequest("g", session_ms, rebalance_ms, member_id, instance, protocol_type, offered)
        return self._send(self.group.join, request, version)

    def enter(self, **offer: Any) -> tuple[str, Call]:
        """A new member's whole way in: ask for an id, join with it. Returns the id and the (parked) join."""
        if offer.get("instance") is not None:
            call = self.join(**offer)
            return f"client-{self._ids_given}", call
        given = self.join(**offer)
        assert given.code is ErrorCode.MEMBER_ID_REQUIRED
        return given.answer.member_id, self.join(given.answer.member_id, **offer)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        version: int = 5,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
    ) -> Call:
        given = [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()]
        request = SyncGroupRequest("g", generation, member_id, instance, protocol_type, protocol, given)
        return self._send(self.group.sync, request, version)

    def beat(self, member_id: str, generation: int, *, instance: str | None = None) -> ErrorCode:
        return self._send(self.group.heartbeat, HeartbeatRequest("g", generation, member_id, instance), 4).code

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        request = LeaveGroupRequest("g", members=[MemberIdentity(*each) for each in members])
        return [ErrorCode(member.error_code) for member in self._send(self.group.leave, request, 5).answer.members]

    def leave_alone(self, member_id: str, version: int = 2) -> ErrorCode:
        return self._send(self.group.leave, LeaveGroupRequest("g", member_id), version).code

    def _send(self, command: Any, request: Any, version: int) -> Call:
        self._ids_given += 1
        call = Call(version)
        self.calls.append(call)
        caller = Caller("client", "127.0.0.1", version, f"client-{self._ids_given}")
        self.perform(command(request, caller, call, self.now))
        return call

    # The shell

    def perform(self, effects: Effects) -> None:
        for record in effects.records:
            kept = encode(record)
            self.log.append(kept)
            self.group.apply(decode(GROUP_KINDS, *kept).value)
        for call, response in effects.replies:
            assert isinstance(call, Call)
            call.answers.append(response)
            assert len(call.answers) == 1, "a second answer to the same request"
            assert _over_the_wire(response, call.version).error_code == response.error_code

    def settle(self) -> None:
        """Tick until nothing is due."""
        for _ in range(100):
            deadline_ms = self.group.next_deadline_ms()
            if deadline_ms is None or deadline_ms > self.steady_ms:
                return
            self.perform(self.group.tick(self.now))
        raise AssertionError("the group is due for ever")

    def pass_time(self, duration_ms: int) -> None:
        """Tick at every deadline on the way."""
        end_ms = self.steady_ms + duration_ms
        while (deadline_ms := self.group.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.steady_ms = max(self.steady_ms, deadline_ms)
            self.settle()
        self.steady_ms = end_ms

    def pass_time_beating(self, duration_ms: int, members: Iterable[str]) -> None:
        """As `pass_time`, while these members keep their sessions alive."""
        members = list(members)
        while duration_ms > 0:
            for member_id in members:
                self.beat(member_id, self.group.generation)
            self.pass_time(min(duration_ms, SESSION_MS // 2))
            duration_ms -= SESSION_MS // 2

    def reload(self, **settings: int) -> None:
        """Another node takes over: all that it has is the log."""
        self.settings = GroupSettings(initial_rebalance_delay_ms=0, **settings)
        self.group = reloaded(self.log, self.settings)
        self.perform(self.group.loaded(self.now))

    # Shortcuts

    def stable(self, count: int, **offer: Any) -> list[str]:
        """`count` dynamic members of one stable generation; the first leads, and the n-th is given b'share n'."""
        members: list[str] = []
        joins: list[Call] = []
        for _ in range(count):
            member_id, call = self.enter(**offer)
            joins = [*(self.join(other, **offer) for other in members), call]
            members.append(member_id)
        generation = joins[0].answer.generation_id
        self.assign(members, generation, protocol=joins[0].answer.protocol_name)
        return members

    def assign(self, members: list[str], generation: int, **how: Any) -> None:
        shares = {member_id: b"share %d" % number for number, member_id in enumerate(members)}
        for member_id in reversed(members):
            call = self.sync(member_id, generation, shares if member_id == members[0] else None, **how)
        assert call.code is ErrorCode.NONE
        assert self.group.state_name == "Stable"

    def is_leader(self, call: Call) -> bool:
        answer: JoinGroupResponse = call.answer
        return answer.leader == answer.member_id


def reloaded(log: list[tuple[bytes, bytes | None]], settings: GroupSettings) -> ClassicGroup:
    group = ClassicGroup("g", settings)
    for key, value in log:
        group.apply(decode(GROUP_KINDS, key, value).value)
    return group


def _over_the_wire(response: Any, version: int) -> Any:
    writer = Writer()
    response.encode(writer, version)
    return type(response).decode(Reader(bytes(writer.buffer)), version)
