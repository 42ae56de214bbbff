"""The bytes of coordinators' records. They are Kafka's, so that its tools can read our logs, and they stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinators.records import (
    GROUP_KINDS,
    TRANSACTION_KINDS,
    LogRecord,
    UnreadableRecord,
    decode,
    encode,
)
from headrace.model.names import TopicId
from headrace.wire.messages import group_records as group
from headrace.wire.messages import transaction_records as transaction

TOPIC_ID = TopicId(bytes(range(16)))
ID_HEX = "000102030405060708090a0b0c0d0e0f"

# Of a broker of Kafka 3.3, with the group and the topic that somebody used there.
KEY_FROM_KAFKA = b"\x00\x01\x00\x12kafka-backup-topic\x00\x0ctest-topic-1\x00\x00\x00\x00"
VALUE_FROM_KAFKA = b"\x00\x03\x00\x00\x00\x00\x00\x00\x15\x89\xff\xff\xff\xff\x00\x00\x00\x00\x01\x82\x1c\x1aT9"

OFFSET_KEY = group.OffsetCommitKey("grp", "tp", 3)
OFFSET_KEY_HEX = "0001 0003 677270 0002 7470 00000003"

GROUP_RECORDS = [
    (
        LogRecord(OFFSET_KEY, group.OffsetCommitValue(7, 5, "m", 9)),
        OFFSET_KEY_HEX,
        "0003 0000000000000007 00000005 0001 6d 0000000000000009",
    ),
    (
        LogRecord(OFFSET_KEY, group.OffsetCommitValue(7, -1, "", 9, 16)),
        OFFSET_KEY_HEX,
        "0001 0000000000000007 0000 0000000000000009 0000000000000010",
    ),
    (
        LogRecord(
            group.GroupMetadataKey("grp"),
            group.GroupMetadataValue(
                "consumer", 2, "range", "m1", 8, [group.MemberMetadata("m1", None, "c", "h", 60, 45, b"\x01", b"\x02")]
            ),
        ),
        "0002 0003 677270",
        (
            "0003 0008 636f6e73756d6572 00000002 0005 72616e6765 0002 6d31 0000000000000008 00000001"
            " 0002 6d31 ffff 0001 63 0001 68 0000003c 0000002d 00000001 01 00000001 02"
        ),
    ),
    (
        LogRecord(group.GroupMetadataKey("grp"), group.GroupMetadataValue("consumer", 3, None, None, 8)),
        "0002 0003 677270",
        "0003 0008 636f6e73756d6572 00000003 ffff ffff 0000000000000008 00000000",
    ),
    (
        LogRecord(group.ConsumerGroupMetadataKey("grp"), group.ConsumerGroupMetadataValue(4)),
        "0003 0003 677270",
        "0000 00000004 00",
    ),
    (
        LogRecord(
            group.ConsumerGroupMemberMetadataKey("grp", "m"),
            group.ConsumerGroupMemberMetadataValue(None, "r", "c", "h", ["tp"], None, 60, "uniform"),
        ),
        "0005 0003 677270 0001 6d",
        "0000 00 02 72 02 63 02 68 02 03 7470 00 0000003c 08 756e69666f726d 00",
    ),
    (
        LogRecord(
            group.ConsumerGroupTargetAssignmentMetadataKey("grp"), group.ConsumerGroupTargetAssignmentMetadataValue(4)
        ),
        "0006 0003 677270",
        "0000 00000004 00",
    ),
    (
        LogRecord(
            group.ConsumerGroupTargetAssignmentMemberKey("grp", "m"),
            group.ConsumerGroupTargetAssignmentMemberValue([group.TargetTopicPartitions(TOPIC_ID, [1])]),
        ),
        "0007 0003 677270 0001 6d",
        f"0000 02 {ID_HEX} 02 00000001 00 00",
    ),
    (
        LogRecord(
            group.ConsumerGroupCurrentMemberAssignmentKey("grp", "m"),
            group.ConsumerGroupCurrentMemberAssignmentValue(
                4, 3, 1, [group.CurrentTopicPartitions(TOPIC_ID, [1])], [group.CurrentTopicPartitions(TOPIC_ID, [2])]
            ),
        ),
        "0008 0003 677270 0001 6d",
        f"0000 00000004 00000003 01 02 {ID_HEX} 02 00000001 00 02 {ID_HEX} 02 00000002 00 00",
    ),
]


@pytest.mark.parametrize(("record", "key_hex", "value_hex"), GROUP_RECORDS)
def test_the_bytes_of_each_group_record(record, key_hex, value_hex):
    key, value = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
    assert encode(record) == (key, value)
    assert decode(GROUP_KINDS, key, value) == record


def test_each_kind_of_group_record_has_an_example():
    assert {type(record.key) for record, _, _ in GROUP_RECORDS} == {kind.key for kind in GROUP_KINDS.values()}


def test_an_offset_that_kafka_wrote():
    record = LogRecord(
        group.OffsetCommitKey("kafka-backup-topic", "test-topic-1", 0),
        group.OffsetCommitValue(offset=5513, leader_epoch=-1, metadata="", commit_timestamp=0x01821C1A5439),
    )
    assert decode(GROUP_KINDS, KEY_FROM_KAFKA, VALUE_FROM_KAFKA) == record
    assert encode(record) == (KEY_FROM_KAFKA, VALUE_FROM_KAFKA)


def test_a_record_without_a_value_forgets():
    forgets = LogRecord(OFFSET_KEY, None)
    assert encode(forgets) == (bytes.fromhex(OFFSET_KEY_HEX), None)
    assert decode(GROUP_KINDS, bytes.fromhex(OFFSET_KEY_HEX), None) == forgets


def test_a_transaction_record_has_its_own_kind_and_comes_back():
    record = LogRecord(transaction.TransactionLogKey("tx"), transaction.TransactionLogValue(producer_id=9))
    key, value = encode(record)
    assert key == bytes.fromhex("0000 0002 7478")
    assert value is not None
    assert decode(TRANSACTION_KINDS, key, value) == record


@pytest.mark.parametrize(
    ("key_hex", "value_hex", "words"),
    [
        ("0063 0003 677270", "0000", "kind 99"),
        ("0000 0003 677270", None, "kind 0"),
        (OFFSET_KEY_HEX, "0005 00", "version 5"),
        (OFFSET_KEY_HEX, "ffff 00", "version -1"),
        (OFFSET_KEY_HEX, "0003 0000", "damaged"),
        ("0001 0003", None, "damaged"),
        ("00", None, "damaged"),
    ],
)
def test_what_cannot_be_read_stops_the_loading(key_hex, value_hex, words):
    value = None if value_hex is None else bytes.fromhex(value_hex)
    with pytest.raises(UnreadableRecord, match=words):
        decode(GROUP_KINDS, bytes.fromhex(key_hex), value)


GENERAL_WAY = dict(GROUP_KINDS)  # equal, but not the one that the short way is for


def _outcome(kinds: dict[int, Any], key: bytes, value: bytes) -> object:
    try:
        return decode(kinds, key, value)
    except UnreadableRecord:
        return UnreadableRecord


@given(
    record=st.builds(
        LogRecord,
        st.builds(group.OffsetCommitKey, st.text(max_size=5), st.text(max_size=5), st.integers(-(2**31), 2**31 - 1)),
        st.builds(
            group.OffsetCommitValue,
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**31), 2**31 - 1),
            st.text(max_size=5),
            st.integers(0, 2**63 - 1),
        ),
    ),
    damage=st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 255)), max_size=2),
    cut=st.integers(0, 2),
)
def test_the_short_way_to_an_offset_finds_what_the_general_one_does(
    record: LogRecord, damage: list[tuple[bool, int, int]], cut: int
) -> None:
    encoded_key, encoded_value = encode(record)
    assert encoded_value is not None
    key, value = bytearray(encoded_key), bytearray(encoded_value)
    for in_key, place, byte in damage:
        damaged = key if in_key else value
        damaged[place % len(damaged)] = byte
    key, value = key[: len(key) - cut], value[: len(value) - cut]
    assert _outcome(GROUP_KINDS, bytes(key), bytes(value)) == _outcome(GENERAL_WAY, bytes(key), bytes(value))
