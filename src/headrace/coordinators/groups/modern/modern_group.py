"""A consumer group of KIP-848: the coordinator says who owns which partition, and members follow at their own pace.

Every change of members, subscriptions or topics raises the group's epoch. The next heartbeat, whoever sends it, makes a
target for that epoch: what each member is to own. Each member then goes towards its target heartbeat by heartbeat (see
`reconciliation`), and takes over the epoch once it has given up what it must not keep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from headrace.coordinators.deadlines import Deadlines
from headrace.coordinators.effects import Effects, Reply
from headrace.coordinators.groups.modern.checks import check_heartbeat, check_member_epoch, check_not_stale
from headrace.coordinators.groups.modern.description import described_group, state_name
from headrace.coordinators.groups.modern.members import (
    JOIN_EPOCH,
    NO_PARTITIONS,
    STATIC_LEAVE_EPOCH,
    Member,
    MemberState,
    by_topic,
    current_assignment_record,
    forget_member,
    metadata_record,
    partitions_of,
    target_record,
)
from headrace.coordinators.groups.modern.reconciliation import reconcile
from headrace.coordinators.groups.modern.state import Draft, ModernState
from headrace.coordinators.groups.modern.subscriptions import Subscriptions
from headrace.coordinators.groups.modern.target_assignment import metadata_hash, raise_epoch, retarget
from headrace.coordinators.groups.sizes import MEMBER_BYTES, PARTITION_BYTES
from headrace.coordinators.records import LogRecord
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages import group_records as records
from headrace.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.coordinators.effects import Caller, Now, Token
    from headrace.coordinators.groups.modern.members import MemberMetadata
    from headrace.coordinators.groups.settings import GroupSettings, OwnTimes
    from headrace.coordinators.groups.topics import Topics
    from headrace.model.names import Millis
    from headrace.wire.messages.consumer_group_describe import DescribedGroup
    from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

COMMIT_VERSION_MIN: Final = 9
"""Of OffsetCommit, for members: the first version whose answer can say STALE_MEMBER_EPOCH."""

WAITING_HEARTBEAT_INTERVAL_MS: Final = 500  # a few microseconds each, and only during a rebalance


class ModernGroup:
    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        topics: Topics,
        own_times: Callable[[str], OwnTimes | None] = lambda _: None,
    ) -> None:
        self.group_id = group_id
        self._own_times = own_times
        self.settings = settings
        """May be replaced at any time; a session that runs already keeps its length until the next heartbeat."""
        self._topics = topics
        self._subscriptions = Subscriptions(topics)
        self._state = ModernState()
        self._deadlines: Deadlines[tuple[str, Literal["session", "rebalance"]]] = Deadlines()
        self._empty_since_ms: Millis | None = None

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def is_empty(self) -> bool:
        return not self._state.members

    @property
    def empty_since_ms(self) -> Millis | None:
        """None while there are members. After a reload it counts from then: the log does not tell."""
        return self._empty_since_ms if self.is_empty else None

    @property
    def state_name(self) -> str:
        return state_name(self._state)

    @property
    def held_bytes(self) -> int:
        """About what its members take."""
        targets = sum(map(len, self._state.targets.values()))
        members = self._state.members.values()
        owned = sum(len(member.current.assigned) + len(member.current.pending_revocation) for member in members)
        return sum(MEMBER_BYTES + _said_bytes(member) for member in members) + PARTITION_BYTES * (targets + owned)

    def said_bytes(self, member_id: str) -> int:
        """What a member has said of itself; 0 if there is no such member."""
        member = self._state.members.get(member_id)
        return 0 if member is None else _said_bytes(member)

    def subscribed_topics(self) -> set[str]:
        return set().union(*(self._subscriptions.names_of(metadata) for metadata in self._all_metadata()))

    def describe(self) -> DescribedGroup:
        return described_group(self.group_id, self._state, self._topics)

    def apply(self, record: LogRecord) -> None:
        self._state.apply(record)

    def loaded(self, now: Now) -> Effects:
        """Each member found gets a whole session, and a whole rebalance if it is in one."""
        for member in self._state.members.values():
            self._renew_session(member.member_id, now)
            self._watch_revocation(member, now)
        self._empty_since_ms = now.wall_ms
        return self.topics_changed(now)

    def tombstones(self) -> list[LogRecord]:
        forgotten: list[LogRecord] = []
        for member_id in sorted(self._state.members):
            forgotten += forget_member(self.group_id, member_id)
        forgotten.append(LogRecord(records.ConsumerGroupTargetAssignmentMetadataKey(self.group_id), None))
        forgotten.append(LogRecord(records.ConsumerGroupMetadataKey(self.group_id), None))
        return forgotten

    # Time and topics

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def tick(self, now: Now) -> Effects:
        """Members whose session ran out, or who did not give partitions up in time, are out of the group."""
        due = {member_id for member_id, _ in self._deadlines.take_due(now.steady_ms)}
        return self._remove(sorted(due & self._state.members.keys()), now)

    def topics_changed(self, now: Now) -> Effects:  # noqa: ARG002 - every command is told the time
        """A new epoch if a subscribed topic came, went or grew. The next heartbeat makes the target for it.

        Not this command: one topic may concern many groups, and all of them hear of it in one turn of the node.
        """
        self._subscriptions.topics_changed(self._all_metadata())
        draft = Draft(self._state)
        if metadata_hash(self._state, self._subscriptions) != self._state.metadata_hash:
            raise_epoch(draft, self.group_id, self._subscriptions)
        return Effects(draft.records)

    # Offsets: who may commit and fetch them

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        member_epoch: int,
        version: int,
        *,
        is_transactional: bool,
        now: Now,  # noqa: ARG002 - a commit is no sign of life here, as it is in classic groups
    ) -> None:
        """`version` is that of OffsetCommit, and does not count for TxnOffsetCommit."""
        if member_epoch < 0 and self.is_empty:
            return
        if is_transactional and member_epoch == -1 and not member_id and instance_id is None:
            return  # an older producer does not say for whom it commits
        member = self._known_member(member_id)
        if not is_transactional and version < COMMIT_VERSION_MIN:
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                f"members of KIP-848 groups commit with OffsetCommit v{COMMIT_VERSION_MIN} or later, not v{version}",
            )
        check_not_stale(member, member_epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if not member_id and member_epoch < 0:
            return
        check_not_stale(self._known_member(member_id or ""), member_epoch)

    # Heartbeats

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, token: Token, now: Now) -> Effects:
        check_heartbeat(request, caller.version)
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, token, now)
        draft = Draft(self._state)
        if request.member_epoch == JOIN_EPOCH:
            before = self._joining(draft, request, request.member_id or caller.fresh_member_id)
        else:
            before = self._named_member(request)
            check_member_epoch(before, request)
        self._update_metadata(draft, before, before.metadata.told(request, caller))
        if draft.state.epoch > draft.state.target_epoch:
            retarget(draft, self.group_id, self._subscriptions)
        # Either the member lost our last answer, or this request was overtaken by a newer one and knows nothing of what
        # the member was given since. (Kafka believes it, and may give away what is still being read.) So nothing
        # follows from it, but the answer tells all.
        is_behind = JOIN_EPOCH < request.member_epoch < before.current.epoch
        after = draft.state.members[before.member_id]
        if not is_behind:
            after = self._advance(draft, after, request, now)
        self._renew_session(after.member_id, now)
        response = ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.current.epoch,
            heartbeat_interval_ms=self._heartbeat_interval_ms(after),
        )
        if is_behind or _asks_for_all(request) or after.current.assigned != before.current.assigned:
            response.assignment = Assignment(by_topic(after.current.assigned, TopicPartitions))
        return Effects(draft.records, [Reply(token, response)])

    def _joining(self, draft: Draft, request: ConsumerGroupHeartbeatRequest, member_id: str) -> Member:
        """A new member; or one that was fenced or lost our answer, and begins anew; or a static one that is back."""
        members = self._state.members
        if request.instance_id is not None and request.instance_id in self._state.static_members:
            predecessor = members[self._state.static_members[request.instance_id]]
            if predecessor.current.epoch == STATIC_LEAVE_EPOCH:
                return self._take_over(draft, predecessor, member_id)
            if predecessor.member_id != member_id:
                raise Refusal(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"the instance id {request.instance_id!r} belongs to the member {predecessor.member_id!r}; "
                    "expected that one to leave first, or to be silent until its session has run out",
                )
        if member_id in members:
            return members[member_id]
        if len(members) >= self.settings.consumer_max_size:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group {self.group_id!r} has {len(members)} members, as many as it may have",
            )
        return Member(member_id)

    def _take_over(self, draft: Draft, predecessor: Member, member_id: str) -> Member:
        """A static member is back. It goes on with what it had, under its new member id."""
        target = self._state.targets.get(predecessor.member_id, NO_PARTITIONS)
        for record in forget_member(self.group_id, predecessor.member_id):
            draft.write(record)
        current = replace(predecessor.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        successor = Member(member_id, predecessor.metadata, current)
        draft.write(metadata_record(self.group_id, successor))
        draft.write(target_record(self.group_id, member_id, target))
        draft.write(current_assignment_record(self.group_id, successor))
        return successor

    def _update_metadata(self, draft: Draft, member: Member, metadata: MemberMetadata) -> None:
        has_resubscribed = metadata.subscription != member.metadata.subscription
        if has_resubscribed and metadata.topic_regex:
            self._subscriptions.check(metadata.topic_regex)
        if metadata != member.metadata:
            draft.write(metadata_record(self.group_id, replace(member, metadata=metadata)))
        if has_resubscribed or draft.state.epoch == 0:
            raise_epoch(draft, self.group_id, self._subscriptions)

    def _advance(self, draft: Draft, member: Member, request: ConsumerGroupHeartbeatRequest, now: Now) -> Member:
        state = draft.state
        current = reconcile(
            member.current,
            state.target_epoch,
            state.targets.get(member.member_id, NO_PARTITIONS),
            owned=None if request.topic_partitions is None else partitions_of(request.topic_partitions),
            is_occupied=lambda log_id: state.occupant_of(log_id) not in {None, member.member_id},
        )
        if current != member.current:
            member = replace(member, current=current)
            draft.write(current_assignment_record(self.group_id, member))
            self._watch_revocation(member, now)
        return member

    # Leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest, token: Token, now: Now) -> Effects:
        member = self._named_member(request)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            effects = self._leave_for_a_while(member)
        else:
            effects = self._remove([member.member_id], now)
        response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
        effects.replies.append(Reply(token, response))
        return effects

    def _leave_for_a_while(self, member: Member) -> Effects:
        """Its assignment waits until its session runs out. What it was to give up, it has given up."""
        current = replace(member.current, epoch=STATIC_LEAVE_EPOCH, pending_revocation=NO_PARTITIONS)
        self._deadlines.cancel((member.member_id, "rebalance"))
        return Effects([current_assignment_record(self.group_id, replace(member, current=current))])

    def _remove(self, member_ids: list[str], now: Now) -> Effects:
        if not member_ids:
            return Effects()
        draft = Draft(self._state)
        for member_id in member_ids:
            self._cancel_deadlines(member_id)
            for record in forget_member(self.group_id, member_id):
                draft.write(record)
        raise_epoch(draft, self.group_id, self._subscriptions)
        self._empty_since_ms = now.wall_ms
        return Effects(draft.records)

    # Members and their deadlines

    def _named_member(self, request: ConsumerGroupHeartbeatRequest) -> Member:
        if request.instance_id is None:
            return self._known_member(request.member_id)
        return self._static_member(request.instance_id, request.member_id)

    def _known_member(self, member_id: str) -> Member:
        member = self._state.members.get(member_id)
        if member is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is no member of the group {self.group_id!r}")
        return member

    def _static_member(self, instance_id: str, member_id: str) -> Member:
        holder_id = self._state.static_members.get(instance_id)
        if holder_id is None:
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"no member of the group {self.group_id!r} has the instance id {instance_id!r}",
            )
        if holder_id != member_id:
            raise Refusal(
                ErrorCode.FENCED_INSTANCE_ID,
                f"the instance id {instance_id!r} belongs to the member {holder_id!r} by now, not to {member_id!r}",
            )
        return self._state.members[holder_id]

    def _all_metadata(self) -> Iterable[MemberMetadata]:
        return [member.metadata for member in self._state.members.values()]

    def _heartbeat_interval_ms(self, member: Member) -> int:
        """Whoever waits for partitions that others still own asks often: they may be free in a moment."""
        own = self._own_times(self.group_id)
        interval_ms = self.settings.consumer_heartbeat_interval_ms if own is None else own.heartbeat_interval_ms
        if member.current.state is MemberState.UNRELEASED_PARTITIONS:
            return min(interval_ms, WAITING_HEARTBEAT_INTERVAL_MS)
        return interval_ms

    def _renew_session(self, member_id: str, now: Now) -> None:
        own = self._own_times(self.group_id)
        session_ms = self.settings.consumer_session_timeout_ms if own is None else own.session_timeout_ms
        self._deadlines.set((member_id, "session"), now.steady_ms + session_ms)

    def _watch_revocation(self, member: Member, now: Now) -> None:
        timer: tuple[str, Literal["rebalance"]] = (member.member_id, "rebalance")
        if member.current.pending_revocation:
            self._deadlines.set(timer, now.steady_ms + member.metadata.rebalance_timeout_ms)
        else:
            self._deadlines.cancel(timer)

    def _cancel_deadlines(self, member_id: str) -> None:
        self._deadlines.cancel((member_id, "session"))
        self._deadlines.cancel((member_id, "rebalance"))


def _asks_for_all(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that joins, or is not sure what it was told, says everything and wants to be told everything."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_whole = has_subscription and request.topic_partitions is not None and request.rebalance_timeout_ms != -1
    return is_whole or request.member_epoch == JOIN_EPOCH


def _said_bytes(member: Member) -> int:
    said = member.metadata
    topics = sum(map(len, said.topic_names)) + len(said.topic_regex)
    return topics + len(said.client_id) + len(member.member_id)
