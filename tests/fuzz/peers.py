"""What nodes take from each other: a follower its leader's batches, a voter entries and snapshots of metadata; and what
a node finds in its own small files, which may be damaged.

An input begins with a byte that says which; in batches every length and CRC is made right, if the next byte is odd.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headrace.broker.membership.identity import Identity, WrongIdentity
from headrace.broker.metadata.entries import entries_of
from headrace.broker.metadata.snapshots import decode_snapshot, image_of
from headrace.metadata.image.record_encoding import UnreadableRecord, encode_record
from headrace.metadata.image.records import TopicCreated
from headrace.model.names import TopicId
from headrace.replication import producer_snapshots
from headrace.replication.fetched_batches import Expected, new_batches
from headrace.storage.files.checkpoints import decode_epochs, decode_offsets, encode_epochs, encode_offsets
from headrace.storage.segments.index import OffsetIndex, TimeIndex
from headrace.wire.batches.header import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, CorruptBatch, read_header, seal
from headrace.wire.batches.records import encode_batch
from tests.fuzz.harness import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLLOWER, ENTRIES, SNAPSHOT, IMAGE, PRODUCERS, EPOCHS, OFFSETS, INDEX, TIMES, IDENTITY = range(10)
LEADER_EPOCH: Final = 100


def play(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, choice, body = data[0], data[1], data[2:]
    if kind in _PLAYS:
        _PLAYS[kind](mended(body) if choice % 2 and kind <= IMAGE else body)


def mended(stream: bytes) -> bytes:
    """Batch after batch made sound, as far as their lengths lead."""
    raw, position = bytearray(stream), 0
    while len(raw) - position >= HEADER_SIZE:
        size = read_header(raw, position).size
        if not HEADER_SIZE <= size <= len(raw) - position:
            size = len(raw) - position
            struct.pack_into(">i", raw, position + 8, size - LENGTH_OVERHEAD)
        raw[position + 16] = MAGIC
        seal(memoryview(raw)[position : position + size])
        position += size
    return bytes(raw)


def play_follower(body: bytes) -> None:
    for may_have_gaps in (False, True):
        expected = Expected(0, 0, LEADER_EPOCH, may_have_gaps)
        try:
            views, headers = new_batches(memoryview(body), expected)
        except CorruptBatch:
            continue
        assert b"".join(views) == body
        offset = epoch = 0
        for header in headers:
            assert header.base_offset == offset or (may_have_gaps and header.base_offset > offset)
            assert epoch <= header.leader_epoch <= LEADER_EPOCH
            offset, epoch = header.next_offset, header.leader_epoch
            assert offset > header.base_offset


def play_entries(body: bytes) -> None:
    try:
        for entry in entries_of(memoryview(body)):
            assert entry.end > entry.base
    except CorruptBatch:
        return


def play_snapshot(body: bytes) -> None:
    try:
        decode_snapshot(body)
    except CorruptBatch:
        return


def play_image(body: bytes) -> None:
    """Records that make sense alone need not together; but such a log stops the node with these words alone."""
    try:
        image_of(body)
    except (CorruptBatch, UnreadableRecord):
        return


def play_producers(body: bytes) -> None:
    try:
        found = producer_snapshots.decode_snapshot(body)
    except producer_snapshots.DamagedSnapshot:
        return
    again = producer_snapshots.decode_snapshot(producer_snapshots.encode_snapshot(found.entries()))
    assert again.entries() == found.entries()


def play_epochs(body: bytes) -> None:
    found = decode_epochs(body)
    assert found is None or decode_epochs(encode_epochs(found)) == found


def play_offsets(body: bytes) -> None:
    found = decode_offsets(body)
    assert found is None or decode_offsets(encode_offsets(found)) == found


def play_index(body: bytes) -> None:
    try:
        found = OffsetIndex.decode(body)
    except ValueError:
        return
    assert found.encode() == body


def play_times(body: bytes) -> None:
    try:
        found = TimeIndex.decode(body)
    except ValueError:
        return
    assert found.encode() == body


def play_identity(body: bytes) -> None:
    try:
        found = Identity.decode(body)
    except WrongIdentity:
        return
    if found.directory:  # the first nodes had none
        assert Identity.decode(found.encode()) == found


_PLAYS: Final[dict[int, Callable[[bytes], None]]] = {
    FOLLOWER: play_follower,
    ENTRIES: play_entries,
    SNAPSHOT: play_snapshot,
    IMAGE: play_image,
    PRODUCERS: play_producers,
    EPOCHS: play_epochs,
    OFFSETS: play_offsets,
    INDEX: play_index,
    TIMES: play_times,
    IDENTITY: play_identity,
}


def seeds() -> Iterator[bytes]:
    plain = [(0, b"k", b"v", ())] * 3
    batches = bytes(encode_batch(plain)) + bytes(encode_batch(plain, base_offset=3, leader_epoch=1))
    created = encode_record(TopicCreated(TopicId(bytes(15) + b"\1"), "t"))
    records = bytes(encode_batch([(0, None, created, ())]))
    for choice in (0, 1):
        yield bytes([FOLLOWER, choice]) + batches
        yield bytes([ENTRIES, choice]) + batches + records
        yield bytes([SNAPSHOT, choice]) + records * 3
        yield bytes([IMAGE, choice]) + records
    yield bytes([PRODUCERS, 0]) + producer_snapshots.encode_snapshot([])
    yield bytes([EPOCHS, 0]) + b"0\n2\n0 0\n3 70\n"
    yield bytes([OFFSETS, 0]) + b"0\n1\nAAAAAAAAAAAAAAAAAAAAAQ 0 70\n"
    yield bytes([INDEX, 0]) + bytes(16)
    yield bytes([TIMES, 0]) + bytes(24)
    yield bytes([IDENTITY, 0]) + b"version=1\nnode.id=1\ncluster.id=abc\n"


TARGET: Final = Target("peers", play, seeds)
