"""What followers are told by a leader whose log does not have every offset any more.

A log may begin within a batch, since records are deleted singly. A follower that begins anew gets all of it.
A log that was copied from a compacted one has gaps, and does not know who wrote what was in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.broker.partitions.deletion import delete_records
from headrace.broker.partitions.fetch_session import FetchingFollower, FetchSession, PartitionFetch
from headrace.broker.partitions.follower_writing import UnexpectedGaps
from headrace.broker.partitions.topic_table import ServedTopic, TopicTable
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_EPOCH, Epoch, NodeId, Offset
from headrace.replication.fetched_batches import Expected, new_batches
from headrace.runtime.disk import SystemDisk
from headrace.storage.files import layout
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import CorruptBatch
from tests.unit.broker.small_partitions import NAME, NODE, SmallPartition, batch_of
from tests.unit.storage.compacted_logs import mark_gaps
from tests.unit.storage.small_logs import append, batch_at, new_log, reopened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.broker.partitions.fetch_session import Fetched

DELETED_BEFORE = Offset(4)  # in the middle of the second batch: offsets 2 to 5


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallPartition]:
    disk = SystemDisk(tmp_path)
    small = SmallPartition(new_log(disk, LogSettings(segment_ms=1 << 60, retention_ms=None)), disk)
    for count in (2, 4, 2):
        small.send(batch_of(count))
    small.flush()
    delete_records(small.partition, DELETED_BEFORE)
    yield small
    disk.close()


def fetched_from(small: SmallPartition, offset: int) -> Fetched:
    """As another node that follows."""
    topic = ServedTopic(small.log.log_id.topic_id, NAME.topic)
    topic.partitions = [None] * NAME.partition + [small.partition]
    table = TopicTable()
    table.add(topic)
    session = FetchSession(table)
    session.follower = FetchingFollower(NodeId(2), 1)
    session.want(NAME.topic, NAME.partition, PartitionFetch(Offset(offset), 1 << 20, Epoch(0)))
    collected = session.collect(1 << 20, is_full=True, is_committed_only=False)
    return collected.results[0][1]


def test_it_is_told_to_begin_with_a_whole_batch_and_gets_that(small: SmallPartition) -> None:
    refused = fetched_from(small, 0)
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)
    answer = fetched_from(small, 2)
    assert answer.error_code == ErrorCode.NONE
    assert answer.log_start_offset == DELETED_BEFORE
    assert answer.records is not None
    encoded = memoryview(answer.records.file.read(answer.records.position, answer.records.size))
    answer.records.release()
    epoch = small.partition.replica.leader_epoch
    _, headers = new_batches(encoded, Expected(2, epoch, epoch, may_have_gaps=False))
    assert [header.base_offset for header in headers] == [2, 6]
    with pytest.raises(CorruptBatch, match="has offset 2, expected 4"):
        new_batches(encoded, Expected(DELETED_BEFORE, epoch, epoch, may_have_gaps=False))


def test_nothing_is_kept_of_what_has_gaps_before_the_log_is_marked_for_that(small: SmallPartition) -> None:
    small.partition.follow(Epoch(1), NodeId(2), [NodeId(2), NODE])
    before = small.log.next_offset
    records = memoryview(bytes(batch_at(before, epoch=1) + batch_at(before + 3, epoch=1)))
    with pytest.raises(UnexpectedGaps):
        small.partition.follower_writer.append(records, Offset(0), Offset(0), may_have_gaps=True)
    assert small.log.next_offset == before
    mark_gaps(small.log)
    small.partition.follower_writer.append(records, Offset(0), Offset(0), may_have_gaps=True)
    assert small.log.next_offset == before + 4


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_lies_in_a_gap_where_the_leader_changed_is_given_up(tmp_path: Path, is_restarted: bool) -> None:
    """Epoch 5 wrote offsets 2 to 9 too, which compaction took away before we copied the log. A replica that was away
    may have others there, of epoch 4, that never were committed."""
    disk = SystemDisk(tmp_path)
    log = new_log(disk)
    append(log, batch_at(0, count=2, epoch=4))
    mark_gaps(log)
    append(log, batch_at(10, epoch=5))
    if is_restarted:
        disk.remove(f"{log.directory}/{layout.EPOCHS}")
        log = reopened(log, recovery_point=0, is_clean=False)
    partition = SmallPartition(log, disk, leader_epoch=6).partition
    assert partition.divergence(Offset(5), Epoch(4)) == (4, 2)
    assert partition.divergence(Offset(2), Epoch(4)) is None
    assert partition.divergence(Offset(11), Epoch(5)) is None
    disk.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_replica_that_ends_where_the_log_begins_is_not_believed_on_its_word(
    tmp_path: Path, is_restarted: bool
) -> None:
    """Epoch 7 wrote offsets 3 to 6, and they were deleted. Who has others there, of epoch 6, must give them up, though
    nothing of them is compared any more; who has those of epoch 7 may keep them until it deletes them as well."""
    disk = SystemDisk(tmp_path)
    log = new_log(disk)
    append(log, batch_at(0, count=3, epoch=6))
    append(log, batch_at(3, count=4, epoch=7))
    small = SmallPartition(log, disk, leader_epoch=8)
    small.flush()
    log.retention.advance_start(7)
    if is_restarted:
        log = reopened(log)
        small = SmallPartition(log, disk, leader_epoch=8)
    partition = small.partition
    assert partition.divergence(Offset(7), Epoch(6)) == (NO_EPOCH, 7)
    assert partition.divergence(Offset(7), Epoch(7)) is None
    assert partition.divergence(Offset(7), NO_EPOCH) is None
    append(log, batch_at(7, epoch=8))
    assert partition.divergence(Offset(7), Epoch(6)) == (NO_EPOCH, 7)
    assert partition.divergence(Offset(7), Epoch(7)) is None
    assert partition.divergence(Offset(8), Epoch(7)) == (7, 7)
    disk.close()


def test_an_empty_replica_that_has_seen_more_than_the_leader_begins_anew(small: SmallPartition) -> None:
    """All that it had was deleted when an operator let another lead, who had less. What comes next is not what it had:
    to take it for one that keeps up would commit records that only the leader has."""
    partition = small.partition
    end = Offset(small.log.next_offset)
    assert partition.divergence(end, NO_EPOCH) is None
    assert partition.divergence(Offset(end + 1), NO_EPOCH) == (NO_EPOCH, 2)
    assert fetched_from(small, end + 50).diverging == (NO_EPOCH, 2)
