"""Groups that come, commit, change protocol, are deleted and expire, against offsets in a plain dictionary.

The model reads every record in the log; it must agree with what the coordinator answers. After each step a second
coordinator, loaded from the log alone, must know the same offsets and groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.coordinators.effects import Caller
from headrace.model.errors import ErrorCode
from headrace.model.names import ProducerId
from headrace.wire.messages.group_records import OffsetCommitKey
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequestTopics
from tests.properties.offsets_model import OffsetsModel, Place
from tests.unit.coordinators.living_coordinator import PARKED, SETTINGS, LivingCoordinator, Marker

if TYPE_CHECKING:
    from headrace.coordinators.groups.coordinator import GroupCoordinator

GROUP_IDS = ("one", "two")  # few of everything, so that things meet
TOPICS = ("orders", "bills")
PARTITIONS = (0,)
PRODUCER_IDS = (7, 8)
MEMBERS = ("first", "second")
RETENTION_MS = SETTINGS.offsets_retention_ms

groups = st.sampled_from(GROUP_IDS)
topics = st.sampled_from(TOPICS)
partitions = st.sampled_from(PARTITIONS)
producers = st.sampled_from(PRODUCER_IDS)
members = st.sampled_from(MEMBERS)
offsets = st.integers(0, 2**63 - 1)
V6 = Caller("client", "/127.0.0.1", 6)

PLACES: list[Place] = [(group, topic, partition) for group in GROUP_IDS for topic in TOPICS for partition in PARTITIONS]


def answers(mind: GroupCoordinator, *, stable: bool) -> dict[Place, tuple[int, int]]:
    wanted = [OffsetFetchRequestTopics(topic, partition_indexes=list(PARTITIONS)) for topic in TOPICS]
    return {
        (group_id, topic.name, partition.partition_index): (partition.committed_offset, partition.error_code)
        for group_id in GROUP_IDS
        for topic in mind.fetch_offsets(group_id, None, -1, wanted, is_stable_required=stable).topics
        for partition in topic.partitions
    }


def all_answers(mind: GroupCoordinator) -> dict[Place, tuple[int, int]]:
    return {
        (group_id, topic.name, partition.partition_index): (partition.committed_offset, partition.error_code)
        for group_id in GROUP_IDS
        for topic in mind.fetch_offsets(group_id, None, -1, None, is_stable_required=False).topics
        for partition in topic.partitions
    }


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = LivingCoordinator()
        self.model = OffsetsModel()
        self.read_to = 0
        self.entered: dict[str, tuple[str, int]] = {}
        """A member of each classic group, and the generation that it knows."""

    def _catch_up(self) -> None:
        for entry in self.coordinator.log[self.read_to :]:
            if isinstance(entry, Marker):
                self.model.end(entry.producer_id, is_commit=entry.is_commit)
            elif isinstance(entry.record.key, OffsetCommitKey):
                self.model.read(entry.record.key, entry.record.value, entry.producer_id)
        self.read_to = len(self.coordinator.log)

    def _expected(self, place: Place, *, stable: bool) -> tuple[int, int]:
        if stable and self.model.is_unstable(place):
            return -1, ErrorCode.UNSTABLE_OFFSET_COMMIT
        commit = self.model.committed.get(place)
        return (-1 if commit is None else commit.offset), ErrorCode.NONE

    def _state(self, group_id: str) -> tuple[str, str]:
        for group in self.coordinator.mind.list_groups((), ()):
            if group.group_id == group_id:
                return group.group_type, group.group_state
        return "", ""

    # ---- offsets

    @rule(
        wanted=st.lists(st.tuples(groups, topics, partitions, offsets, st.none() | producers), min_size=1, max_size=8)
    )
    def commit_some(self, wanted: list[tuple[str, str, int, int, int | None]]) -> None:
        for group_id, topic, partition, offset, producer_id in wanted:
            if producer_id is None:
                self._commit(group_id, topic, partition, offset)
            else:
                self._commit_in_transaction(group_id, topic, partition, offset, producer_id)

    def _commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        _, state = self._state(group_id)
        assert state in {"", "Empty"} or self.coordinator.commit(group_id, offset, topic, partition) != ErrorCode.NONE
        member_id, epoch = self._committer(group_id)
        code = self.coordinator.commit(group_id, offset, topic, partition, member_id=member_id, epoch=epoch)
        assert code == ErrorCode.NONE or state.endswith("Rebalance")
        if code == ErrorCode.NONE:
            assert self.coordinator.fetch(group_id, topic, partition).committed_offset == offset

    def _commit_in_transaction(self, group_id: str, topic: str, partition: int, offset: int, producer_id: int) -> None:
        before = self.coordinator.fetch(group_id, topic, partition)
        code = self.coordinator.commit_in_transaction(group_id, offset, topic, partition, producer_id=producer_id)
        assert code == ErrorCode.NONE
        assert self.coordinator.fetch(group_id, topic, partition) == before
        assert self.coordinator.mind.has_pending(ProducerId(producer_id))

    def _committer(self, group_id: str) -> tuple[str, int]:
        """Somebody who may commit now, unless the group is in a rebalance."""
        (consumers,) = self.coordinator.mind.describe_consumer_groups([group_id])
        if consumers.members:
            return consumers.members[0].member_id, consumers.members[0].member_epoch
        _, state = self._state(group_id)
        return ("", -1) if state in {"", "Empty"} else self.entered[group_id]

    @rule(producer_id=producers, is_commit=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        self.coordinator.mark(producer_id, is_commit=is_commit)
        assert not self.coordinator.mind.has_pending(ProducerId(producer_id))

    @rule(group_id=groups, topic=topics, partition=partitions)
    def delete_offset(self, group_id: str, topic: str, partition: int) -> None:
        _, state = self._state(group_id)
        request = OffsetDeleteRequest(
            group_id, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(partition)])]
        )
        response = self.coordinator.ask("delete_offsets", request)
        if state == "":
            assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        elif state == "Empty":
            assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert self.coordinator.fetch(group_id, topic, partition, stable=True).committed_offset == -1

    @rule(topic=topics)
    def delete_topic(self, topic: str) -> None:
        mind = self.coordinator.mind
        self.coordinator.perform(mind.topics_deleted([topic], self.coordinator.now))
        assert not any(place[1] == topic and answer != (-1, 0) for place, answer in answers(mind, stable=True).items())

    # ---- groups

    @rule(group_id=groups)
    def delete_group(self, group_id: str) -> None:
        _, state = self._state(group_id)
        token = object()
        self.coordinator.answers[token] = PARKED
        self.coordinator.perform(self.coordinator.mind.delete_groups([group_id], token, self.coordinator.now))
        (result,) = self.coordinator.answers[token]
        if state == "":
            assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        elif state == "Empty":
            assert result.error_code == ErrorCode.NONE
            assert self._state(group_id) == ("", "")
        else:
            assert result.error_code == ErrorCode.NON_EMPTY_GROUP

    @rule(group_id=groups, member_id=members, topic=topics)
    def join_classic(self, group_id: str, member_id: str, topic: str) -> None:
        kind, state = self._state(group_id)
        joined = self.coordinator.join_classic(group_id, member_id, topics=(topic,))
        if joined is not PARKED and joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            joined = self.coordinator.join_classic(group_id, fresh_member_id=member_id, topics=(topic,))
        if (kind, state) in {("consumer", "Stable"), ("consumer", "Reconciling"), ("consumer", "Assigning")}:
            assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif joined is not PARKED and joined.error_code == ErrorCode.NONE:
            self.entered[group_id] = member_id, joined.generation_id
            is_leader = joined.leader == joined.member_id
            self.coordinator.sync_classic(group_id, member_id, joined.generation_id, leads=is_leader)

    @rule(group_id=groups, member_id=members)
    def leave_classic(self, group_id: str, member_id: str) -> None:
        self.coordinator.leave_classic(group_id, member_id)

    @rule(group_id=groups, member_id=members, topic=topics)
    def join_modern(self, group_id: str, member_id: str, topic: str) -> None:
        kind, state = self._state(group_id)
        answer = self.coordinator.beat_modern(group_id, member_id, topics=(topic,))
        can_join = kind in {"", "consumer"} or state == "Empty"
        assert answer.error_code == (ErrorCode.NONE if can_join else ErrorCode.GROUP_ID_NOT_FOUND)

    @rule(group_id=groups, member_id=members)
    def leave_modern(self, group_id: str, member_id: str) -> None:
        self.coordinator.beat_modern(group_id, member_id, epoch=-1)

    @rule(group_id=groups)
    def everybody_leaves(self, group_id: str) -> None:
        for member_id in MEMBERS:
            self.coordinator.leave_classic(group_id, member_id)
            self.coordinator.beat_modern(group_id, member_id, epoch=-1)
        assert self._state(group_id)[1] in {"", "Empty"}

    # ---- time

    @rule(ms=st.sampled_from([1, 3_000, 20_000, RETENTION_MS // 2, RETENTION_MS]))
    def wait(self, ms: int) -> None:
        self.coordinator.wait(ms)

    @rule()
    def expire(self) -> None:
        self._catch_up()
        mind = self.coordinator.mind
        shown = {group.group_id: group for group in mind.list_groups((), ())}
        read = {
            (group.group_id, topic)
            for group in mind.describe_consumer_groups(GROUP_IDS)
            for member in group.members
            for topic in member.subscribed_topic_names
        }
        before = {place: (commit, self.model.is_unstable(place)) for place, commit in self.model.committed.items()}
        self.coordinator.expire()
        self._catch_up()
        for place, (commit, is_unstable) in before.items():
            is_over = self.coordinator.now.wall_ms - commit.at_ms >= RETENTION_MS
            is_simple = shown[place[0]].group_state == "Empty" and shown[place[0]].protocol_type == ""
            if place not in self.model.committed:
                assert is_over
                assert not is_unstable
                assert place[:2] not in read
            elif is_simple:
                assert not is_over or is_unstable
        for group_id, group in shown.items():
            assert group.group_state == "Empty" or self._state(group_id) == (group.group_type, group.group_state)

    @rule()
    def reload(self) -> None:
        self.coordinator.reload()

    # ---- what must hold

    @invariant()
    def a_reload_knows_what_the_living_one_knows(self) -> None:
        self._catch_up()
        live, reloaded = self.coordinator.mind, self.coordinator.reloaded()
        self._check_offsets(live)
        self._check_offsets(reloaded)
        self._check_groups(live, reloaded)

    def _check_offsets(self, mind: GroupCoordinator) -> None:
        for stable in (False, True):
            assert answers(mind, stable=stable) == {place: self._expected(place, stable=stable) for place in PLACES}
        assert all_answers(mind) == {
            place: (commit.offset, ErrorCode.NONE) for place, commit in self.model.committed.items()
        }

    def _check_groups(self, live: GroupCoordinator, reloaded: GroupCoordinator) -> None:
        shown = {group.group_id: group for group in live.list_groups((), ())}
        found = {group.group_id: group for group in reloaded.list_groups((), ())}
        assert self.model.groups() <= found.keys() <= shown.keys()
        for group_id, group in found.items():
            assert group.group_type == shown[group_id].group_type
            is_classic = group.group_type == "classic"
            if is_classic and shown[group_id].group_state.endswith("Rebalance"):
                continue  # what a rebalance knows is not written yet
            if is_classic and group.protocol_type == "":
                continue  # its offsets are written, but not that somebody has asked to join
            assert group == shown[group_id]
            assert _description(live, group_id) == _description(reloaded, group_id)
        for group_id in shown.keys() - found.keys():
            assert shown[group_id].group_type == "classic", "only who is about to join is not in the log"
            assert shown[group_id].group_state != "Stable"


def _description(mind: GroupCoordinator, group_id: str) -> Any:
    return mind.describe_groups([group_id], V6), mind.describe_consumer_groups([group_id])


TestGroups = Groups.TestCase
TestGroups.settings = hypothesis_settings(max_examples=80, stateful_step_count=40, deadline=None)
