"""The group that campaigns read with rides out a fault of its client library, which would look like one of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from headrace.coordinators.groups.coordinator import GroupCoordinator
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.offset_fetch import OffsetFetchResponseGroup
from tests.faults.committing_group import CommittingGroup
from tests.faults.history import History
from tests.faults.load import create_topics
from tests.faults.node_process import PATIENCE_S

if TYPE_CHECKING:
    import pytest

TOPIC = "events"


def test_a_member_reads_though_its_coordinator_had_moved_when_it_asked_where_to_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a node answers that has just ceased to lead the group's log."""
    fetch_offsets = GroupCoordinator.fetch_offsets
    asked: list[str] = []

    def moved_at_first(mind: GroupCoordinator, group_id: str, *rest: Any, **options: Any) -> OffsetFetchResponseGroup:
        asked.append(group_id)
        if len(asked) == 1:
            return OffsetFetchResponseGroup(group_id, error_code=ErrorCode.NOT_COORDINATOR)
        return fetch_offsets(mind, group_id, *rest, **options)

    monkeypatch.setattr(GroupCoordinator, "fetch_offsets", moved_at_first)
    with Broker() as broker:
        partitions = create_topics(broker.bootstrap_servers, {TOPIC: (2, {})})
        group = CommittingGroup("group", broker.bootstrap_servers, History(), [TOPIC], partitions)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _, index in partitions:
            producer.produce(TOPIC, b"value", partition=index)
        assert producer.flush(PATIENCE_S) == 0
        member = group.members[0]
        member.start()
        try:
            group.wait_for_commits(1)
        finally:
            member.end()
    assert len(asked) > 1
