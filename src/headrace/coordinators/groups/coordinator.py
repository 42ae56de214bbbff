"""All groups of one partition of `__consumer_offsets`: who they are, what they have read, and when they are forgotten.

A group is of one protocol, classic or KIP-848, and has an object of that class here. Who only commits offsets (a simple
group, in Kafka's words) has no object: it is there as long as its offsets are. An empty group becomes one of the other
protocol when the first member of that protocol joins; its offsets stay. A group with members stays what it is.

Whatever is asked is answered, refusals too: no command raises for what a client did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.coordinators.effects import Effects, Reply
from headrace.coordinators.groups.descriptions import described_consumer_group, described_group, listed_groups
from headrace.coordinators.groups.group import group_tombstones
from headrace.coordinators.groups.group_table import GroupTable
from headrace.coordinators.groups.modern.checks import check_heartbeat
from headrace.coordinators.groups.modern.members import JOIN_EPOCH
from headrace.coordinators.groups.modern.modern_group import ModernGroup
from headrace.coordinators.groups.offsets import offset_commands
from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffsets
from headrace.coordinators.groups.offsets.expiry import expire_in_steps, offset_tombstone
from headrace.coordinators.groups.sizes import heartbeat_bytes, join_bytes, sync_bytes
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ID_BYTES_MAX, NO_PRODUCER, ProducerId
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from headrace.wire.messages.delete_groups import DeletableGroupResult
from headrace.wire.messages.group_records import OffsetCommitKey
from headrace.wire.messages.heartbeat import HeartbeatResponse
from headrace.wire.messages.join_group import JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupResponse
from headrace.wire.messages.offset_fetch import OffsetFetchResponseGroup
from headrace.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from headrace.coordinators.effects import Caller, Now, Token
    from headrace.coordinators.groups.group import Group
    from headrace.coordinators.groups.offsets.expiry import ExpiryStep
    from headrace.coordinators.groups.settings import GroupSettings, OwnTimes
    from headrace.coordinators.groups.topics import Topics
    from headrace.coordinators.records import LogRecord
    from headrace.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
    from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from headrace.wire.messages.describe_groups import DescribedGroup
    from headrace.wire.messages.heartbeat import HeartbeatRequest
    from headrace.wire.messages.join_group import JoinGroupRequest
    from headrace.wire.messages.leave_group import LeaveGroupRequest
    from headrace.wire.messages.list_groups import ListedGroup
    from headrace.wire.messages.offset_commit import OffsetCommitRequest
    from headrace.wire.messages.offset_delete import OffsetDeleteRequest
    from headrace.wire.messages.offset_fetch import OffsetFetchRequestTopics
    from headrace.wire.messages.sync_group import SyncGroupRequest
    from headrace.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

GROUPS_PER_TICK_MAX: Final = 64  # after a restart ten thousand sessions may end at once; each tick stays a short turn
LOOKS_PER_TICK_MAX: Final = 1_000  # groups and offsets that one turn looks at when they expire: about a millisecond

_AT_ONCE: Final = 0  # a deadline that has always passed


class GroupCoordinator:
    """See above. Commands return what is to be written and answered; `apply` alone changes what is kept."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        held_by_others: Callable[[], int] = lambda: 0,
        own_times: Callable[[str], OwnTimes | None] = lambda _: None,
    ) -> None:
        """`held_by_others` is what other coordinators of the node hold, `own_times` what was set for a group alone."""
        self._topics = topics
        self._groups = GroupTable(settings, topics, held_by_others, own_times)
        self._offsets = CommittedOffsets()
        self._expiry: Iterator[ExpiryStep] | None = None

    @property
    def held_bytes(self) -> int:
        """What its groups take, without their offsets."""
        return self._groups.sizes.total

    @property
    def settings(self) -> GroupSettings:
        return self._groups.settings

    @settings.setter
    def settings(self, settings: GroupSettings) -> None:
        self._groups.settings = settings

    # What the log says

    def apply(self, record: LogRecord, producer_id: ProducerId = NO_PRODUCER) -> None:
        """An offset written by a producer counts once its transaction commits."""
        key, value = record
        if type(key) is OffsetCommitKey:
            if value is None:
                self._offsets.forget(key)
            elif producer_id == NO_PRODUCER:
                self._offsets.commit(key, value)
            else:
                self._offsets.commit_in_transaction(key, value, producer_id)
        else:
            self._groups.apply(record)

    def apply_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        self._offsets.end_transaction(producer_id, is_commit=is_commit)

    def has_pending(self, producer_id: ProducerId) -> bool:
        """It has committed offsets in a transaction that is still open."""
        return self._offsets.has_pending(producer_id)

    def loaded(self, now: Now) -> Effects:
        """The whole log has been applied; members' sessions begin."""
        effects = Effects()
        for group_id, group in self._groups.by_id.items():
            effects.add(group.loaded(now))
            self._groups.touch(group_id)
        return effects

    # Classic members

    def join(self, request: JoinGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
        group_id = request.group_id
        before = self._groups.get(group_id)
        if not group_id:
            return _answered(
                token, JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, member_id=request.member_id)
            )
        if len((request.group_instance_id or "").encode()) > ID_BYTES_MAX:
            return _answered(token, JoinGroupResponse(error_code=ErrorCode.INVALID_REQUEST))
        if isinstance(before, ModernGroup) and not before.is_empty:
            return _answered(token, JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        group = self._groups.classic_or_new(group_id)
        try:
            before_bytes = group.said_bytes(request.member_id, request.group_instance_id)
            self._groups.sizes.check(group_id, join_bytes(request, caller.client_id), before_bytes)
        except Refusal as refusal:
            return _answered(token, JoinGroupResponse(error_code=refusal.code, member_id=request.member_id))
        effects = group.join(request, caller, token, now)
        if not group.is_empty or group.next_deadline_ms() is not None:
            effects.records[:0] = self._groups.keep(group)
        self._groups.touch(group_id, has_changed=True)
        return effects

    def sync(self, request: SyncGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
        if not request.group_id:
            return _answered(token, SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        try:
            self._groups.sizes.check_growth(request.group_id, sync_bytes(request))
        except Refusal as refusal:
            return _answered(token, SyncGroupResponse(error_code=refusal.code))
        self._groups.touch(request.group_id, has_changed=True)
        return self._groups.classic_or_new(request.group_id).sync(request, caller, token, now)

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, token: Token, now: Now) -> Effects:
        if not request.group_id:
            return _answered(token, HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        self._groups.touch(request.group_id)
        return self._groups.classic_or_new(request.group_id).heartbeat(request, caller, token, now)

    def leave(self, request: LeaveGroupRequest, caller: Caller, token: Token, now: Now) -> Effects:
        if not request.group_id:
            return _answered(token, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        self._groups.touch(request.group_id, has_changed=True)
        return self._groups.classic_or_new(request.group_id).leave(request, caller, token, now)

    # Members of the newer protocol

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, token: Token, now: Now
    ) -> Effects:
        before = self._groups.get(request.group_id)
        try:
            group = before if isinstance(before, ModernGroup) else self._new_modern(request, caller)
            if request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names or request.subscribed_topic_regex:
                said = heartbeat_bytes(request, caller.client_id)
                self._groups.sizes.check(request.group_id, said, group.said_bytes(request.member_id))
            effects = group.heartbeat(request, caller, token, now)
        except Refusal as refusal:
            answer = ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.message)
            return _answered(token, answer)
        if effects.records:
            effects.records[:0] = self._groups.keep(group)
        self._groups.touch(request.group_id)
        return effects

    def _new_modern(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ModernGroup:
        check_heartbeat(request, caller.version)
        classic = self._groups.get(request.group_id)
        if classic is not None and not classic.is_empty:
            raise Refusal(
                ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id!r} has members of the classic protocol"
            )
        if request.member_epoch != JOIN_EPOCH:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id!r}")
        return self._groups.empty_modern(request.group_id)

    # Offsets

    def commit_offsets(self, request: OffsetCommitRequest, caller: Caller, token: Token, now: Now) -> Effects:
        group = self._committing_group(request.group_id, request.generation_id_or_member_epoch)
        max_bytes = self.settings.offset_metadata_max_bytes
        return offset_commands.commit(request, group, max_bytes, caller, token, now)

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, caller: Caller, token: Token, now: Now
    ) -> Effects:
        group = self._committing_group(request.group_id, request.generation_id)
        max_bytes = self.settings.offset_metadata_max_bytes
        return offset_commands.commit_in_transaction(request, group, max_bytes, caller, token, now)

    def fetch_offsets(
        self,
        group_id: str,
        member_id: str | None,
        member_epoch: int,
        topics: list[OffsetFetchRequestTopics] | None,
        *,
        is_stable_required: bool,
    ) -> OffsetFetchResponseGroup:
        """`topics` None asks for all that there are. A group that nobody knows has no offsets: that is no error."""
        group = self._groups.get(group_id)
        if isinstance(group, ModernGroup):
            try:
                group.check_fetch(member_id, member_epoch)
            except Refusal as refusal:
                return OffsetFetchResponseGroup(group_id, error_code=refusal.code)
        reader = offset_commands.OffsetReader(group_id, self._offsets, is_stable_required=is_stable_required)
        found = reader.all_topics() if topics is None else [reader.topic(topic) for topic in topics]
        return OffsetFetchResponseGroup(group_id, found)

    def delete_offsets(self, request: OffsetDeleteRequest, caller: Caller, token: Token, now: Now) -> Effects:  # noqa: ARG002 - as all commands
        return offset_commands.delete(request, self._groups.get(request.group_id), self._offsets, token)

    def topics_deleted(self, topic_names: Sequence[str], now: Now) -> Effects:  # noqa: ARG002 - as all commands
        """Whoever makes a topic of that name again must not find offsets of the old one."""
        topics = frozenset(topic_names)
        return Effects(
            [
                offset_tombstone(group_id, place)
                for group_id in self._offsets.groups_with(topics)
                for place in self._offsets.places(group_id, topics)
            ],
            is_divisible=True,
        )

    def forget_unknown_topics(self, now: Now) -> Effects:
        """`topics_deleted` for topics that went while nobody who coordinates here could hear of it.

        Only for a leader whose topics hold all that leaders before it knew: what it merely has not heard of yet is
        unknown as well, and its offsets may be acknowledged.
        """
        unknown = [name for name in self._offsets.topic_names() if self._topics.named(name) is None]
        return self.topics_deleted(unknown, now) if unknown else Effects()

    def _committing_group(self, group_id: str, member_epoch: int) -> Group | None:
        """None if there is no such group, and whoever commits says that it is a member of it."""
        group = self._groups.get(group_id)
        if group is not None:
            return group
        if member_epoch >= 0 and not self._offsets.has_any(group_id):
            return None
        return self._groups.empty_classic(group_id)  # a simple group has the rules of an empty one

    # Groups

    def describe_groups(self, group_ids: Sequence[str], caller: Caller) -> list[DescribedGroup]:
        return [described_group(group_id, self._known_group(group_id), caller.version) for group_id in group_ids]

    def describe_consumer_groups(self, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        return [described_consumer_group(group_id, self._groups.get(group_id)) for group_id in group_ids]

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """All, or those whose state and type are among the given ones; neither depends on upper and lower case."""
        group_ids = dict.fromkeys([*self._groups.by_id, *self._offsets.groups()])
        return listed_groups({group_id: self._groups.get(group_id) for group_id in group_ids}, states, types)

    def _known_group(self, group_id: str) -> Group | None:
        """A simple group looks like an empty classic one."""
        group = self._groups.get(group_id)
        return self._groups.empty_classic(group_id) if group is None and self._offsets.has_any(group_id) else group

    def delete_groups(self, group_ids: Sequence[str], token: Token, now: Now) -> Effects:  # noqa: ARG002 - as all commands
        effects = Effects()
        results = []
        for group_id in dict.fromkeys(group_ids):
            group = self._groups.get(group_id)
            code = ErrorCode.NONE
            if group is None and not self._offsets.has_any(group_id):
                code = ErrorCode.GROUP_ID_NOT_FOUND
            elif group is not None and not group.is_empty:
                code = ErrorCode.NON_EMPTY_GROUP
            else:
                effects.records += [offset_tombstone(group_id, place) for place in self._offsets.places(group_id)]
                effects.records += [] if group is None else group_tombstones(group)
            results.append(DeletableGroupResult(group_id, code))
        effects.replies.append(Reply(token, results))
        return effects

    def topics_changed(self, now: Now) -> Effects:
        effects = Effects()
        for group_id, group in self._groups.by_id.items():
            if isinstance(group, ModernGroup):
                effects.add(group.topics_changed(now))
                self._groups.touch(group_id)
        return effects

    # Time

    def expire(self, now: Now) -> Effects:
        """Begin to look for offsets and groups that nobody needs any more; `tick` goes on with it."""
        if self._expiry is None:
            retention_ms = self.settings.offsets_retention_ms
            self._expiry = expire_in_steps(self._groups.by_id, self._offsets, now.wall_ms, retention_ms)
        effects = Effects()
        self._expire_on(effects)
        return effects

    def tick(self, now: Now) -> Effects:
        effects = Effects()
        for group in self._groups.take_due(now.steady_ms, GROUPS_PER_TICK_MAX):
            effects.add(group.tick(now))
            self._groups.touch(group.group_id, has_changed=True)
        if self._expiry is not None:
            self._expire_on(effects)
        return effects

    def next_deadline_ms(self) -> int | None:
        return self._groups.next_deadline_ms() if self._expiry is None else _AT_ONCE

    def _expire_on(self, effects: Effects) -> None:
        assert self._expiry is not None
        looked_at = 0
        for step in self._expiry:
            effects.records += step.tombstones
            looked_at += step.looked_at
            if looked_at >= LOOKS_PER_TICK_MAX:
                return
        self._expiry = None


def _answered(token: Token, response: Any) -> Effects:
    return Effects(replies=[Reply(token, response)])
