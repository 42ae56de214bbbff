"""Transactions that were decided while their markers were still on the way: whoever asked was told that it is done.

A node that starts writes such markers first. Who only reads a disk has to ask the coordinator's log as well, or would
take what was acknowledged for undecided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.records import TRANSACTION_KINDS, UnreadableRecord, decode
from headrace.coordinators.transactions.state import Status
from headrace.metadata.configs.internal_topics import TRANSACTION_STATE
from headrace.model.names import TopicPartition
from headrace.storage.integrity.salvage import WholeBatch, whole_batches
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.batches.records import decode_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.rescue.survivor import Survivor
    from headrace.coordinators.records import LogRecord
    from headrace.runtime.disk import Disk
    from headrace.storage.integrity.salvage import FoundLog
    from headrace.wire.messages.transaction_records import TransactionLogValue

INFLATE_MAX: Final = 64 << 20  # as when a node loads them
IS_COMMIT: Final = {Status.PREPARE_COMMIT: True, Status.PREPARE_ABORT: False}

Decided = dict[tuple[int, TopicPartition], bool]
"""By producer id and partition, whether its last transaction there is to be committed."""


def decided_transactions(disk: Disk, survivor: Survivor) -> Decided:
    """What cannot be read is not decided, as far as anybody knows. Blocks."""
    decided: Decided = {}
    for log_id, name in sorted(survivor.names.items()):
        if name.topic == TRANSACTION_STATE:
            for value in _latest(disk, survivor.logs[log_id]).values():
                decided.update(_ending(value))
    return decided


def _ending(value: TransactionLogValue) -> Decided:
    is_commit = IS_COMMIT.get(Status(value.transaction_status))
    if is_commit is None:
        return {}
    places = (
        TopicPartition(topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    return {(value.producer_id, place): is_commit for place in places}


def _latest(disk: Disk, log: FoundLog) -> dict[str, TransactionLogValue]:
    """Each transactional id as it was last written down."""
    latest: dict[str, TransactionLogValue] = {}
    for batch in whole_batches(disk, log):
        if isinstance(batch, WholeBatch) and not batch.header.is_control:
            for key, value in _records(batch):
                latest.pop(key.transactional_id, None)
                if value is not None:
                    latest[key.transactional_id] = value
    return latest


def _records(batch: WholeBatch) -> Iterator[LogRecord]:
    try:
        for record in decode_records(batch.content, inflate_max=INFLATE_MAX):
            if record.key is not None:
                yield decode(TRANSACTION_KINDS, record.key, record.value)
    except (UnreadableRecord, CorruptBatch):
        return  # its transactions stay open, and are told as such
