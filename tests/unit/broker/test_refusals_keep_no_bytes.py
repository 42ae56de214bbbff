"""A batch that is refused leaves nothing of its bytes behind, and nothing at all if it is not a sound one."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pytest

from headrace.broker.partitions.writing import ACKS_ALL
from headrace.metadata.configs.settings import DEFAULT_TOPIC_SETTINGS
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch, NodeId
from headrace.runtime.disk import SystemDisk
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import CRC_START
from tests.unit.broker.small_partitions import NODE, PRODUCE_VERSION, SmallPartition, batch_of
from tests.unit.storage.small_logs import new_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHER_NODE = NodeId(2)


class ReceivedBytes(bytearray):
    """Can be asked whether anybody still holds it."""


@pytest.fixture
def short(tmp_path: Path) -> Iterator[SmallPartition]:
    """One replica is in sync, and acks=all needs two."""
    disk = SystemDisk(tmp_path)
    small = SmallPartition(new_log(disk, LogSettings(segment_ms=1 << 60, retention_ms=None)), disk)
    small.partition.replica.set_policy(durability="flushed", min_insync=2)
    small.partition.lead(Epoch(1), [NODE], [NODE, OTHER_NODE])
    yield small
    disk.close()


def sound(sequence: int = 0, *, producer_id: int = 7, value_bytes: int = 10) -> ReceivedBytes:
    return ReceivedBytes(batch_of(producer_id=producer_id, epoch=0, sequence=sequence, value_bytes=value_bytes))


def send(small: SmallPartition, raw: bytearray) -> ErrorCode:
    try:
        small.partition.writer.admit(memoryview(raw), ACKS_ALL, PRODUCE_VERSION)
    except Refusal as refusal:
        return refusal.code
    small.stage.commit()
    return ErrorCode.NONE


def test_no_byte_of_a_refused_batch_stays(short: SmallPartition) -> None:
    raw = sound(value_bytes=100_000)
    gone = weakref.ref(raw)
    assert send(short, raw) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(short.stage.refused_line) == 1
    del raw
    assert gone() is None, "what is remembered of a refusal holds the request that was refused"


def test_forged_batches_are_not_remembered(short: SmallPartition) -> None:
    for producer_id in range(100):
        forged = sound(producer_id=producer_id)
        forged[CRC_START - 1] ^= 1  # the last byte of the CRC
        assert send(short, forged) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert send(short, forged[:61]) is ErrorCode.NOT_ENOUGH_REPLICAS
    too_large = sound(value_bytes=DEFAULT_TOPIC_SETTINGS.max_message_bytes)
    assert send(short, too_large) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(short.stage.refused_line) == 0


def test_a_node_that_does_not_lead_remembers_nothing(short: SmallPartition) -> None:
    assert send(short, sound()) is ErrorCode.NOT_ENOUGH_REPLICAS
    short.partition.follow(Epoch(2), OTHER_NODE, [NODE, OTHER_NODE])
    assert len(short.stage.refused_line) == 0
    assert send(short, sound()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(short.stage.refused_line) == 0


def test_a_leader_whose_lease_is_over_does(short: SmallPartition) -> None:
    """It may take up its office again, in the same epoch."""
    short.partition.replica.set_policy(durability="flushed", min_insync=1)
    short.partition.set_leased(False)
    assert send(short, sound(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    short.partition.set_leased(True)
    assert send(short, sound(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert send(short, sound(0)) is ErrorCode.NONE
    assert send(short, sound(1)) is ErrorCode.NONE
