"""A follower whose log went another way than its leader's cuts it where they part, in as many steps as that takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.replicas.fetchers import ReplicaFetchers
from headrace.model.names import Epoch, NodeId, Offset, TopicPartition
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.storage.store.log_store import LogStore
from headrace.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.unit.broker.small_partitions import NODE, SmallPartition
from tests.unit.storage.small_logs import LOG_ID, SETTINGS, append, batch_at, new_log, read_all

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.storage.log.partition_log import PartitionLog

LEADER = NodeId(2)
EPOCH_NOW = Epoch(9)
FETCHES_MAX = 12  # far more than any of these logs takes

Story = list[tuple[int, int]]
"""Who wrote how much, one after the other: leader epoch, and how many batches of one record."""
Written = list[tuple[int, int]]
"""Offset and leader epoch of each batch."""


def tell(log: PartitionLog, story: Story) -> None:
    for epoch, count in story:
        for _ in range(count):
            append(log, batch_at(log.next_offset, epoch=epoch))


class Leader:
    """Answers fetches from a real log, as a node does that leads; knows when its follower has all of it."""

    def __init__(self, small: SmallPartition) -> None:
        self._small = small
        self.asked: list[tuple[int, int]] = []
        """Fetch offset and last epoch of each fetch."""
        self.is_over = asyncio.Event()

    async def ask(self, leader: NodeId, request: FetchRequest, *_: Any, **__: Any) -> FetchResponse:
        assert leader == LEADER
        answer = FetchResponse(session_id=1)
        for topic in request.topics:
            parts = [self._answer(part.fetch_offset, part.last_fetched_epoch) for part in topic.partitions]
            answer.responses.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=parts))
        if self.is_over.is_set():
            await asyncio.get_running_loop().create_future()  # nothing more comes
        return answer

    def _answer(self, offset: int, last_epoch: int) -> PartitionData:
        log = self._small.log
        self.asked.append((offset, last_epoch))
        data = PartitionData(LOG_ID.partition, high_watermark=0, log_start_offset=0)
        diverging = self._small.partition.divergence(Offset(offset), Epoch(last_epoch))
        if diverging is not None:
            data.diverging_epoch = EpochEndOffset(*diverging)
        elif offset < log.next_offset:
            piece = log.read(offset, 1 << 20, log.next_offset, at_least_one=True)
            assert piece is not None
            data.records = piece.read()
            piece.release()
        if (diverging is None and offset == log.next_offset) or len(self.asked) == FETCHES_MAX:
            self.is_over.set()
        return data


async def followed(tmp_path: Path, leaders: Story, followers: Story) -> tuple[Leader, Written, Written]:
    """The leader, and both logs once the follower has followed it to its end."""
    leader_disk, disk = SystemDisk(tmp_path / "leader"), SystemDisk(tmp_path / "follower")
    theirs = new_log(leader_disk)
    tell(theirs, leaders)
    leader = Leader(SmallPartition(theirs, leader_disk, leader_epoch=EPOCH_NOW))
    store = LogStore(
        World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads()), on_flushed=lambda _: None
    )
    await store.start()
    log = await store.open_or_create(LOG_ID, TopicPartition("orders", LOG_ID.partition), SETTINGS)
    tell(log, followers)
    partition = SmallPartition(log, disk).partition
    partition.follow(EPOCH_NOW, LEADER, [LEADER, NODE])
    failures: list[object] = []

    def failed(*what: object) -> None:
        failures.append(what)
        leader.is_over.set()

    following = ReplicaFetchers(NODE, leader, store, lambda: 1, failed)  # type: ignore[arg-type]
    following.bad_fetch = failed
    following.follow(partition, LEADER)
    await leader.is_over.wait()
    await following.close()
    assert failures == []
    expected, found = ([(header.base_offset, header.leader_epoch) for header in read_all(it)] for it in (theirs, log))
    await store.close()
    leader_disk.close()
    disk.close()
    return leader, expected, found


@pytest.mark.parametrize(
    ("leaders", "followers", "cut_at"),
    [
        ([(1, 10), (3, 2)], [(1, 5), (2, 7)], [5]),  # the leader's epoch 1 goes on for longer than the follower's
        ([(1, 5), (3, 7)], [(1, 10), (2, 2)], [5]),
        ([(1, 3), (4, 9)], [(1, 3), (2, 4), (3, 4)], [3]),
        ([(1, 6), (3, 4), (5, 1)], [(1, 4), (2, 3), (4, 2)], [7, 4]),  # the next fetch tells that they part earlier
        ([(1, 8)], [(1, 6)], []),
        ([(1, 8), (2, 1)], [(1, 8)], []),
    ],
)
async def test_it_ends_with_the_log_of_its_leader(
    tmp_path: Path, leaders: Story, followers: Story, cut_at: list[int]
) -> None:
    leader, theirs, ours = await followed(tmp_path, leaders, followers)
    assert ours == theirs
    length = sum(count for _, count in followers)
    assert [offset for offset, _ in leader.asked if offset < length][: len(cut_at)] == cut_at
