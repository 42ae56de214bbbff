"""A snapshot of the metadata as bytes: on disk, and on its way to a node that lacks it.

It is written as batches, as the log is, so that a damaged byte is found: one that says up to where it reaches, one
with the voters, and then the image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.metadata.entries import control_batch, control_body, entry_of, split_batches, voters_batch
from headrace.metadata.image.cluster_image import EMPTY_IMAGE, Draft
from headrace.metadata.image.record_encoding import decode_record, encode_record
from headrace.metadata.image.snapshots import snapshot_records
from headrace.model.names import Offset
from headrace.raft.log import Snapshot, Term
from headrace.raft.membership import Membership
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.batches.records import decode_records, encode_batch
from headrace.wire.messages.metadata_records import SnapshotHeaderRecord
from headrace.wire.primitives import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.records import MetadataRecord

RECORDS_PER_BATCH: Final = 1000  # a batch is decoded at once, between two turns of the loop
INFLATE_MAX: Final = 1 << 20  # never compressed
NO_TIME: Final = -1


def image_payload(image: ClusterImage) -> bytes:
    """What Raft carries around as a snapshot's payload."""
    records = [(NO_TIME, None, encode_record(record), ()) for record in snapshot_records(image)]
    return b"".join(
        bytes(encode_batch(records[first : first + RECORDS_PER_BATCH]))
        for first in range(0, len(records), RECORDS_PER_BATCH)
    )


def image_of(payload: bytes) -> ClusterImage:
    """Raises CorruptBatch and UnreadableRecord, also if records make sense alone and not together."""
    draft = Draft(EMPTY_IMAGE)
    for _ in building(draft, payload):
        pass
    return draft.finish()


def building(draft: Draft, payload: bytes) -> Iterator[None]:
    """`image_of`, record by record, for who has others to attend to meanwhile. The same is raised."""
    try:
        for record in _records(payload):
            draft.apply(record)
            yield
    except KeyError as missing:
        raise CorruptBatch(f"a snapshot speaks of {missing}, of which it has not told before") from missing


def _records(payload: bytes) -> Iterator[MetadataRecord]:
    for batch in split_batches(memoryview(payload)):
        for record in decode_records(batch, inflate_max=INFLATE_MAX):
            if record.value is None:
                raise CorruptBatch("a snapshot has a record without a value")
            yield decode_record(record.value)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    header = control_batch(SnapshotHeaderRecord(snapshot.end, snapshot.term), Offset(0), snapshot.term)
    return header + voters_batch(snapshot.membership, Offset(1), snapshot.term) + snapshot.payload


def decode_snapshot(content: bytes) -> Snapshot:
    """Raises CorruptBatch; every batch was checked once this returns."""
    for _ in checking(content):
        pass
    return open_snapshot(content)


def checking(content: bytes) -> Iterator[None]:
    """Look at every record, one after the other, for who has others to attend to meanwhile. Raises CorruptBatch."""
    for batch in split_batches(memoryview(content)):
        for _ in decode_records(batch, inflate_max=INFLATE_MAX):
            yield


def open_snapshot(content: bytes) -> Snapshot:
    """What was checked by `checking`. Raises CorruptBatch."""
    batches = list(split_batches(memoryview(content)))
    if len(batches) < 2:
        raise CorruptBatch("a snapshot has a header, voters and an image; this one ends before")
    kind, body = control_body(batches[0])
    if kind != SnapshotHeaderRecord.RECORD_KEY:
        raise CorruptBatch("a snapshot begins with its header; this one does not")
    header = SnapshotHeaderRecord.decode(Reader(body), SnapshotHeaderRecord.VERSIONS[1])
    membership = entry_of(batches[1]).payload
    if not isinstance(membership, Membership):
        raise CorruptBatch("a snapshot names the voters after its header; this one does not")
    payload = content[len(batches[0]) + len(batches[1]) :]
    return Snapshot(Offset(header.end), Term(header.term), membership, payload)
