"""Kafka's producer snapshot, version 1, set by hand from the schema in its ProducerStateManager.

The CRCs were worked out bit by bit with the Castagnoli polynomial, not with the library under test.
"""

from __future__ import annotations

import pytest

from headrace.model.names import NO_OFFSET
from headrace.replication.producer_snapshots import DamagedSnapshot, decode_snapshot, encode_snapshot
from headrace.replication.producers import Producer, RememberedBatch

NOON = 1_700_000_000_000

EMPTY = bytes.fromhex("0001 48674bc7 00000000")

GOLDEN = bytes.fromhex(
    "0001"  # version
    "259b8b01"  # CRC-32C of all that follows
    "00000003"  # entries
    "0000000000000fa0"  # producer id 4000
    "0003"  # epoch
    "00000009"  # last sequence
    "00000000000003f1"  # last offset 1009
    "00000009"  # offset delta
    "0000018bcfe56800"  # timestamp
    "ffffffff"  # coordinator epoch
    "ffffffffffffffff"  # first offset of the open transaction: none
    "0000000000000fa0"  # producer id 4000 again, its next batch
    "0003"
    "0000000e"
    "00000000000003f6"  # last offset 1014
    "00000004"
    "0000018bcfe569f4"
    "ffffffff"
    "ffffffffffffffff"
    "0000000000000fa1"  # producer id 4001, a batch that spans the wrap: 2147483646, 2147483647, 0
    "0000"
    "00000000"
    "00000000000003fc"  # last offset 1020
    "00000002"
    "0000018bcfe56be8"
    "00000007"
    "00000000000003fa"  # its transaction began at 1018
)

PRODUCERS = [
    Producer(
        producer_id=4000,
        epoch=3,
        batches=(RememberedBatch(0, 9, 1000, NOON), RememberedBatch(10, 4, 1010, NOON + 500)),
        next_sequence=15,
        last_timestamp_ms=NOON + 500,
        coordinator_epoch=-1,
        current_txn_first_offset=NO_OFFSET,
    ),
    Producer(
        producer_id=4001,
        epoch=0,
        batches=(RememberedBatch(2_147_483_646, 2, 1018, NOON + 1000),),
        next_sequence=1,
        last_timestamp_ms=NOON + 1000,
        coordinator_epoch=7,
        current_txn_first_offset=1018,
    ),
]


def test_encoding() -> None:
    assert encode_snapshot(PRODUCERS) == GOLDEN
    assert encode_snapshot([]) == EMPTY


def test_decoding() -> None:
    assert decode_snapshot(GOLDEN).entries() == PRODUCERS
    assert len(decode_snapshot(EMPTY)) == 0


def test_a_producer_known_only_by_a_marker_has_no_batch() -> None:
    marked = Producer(9, 2, (), 0, NOON, 4, NO_OFFSET)
    snapshot = encode_snapshot([marked])
    assert snapshot[10:] == bytes.fromhex(
        "0000000000000009 0002 ffffffff ffffffffffffffff 00000000 0000018bcfe56800 00000004 ffffffffffffffff"
    )
    assert decode_snapshot(snapshot).entries() == [marked]


def test_a_later_epoch_of_the_same_producer_replaces_the_earlier() -> None:
    earlier, later = PRODUCERS[0], PRODUCERS[0]._replace(epoch=4, batches=PRODUCERS[0].batches[1:])
    assert decode_snapshot(encode_snapshot([earlier, later])).entries() == [later]


@pytest.mark.parametrize("position", range(len(GOLDEN)))
def test_any_changed_byte_is_found(position: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0x01
    with pytest.raises(DamagedSnapshot):
        decode_snapshot(bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, 9, 10, 55, 56, len(GOLDEN) - 1])
def test_a_torn_file_is_found(size: int) -> None:
    with pytest.raises(DamagedSnapshot):
        decode_snapshot(GOLDEN[:size])


def test_a_count_that_does_not_fit_is_found_even_with_a_right_crc() -> None:
    # One entry is claimed, none is there; the CRC is that of the count alone.
    with pytest.raises(DamagedSnapshot, match="10 bytes, its count asks for 56"):
        decode_snapshot(bytes.fromhex("0001 ba0cc8c4 00000001"))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(DamagedSnapshot, match="version 2"):
        decode_snapshot(bytes.fromhex("0002") + GOLDEN[2:])
