"""How much groups may make a node remember: of each member, in each group, and in all groups together.

What members say of themselves is theirs to choose, and group names are invented in a moment; memory is not. Sizes are
about what the objects take. Committed offsets are not counted here: they have limits of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from headrace.wire.messages.join_group import JoinGroupRequest
    from headrace.wire.messages.sync_group import SyncGroupRequest

MEMBER_BYTES_MAX: Final = 1 << 20  # of what a member says: thousands of topics under several assignors fit
GROUP_BYTES_MAX: Final = 16 << 20  # thousands of usual members; what goes into the log is limited besides
ALL_BYTES_MAX: Final = 96 << 20  # of all groups that a node coordinates: tens of thousands of members

GROUP_BYTES: Final = 2_048  # an object with its tables, whoever is in it
MEMBER_BYTES: Final = 1_024  # a member without its texts
EXPECTED_BYTES: Final = 256  # an id that was given to a client which has yet to join
PARTITION_BYTES: Final = 100  # one that a member owns or is to own


def join_bytes(request: JoinGroupRequest, client_id: str) -> int:
    protocols = sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)
    return protocols + len(client_id) + len(request.group_instance_id or "") + len(request.member_id)


def sync_bytes(request: SyncGroupRequest) -> int:
    return sum(len(given.assignment) for given in request.assignments)


def heartbeat_bytes(request: ConsumerGroupHeartbeatRequest, client_id: str) -> int:
    names = sum(map(len, request.subscribed_topic_names or ()))
    return names + len(request.subscribed_topic_regex or "") + len(client_id) + len(request.member_id)


class Sized(Protocol):
    @property
    def held_bytes(self) -> int: ...


class GroupSizes:
    """Of the groups of one coordinator; `held_by_others` is what other coordinators of this node hold."""

    def __init__(self, groups: Mapping[str, Sized], held_by_others: Callable[[], int]) -> None:
        self._groups = groups
        self._held_by_others = held_by_others
        self._sizes: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._total = 0

    def changed(self, group_id: str) -> None:
        self._changed[group_id] = None

    @property
    def total(self) -> int:
        for group_id in self._changed:
            group = self._groups.get(group_id)
            size = 0 if group is None else GROUP_BYTES + group.held_bytes
            self._total += size - self._sizes.get(group_id, 0)
            if size:
                self._sizes[group_id] = size
            else:
                self._sizes.pop(group_id, None)
        self._changed.clear()
        return self._total

    def check(self, group_id: str, said: int, before: int) -> None:
        """Refuse a member that says so much now, and has said so much before (0 if it is new)."""
        if said > MEMBER_BYTES_MAX:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"a member says {said} bytes about itself; {MEMBER_BYTES_MAX} are allowed. Subscribe to fewer topics, "
                "or by a pattern",
            )
        self.check_growth(group_id, said - before if before else said + MEMBER_BYTES)

    def check_growth(self, group_id: str, more: int) -> None:
        if more <= 0:
            return
        total = self.total
        known = self._sizes.get(group_id, 0)
        if not known:
            more += GROUP_BYTES
        if known + more > GROUP_BYTES_MAX:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"what the members of {group_id[:100]!r} say takes {GROUP_BYTES_MAX} bytes, as much as a group may "
                "take; share its work out to several groups",
            )
        if total + self._held_by_others() + more > ALL_BYTES_MAX:
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the groups of this node take {ALL_BYTES_MAX} bytes, as much as they may; try again when some have "
                "gone",
            )
