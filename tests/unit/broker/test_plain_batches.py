"""Plain batches have a short way into a log. What their topic asks of them is asked on it, too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.partitions.topic_rules import TopicRules
from headrace.broker.partitions.writing import PartitionWriter
from headrace.metadata.configs.settings import DEFAULT_TOPIC_SETTINGS
from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.writable_bytes import writable_bytes
from headrace.wire.batches.header import Codec, restamp
from headrace.wire.batches.records import encode_batch
from tests.unit.broker.small_partitions import PRODUCE_VERSION, SmallPartition
from tests.unit.storage.small_logs import new_log, read_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.broker.partitions.pending_appends import PendingAppend

NOW_MS = 1_700_000_000_000
PLAIN = bytes(encode_batch([(NOW_MS + number, None, b"value" * 20, ()) for number in range(3)]))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallPartition]:
    disk = SystemDisk(tmp_path)
    yield SmallPartition(new_log(disk), disk)
    disk.close()


def sent(small: SmallPartition, batch: bytes, writer: PartitionWriter | None = None) -> PendingAppend:
    """From the midst of a receive buffer."""
    memory, view = writable_bytes(len(batch) + 20)
    view[10:-10] = batch
    writer = writer or small.partition.writer
    admitted = writer.admit(view[10:-10], 1, PRODUCE_VERSION, None, memory, 10)
    small.stage.commit()
    return admitted


def code_for(small: SmallPartition, batch: bytes, writer: PartitionWriter | None = None) -> ErrorCode:
    with pytest.raises(Refusal) as caught:
        sent(small, batch, writer)
    assert small.log.next_offset == 0
    return caught.value.code


def configure(small: SmallPartition, **settings: Any) -> None:
    small.partition.configure(replace(DEFAULT_TOPIC_SETTINGS, **settings))


async def test_they_get_in(small: SmallPartition) -> None:
    assert [sent(small, PLAIN).base_offset for _ in range(2)] == [0, 3]
    assert [(header.base_offset, header.max_timestamp) for header in read_all(small.log)] == [
        (0, NOW_MS + 2),
        (3, NOW_MS + 2),
    ]


async def test_each_damaged_byte_behind_the_crc_is_found(small: SmallPartition) -> None:
    for place in range(21, len(PLAIN)):
        damaged = bytearray(PLAIN)
        damaged[place] ^= 0x10
        assert code_for(small, bytes(damaged)) in {
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.INVALID_TIMESTAMP,
        }


async def test_a_damaged_value_is_found(small: SmallPartition) -> None:
    assert code_for(small, PLAIN[:-9] + b"?" + PLAIN[-8:]) == ErrorCode.CORRUPT_MESSAGE


async def test_a_compacted_topic_needs_keys(small: SmallPartition) -> None:
    configure(small, cleanup_policy=("compact",))
    assert code_for(small, PLAIN) == ErrorCode.INVALID_RECORD
    sent(small, bytes(encode_batch([(NOW_MS, b"key", b"value" * 20, ())])))


async def test_a_topic_may_have_a_codec_of_its_own(small: SmallPartition) -> None:
    configure(small, compression_type="gzip")
    sent(small, PLAIN)
    assert [header.codec for header in read_all(small.log)] == [Codec.GZIP]


async def test_a_topic_may_give_its_own_time(small: SmallPartition) -> None:
    configure(small, message_timestamp_type="LogAppendTime")
    assert sent(small, PLAIN).append_time_ms > NOW_MS
    assert all(header.is_log_append_time for header in read_all(small.log))


async def test_a_newest_time_that_was_left_unset_is_filled_in(small: SmallPartition) -> None:
    batch = bytearray(PLAIN)
    restamp(batch, 0, -1)
    sent(small, bytes(batch))
    assert [header.max_timestamp for header in read_all(small.log)] == [NOW_MS + 2]


async def test_they_may_be_too_large(small: SmallPartition) -> None:
    configure(small, max_message_bytes=len(PLAIN) - 1)
    assert code_for(small, PLAIN) == ErrorCode.MESSAGE_TOO_LARGE
    configure(small, max_message_bytes=len(PLAIN))
    sent(small, PLAIN)


async def test_no_client_writes_to_a_topic_of_coordinators(small: SmallPartition) -> None:
    clock = SystemClock()
    theirs = PartitionWriter(small.partition, TopicRules("__consumer_offsets", clock), small.stage, clock)
    assert code_for(small, PLAIN, theirs) == ErrorCode.INVALID_TOPIC_EXCEPTION
