"""Raft's entries, snapshots and letters as bytes: what is written is what is read, and damage is found."""

from __future__ import annotations

import pytest

from headrace.broker.membership.raft_messages import from_wire, to_wire
from headrace.broker.metadata.entries import batch_of, decided_batch, entries_of, entry_of, records_of
from headrace.broker.metadata.snapshots import decode_snapshot, encode_snapshot, image_of, image_payload
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.image.records import TopicCreated, TopicDeleted
from headrace.model.names import Millis, NodeId, Offset, TopicId
from headrace.raft.log import Entry, Snapshot, Term
from headrace.raft.membership import Membership, ReplicaKey, Voter
from headrace.raft.messages import (
    AppendAnswer,
    AppendEntries,
    InstallSnapshot,
    OutboundMessage,
    RequestVote,
    TakeOver,
    VoteAnswer,
)
from headrace.raft.node import NO_OP
from headrace.wire.batches.header import CorruptBatch, seal
from tests.unit.metadata.small_cluster import cluster_of, with_topics

ONE = ReplicaKey(NodeId(1), b"disk of one")
MEMBERSHIP = Membership((Voter(NodeId(1), b"disk of one"), Voter(NodeId(2))), (NodeId(7),))
CREATED, DELETED = TopicCreated(TopicId(bytes(16)), "t"), TopicDeleted(TopicId(bytes(16)))


def decided(*records, base=5, term=3):
    payload = decided_batch(records, Offset(base), Term(term), Millis(1000))
    return Entry(Term(term), Offset(base), Offset(base + len(records)), payload)


ENTRIES = [
    decided(CREATED, DELETED),
    Entry(Term(4), Offset(7), Offset(8), NO_OP),
    Entry(Term(4), Offset(8), Offset(9), MEMBERSHIP),
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_comes_back_from_its_batch(entry):
    assert entry_of(memoryview(batch_of(entry))) == entry


@pytest.mark.parametrize(("place", "number"), [(0, (-1).to_bytes(8, signed=True)), (23, (-3).to_bytes(4, signed=True))])
def test_an_entry_that_ends_before_it_begins_is_damage(place, number):
    """Sound but for that: whoever wrote it meant it. A log would go back in its own offsets."""
    batch = bytearray(decided(CREATED).payload)
    batch[place : place + len(number)] = number
    seal(batch)
    with pytest.raises(CorruptBatch, match="it goes from"):
        entry_of(memoryview(batch))


def test_entries_follow_each_other():
    assert list(entries_of(memoryview(b"".join(map(batch_of, ENTRIES))))) == ENTRIES


def test_only_decisions_have_records():
    assert [list(records_of(entry)) for entry in ENTRIES] == [[CREATED, DELETED], [], []]


@pytest.mark.parametrize("entry", ENTRIES)
def test_damage_in_an_entry_is_found(entry):
    batch = bytearray(batch_of(entry))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch):
        entry_of(memoryview(batch))


@pytest.fixture
def snapshot():
    image = with_topics(cluster_of(1, 2), *(NewTopic(f"topic-{number}", 3, 2) for number in range(700)))
    return Snapshot(Offset(99), Term(4), MEMBERSHIP, image_payload(image)), image


def test_a_snapshot_comes_back(snapshot):
    taken, image = snapshot
    again = decode_snapshot(encode_snapshot(taken))
    assert again == taken
    assert image_of(again.payload) == image


@pytest.mark.parametrize("place", [10, 90, 200, 5000, -1])
def test_damage_anywhere_in_a_snapshot_is_found(snapshot, place):
    content = bytearray(encode_snapshot(snapshot[0]))
    content[place] ^= 0x10
    with pytest.raises(CorruptBatch):
        decode_snapshot(bytes(content))


@pytest.mark.parametrize("size", [0, 30, 61, 150, 1000])
def test_a_snapshot_that_was_cut_short_is_no_snapshot(snapshot, size):
    with pytest.raises(CorruptBatch):
        decode_snapshot(encode_snapshot(snapshot[0])[:size])


MESSAGES = [
    RequestVote(ONE, Term(3), Term(2), Offset(10), is_pre_vote=True),
    RequestVote(ONE, Term(3), Term(2), Offset(10), is_pre_vote=False, is_transfer=True),
    VoteAnswer(ONE, Term(3), is_granted=True, is_pre_vote=False),
    AppendEntries(ONE, Term(4), Offset(5), Term(2), tuple(ENTRIES), Offset(6), 1, 2),
    AppendEntries(ONE, Term(4), Offset(5), Term(2), (), Offset(5), 1, 3),
    AppendAnswer(ONE, Term(4), False, Offset(5), Term(2), Offset(9), 1, 3),
    InstallSnapshot(ONE, Term(4), Snapshot(Offset(9), Term(4), MEMBERSHIP, image_payload(cluster_of(1))), 2, 5),
    TakeOver(ONE, Term(4)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_letter_arrives_as_it_was_sent(message):
    request = to_wire(OutboundMessage(NodeId(2), message), "ours")
    assert (request.target, request.cluster_id) == (2, "ours")
    assert from_wire(request) == message


@pytest.mark.parametrize("damage", [0x01, 0x80, 0xFF])
def test_damage_anywhere_in_the_entries_of_a_letter_is_found(damage):
    """Whoever keeps an entry promises to know it. So it must be what the leader wrote, to the last byte."""
    entries = (decided(CREATED, DELETED, base=5, term=4), *ENTRIES[1:])
    request = to_wire(
        OutboundMessage(NodeId(2), AppendEntries(ONE, Term(4), Offset(5), Term(4), entries, Offset(6), 1, 2)), ""
    )
    assert from_wire(request).entries == entries
    content = bytes(request.entries)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= damage
        request.entries = bytes(damaged)
        with pytest.raises(CorruptBatch):
            from_wire(request)
