"""What goes from the front of a partition's log: because somebody asks for it, or because retention says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.storage.files.damage import DamagedLog
from headrace.storage.log.repairs import NotYet

if TYPE_CHECKING:
    from headrace.broker.partitions.partition import Partition
    from headrace.model.names import Millis
    from headrace.runtime.clock import Clock

LOOK_S: Final = 0.05  # followers fetch twice a second at least, and nobody deletes records in a hurry


def delete_records(partition: Partition, before: Offset) -> Offset:
    """Move the log's start; -1 means everything that is committed. Returns the new start."""
    partition.replica.check_read()
    if partition.settings.is_compacted and not partition.settings.deletes_old_segments:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"records of {partition.name.topic} go by compaction alone (cleanup.policy=compact)",
        )
    high_watermark, log = partition.high_watermark, partition.log
    target = high_watermark if before == -1 else before
    if not 0 <= target <= high_watermark:
        raise Refusal(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.name} can be deleted up to its high watermark {high_watermark}, not {target}",
        )
    if target > log.start_offset:
        log.retention.advance_start(target)
        partition.review_stability()
        partition.look_again()
    return Offset(log.start_offset)


async def deleted_everywhere(partition: Partition, before: Offset, clock: Clock, deadline_s: float) -> None:
    """Wait until no replica in sync has records before that: whoever leads next must not bring them back.

    Raises Refusal if that takes too long, or this node no longer leads.
    """
    while True:
        partition.replica.check_read()
        if partition.replica.begins_everywhere_at(before):
            return
        if clock.monotonic_s() >= deadline_s:
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "not every in-sync replica has deleted the records in time")
        await asyncio.sleep(LOOK_S)


def delete_expired(partition: Partition, now_ms: Millis) -> tuple[int, Offset] | None:
    """Drop what retention allows; how many segments, and where the log begins now. None if there was nothing."""
    try:
        removed = partition.log.retention.delete_expired(now_ms)
    except NotYet:
        return None  # the next look may tell how old it is
    except DamagedLog as damage:
        partition.met(damage)
        return None
    if not removed:
        return None
    partition.review_stability()
    partition.watchers.changed()
    return len(removed), Offset(partition.log.start_offset)
