"""Groups whose positions lie beyond what a survivor has: they have read, and committed, what is lost.

Such a group skips what is written there anew, and nobody notices. So it is named while its consumers are still down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffsets
from headrace.coordinators.records import GROUP_KINDS, UnreadableRecord, decode
from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS
from headrace.model.names import ProducerId, TopicPartition
from headrace.storage.integrity.salvage import WholeBatch, whole_batches
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.batches.markers import is_commit_marker
from headrace.wire.batches.records import decode_records
from headrace.wire.messages.group_records import OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.broker.rescue.survivor import Survivor
    from headrace.runtime.disk import Disk
    from headrace.storage.integrity.salvage import FoundLog
    from headrace.wire.batches.records import Record

INFLATE_MAX: Final = 64 << 20  # as when a node loads them


class Stranded(NamedTuple):
    group: str
    partition: TopicPartition
    committed: int
    end: int
    """Where the partition ends now."""


@dataclass(slots=True)
class Positions:
    stranded: list[Stranded]
    unreadable_batches: int = 0
    """Of the logs of positions. What they say of groups is not known."""


def stranded_groups(disk: Disk, survivor: Survivor, ends: Mapping[TopicPartition, int]) -> Positions:
    """`ends` are those of all partitions of the new cluster, also of those that begin empty. Blocks."""
    found = Positions([])
    for log_id, name in sorted(survivor.names.items()):
        if name.topic == CONSUMER_OFFSETS:
            offsets = _committed(disk, survivor.logs[log_id], found)
            found.stranded += (it for it in _beyond(offsets, ends))
    found.stranded.sort()
    return found


def _beyond(offsets: CommittedOffsets, ends: Mapping[TopicPartition, int]) -> Iterator[Stranded]:
    for group in offsets.groups():
        for place in offsets.places(group):
            kept = offsets.get(group, *place)
            if kept is not None and place in ends and kept.offset > ends[place]:
                yield Stranded(group, place, kept.offset, ends[place])


def _committed(disk: Disk, log: FoundLog, found: Positions) -> CommittedOffsets:
    offsets = CommittedOffsets()
    for batch in whole_batches(disk, log):
        if isinstance(batch, WholeBatch):
            try:
                for record in decode_records(batch.content, inflate_max=INFLATE_MAX):
                    _apply(offsets, batch, record)
            except (UnreadableRecord, CorruptBatch):
                found.unreadable_batches += 1
    return offsets


def _apply(offsets: CommittedOffsets, batch: WholeBatch, record: Record) -> None:
    producer_id = ProducerId(batch.header.producer_id)
    if batch.header.is_control:
        offsets.end_transaction(producer_id, is_commit=is_commit_marker(record))
    elif record.key is not None:
        key, value = decode(GROUP_KINDS, record.key, record.value)
        if not isinstance(key, OffsetCommitKey):
            return  # members and assignments
        if value is None:
            offsets.forget(key)
        elif batch.header.is_transactional:
            offsets.commit_in_transaction(key, value, producer_id)
        else:
            offsets.commit(key, value)
