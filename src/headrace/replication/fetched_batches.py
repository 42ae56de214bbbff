"""What a follower takes from its leader: whole batches that follow on what it has, and nothing else."""

from __future__ import annotations

from typing import NamedTuple

from headrace.wire.batches.header import HEADER_SIZE, MAGIC, BatchHeader, CorruptBatch, crc_matches, read_header


class Expected(NamedTuple):
    """What a follower may expect of its leader's next batches."""

    next_offset: int
    latest_epoch: int
    leader_epoch: int
    may_have_gaps: bool


def new_batches(records: memoryview, expected: Expected) -> tuple[list[memoryview], list[BatchHeader]]:
    """The batches of a fetch, each checked. Raises CorruptBatch.

    The CRC covers neither offset nor epoch: that one batch follows the other vouches for them. A leader sends whole
    batches, so what seems to be cut short has a length that is wrong.
    """
    views: list[memoryview] = []
    headers: list[BatchHeader] = []
    position, offset, epoch = 0, expected.next_offset, expected.latest_epoch
    while position < len(records):
        header = _whole_batch(records, position)
        if header.base_offset != offset and not (expected.may_have_gaps and header.base_offset > offset):
            raise CorruptBatch(f"a batch has offset {header.base_offset}, expected {offset}")
        if not epoch <= header.leader_epoch <= expected.leader_epoch:
            raise CorruptBatch(
                f"the batch at {header.base_offset} has leader epoch {header.leader_epoch}, expected "
                f"{epoch} to {expected.leader_epoch}"
            )
        if not crc_matches(records, header, position):
            raise CorruptBatch(f"the batch at {header.base_offset} does not match its CRC")
        views.append(records[position : position + header.size])
        headers.append(header)
        position, offset, epoch = position + header.size, header.next_offset, header.leader_epoch
    return views, headers


def _whole_batch(records: memoryview, position: int) -> BatchHeader:
    room = len(records) - position
    if room >= HEADER_SIZE:
        header = read_header(records, position)
        if header.magic == MAGIC and HEADER_SIZE <= header.size <= room and header.last_offset_delta >= 0:
            return header
    raise CorruptBatch(f"no whole batch begins at byte {position} of {len(records)}")
