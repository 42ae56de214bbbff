"""Raft's entries as record batches: what the metadata log holds, and what nodes send each other.

An entry is one batch; its leader epoch is the term. What is decided are metadata records. What concerns the log itself
(a leadership that begins, a change of the voters) is a control batch, which readers of the image pass over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.metadata.image.record_encoding import decode_record, encode_record
from headrace.model.names import NodeId, Offset
from headrace.raft.log import Entry, Term
from headrace.raft.membership import Membership, Voter
from headrace.raft.node import NO_OP
from headrace.wire.batches.header import CONTROL_BIT, HEADER_SIZE, CorruptBatch, read_header
from headrace.wire.batches.records import decode_records, encode_batch, open_batch
from headrace.wire.messages.metadata_records import (
    LeadershipBegunRecord,
    SnapshotHeaderRecord,
    VoterOnDisk,
    VotersChangedRecord,
)
from headrace.wire.primitives import Malformed, Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.metadata.image.records import MetadataRecord
    from headrace.model.names import Millis

ControlRecord = LeadershipBegunRecord | VotersChangedRecord | SnapshotHeaderRecord

INFLATE_MAX: Final = 1 << 20  # our own batches are never compressed
NO_TIME: Final = -1
"""Control batches have no time: every node that writes one writes the same bytes."""


def decided_batch(records: Sequence[MetadataRecord], base: Offset, term: Term, now_ms: Millis) -> bytes:
    """One batch, whatever its size: a crash leaves all of a command's records in the log, or none."""
    encoded = [(now_ms, None, encode_record(record), ()) for record in records]
    return bytes(encode_batch(encoded, base_offset=base, leader_epoch=term))


def batch_of(entry: Entry) -> bytes:
    if isinstance(entry.payload, Membership):
        return voters_batch(entry.payload, entry.base, entry.term)
    if entry.payload == NO_OP:
        return control_batch(LeadershipBegunRecord(), entry.base, entry.term)
    return entry.payload


def entries_of(batches: memoryview) -> Iterator[Entry]:
    """Raises CorruptBatch."""
    return map(entry_of, split_batches(batches))


def split_batches(content: memoryview) -> Iterator[memoryview]:
    """Raises CorruptBatch at the first that is not whole."""
    position = 0
    while position < len(content):
        header = read_header(content, position) if len(content) - position >= HEADER_SIZE else None
        if header is None or header.length < 0 or position + header.size > len(content):
            raise CorruptBatch(f"no whole batch begins at byte {position} of {len(content)}")
        yield content[position : position + header.size]
        position += header.size


def entry_of(batch: memoryview) -> Entry:
    """Raises CorruptBatch: what a voter keeps and promises to know must be what the leader wrote."""
    header, _ = open_batch(batch, inflate_max=INFLATE_MAX)
    if header.base_offset < 0 or header.last_offset_delta < 0:
        raise CorruptBatch(f"an entry says that it goes from {header.base_offset} to {header.last_offset}")
    payload: bytes | Membership = bytes(batch)
    if header.attributes & CONTROL_BIT:
        payload = _control_payload(batch)
    return Entry(Term(header.leader_epoch), Offset(header.base_offset), Offset(header.next_offset), payload)


def records_of(entry: Entry) -> Iterator[MetadataRecord]:
    """What the entry says about the cluster; nothing, if it is about the log itself. Made as they are asked for: a
    large one takes several turns."""
    if isinstance(entry.payload, Membership) or entry.payload == NO_OP:
        return
    for record in decode_records(entry.payload, inflate_max=INFLATE_MAX):
        assert record.value is not None
        yield decode_record(record.value)


def voters_batch(membership: Membership, base: Offset, term: Term) -> bytes:
    voters = [VoterOnDisk(voter.node_id, voter.directory) for voter in membership.voters]
    return control_batch(VotersChangedRecord(voters, list(membership.learners)), base, term)


def control_batch(record: ControlRecord, base: Offset, term: Term) -> bytes:
    key, body = Writer(), Writer()
    key.uvarint(record.RECORD_KEY)
    record.encode(body, record.VERSIONS[1])
    return bytes(
        encode_batch(
            [(NO_TIME, bytes(key.buffer), bytes(body.buffer), ())],
            base_offset=base,
            leader_epoch=term,
            is_control=True,
        )
    )


def control_body(batch: memoryview) -> tuple[int, bytes]:
    """The kind of a control batch's record, and its fields. Raises CorruptBatch."""
    record = next(decode_records(batch, inflate_max=INFLATE_MAX), None)
    if record is None or record.key is None or record.value is None:
        raise CorruptBatch("a control batch of the metadata log has no record")
    try:
        return Reader(record.key).uvarint(), record.value
    except Malformed as damage:
        raise CorruptBatch(f"a control record of the metadata log is damaged: {damage}") from damage


def _control_payload(batch: memoryview) -> bytes | Membership:
    kind, body = control_body(batch)
    if kind == LeadershipBegunRecord.RECORD_KEY:
        return NO_OP
    if kind != VotersChangedRecord.RECORD_KEY:
        raise CorruptBatch(f"a control record of the unknown kind {kind}: a newer version of Headrace wrote it")
    try:
        return _membership(VotersChangedRecord.decode(Reader(body), VotersChangedRecord.VERSIONS[1]))
    except Malformed as damage:
        raise CorruptBatch(f"a record of the voters is damaged: {damage}") from damage


def _membership(record: VotersChangedRecord) -> Membership:
    return Membership(
        tuple(Voter(NodeId(voter.node_id), voter.directory) for voter in record.voters),
        tuple(map(NodeId, record.learners)),
    )
