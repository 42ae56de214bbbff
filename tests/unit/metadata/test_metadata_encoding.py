from __future__ import annotations

import pytest

from headrace.metadata.configs.config_keys import CLUSTER_DEFAULTS, ConfigResource, ResourceKind
from headrace.metadata.image.record_encoding import UnreadableRecord, decode_record, encode_record
from headrace.metadata.image.records import (
    ClusterNamed,
    ConfigChanged,
    Endpoint,
    NodeChanged,
    NodeRegistered,
    NodeRemoved,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.model.names import NO_NODE, Epoch, NodeId, ProducerId, TopicId

TOPIC_ID = TopicId(bytes(range(16)))
ID_HEX = "000102030405060708090a0b0c0d0e0f"
ONE, TWO = NodeId(1), NodeId(2)
MOVING = "03 00 09 03 00000001 00000002 01 05 02 00000001 02 05 02 00000002"  # three tagged fields

# These bytes are on people's disks: a change here needs a new version of the record, not a new expectation.
RECORDS_ON_DISK = [
    (ClusterNamed("abc"), "01 00 04616263 00"),
    (
        NodeRegistered(ONE, b"\xaa\xbb", (Endpoint("kafka", "host", 9092),), "r"),
        "02 00 00000001 03aabb 02 066b61666b61 05686f7374 2384 00 0272 00",
    ),
    (NodeRegistered(ONE, b"\xaa", (), None), "02 00 00000001 02aa 01 00 00"),
    (
        NodeRegistered(ONE, b"\xaa", (), None, 5, b"\xdd", is_fenced=True),
        "02 00 00000001 02aa 01 00 03 00 08 0000000000000005 01 02 02dd 02 01 01",
    ),
    (NodeChanged(TWO, is_fenced=True, is_draining=False), "09 00 00000002 01 00 00"),
    (NodeRemoved(TWO), "0a 00 00000002 00"),
    (TopicCreated(TOPIC_ID, "t"), f"03 00 {ID_HEX} 0274 00"),
    (TopicDeleted(TOPIC_ID), f"04 00 {ID_HEX} 00"),
    (
        PartitionCreated(TOPIC_ID, 7, (ONE, TWO), (ONE,), ONE, Epoch(3), 4),
        f"05 00 {ID_HEX} 00000007 03 00000001 00000002 02 00000001 00000001 00000003 00000004 00",
    ),
    (
        PartitionChanged(TOPIC_ID, 7, (TWO,), NO_NODE, Epoch(5), 6),
        f"06 00 {ID_HEX} 00000007 02 00000002 ffffffff 00000005 00000006 00",
    ),
    (
        PartitionChanged(TOPIC_ID, 7, (TWO,), TWO, Epoch(5), 6, (ONE, TWO), (ONE,), (TWO,)),
        f"06 00 {ID_HEX} 00000007 02 00000002 00000002 00000005 00000006 {MOVING}",
    ),
    (
        PartitionChanged(TOPIC_ID, 7, (ONE,), ONE, Epoch(5), 6, eligible=(TWO,)),
        f"06 00 {ID_HEX} 00000007 02 00000001 00000001 00000005 00000006 01 03 05 02 00000002",
    ),
    (ConfigChanged(ConfigResource(ResourceKind.TOPIC, "t"), "k", "v"), "07 00 02 0274 026b 0276 00"),
    (ConfigChanged(CLUSTER_DEFAULTS, "k", None), "07 00 04 01 026b 00 00"),
    (ConfigChanged(CLUSTER_DEFAULTS, "k", ""), "07 00 04 01 026b 01 00"),
    (ProducerIdsReserved(ONE, ProducerId(2000)), "08 00 00000001 00000000000007d0 00"),
]


@pytest.mark.parametrize(("record", "encoded"), RECORDS_ON_DISK)
def test_the_bytes_of_each_record(record, encoded):
    assert encode_record(record) == bytes.fromhex(encoded)
    assert decode_record(bytes.fromhex(encoded)) == record


def test_a_tagged_field_of_a_later_version_is_skipped():
    assert decode_record(bytes.fromhex("01 00 04616263 01 09 03 ffffff")) == ClusterNamed("abc")


@pytest.mark.parametrize(
    ("encoded", "words"),
    [
        ("63 00 00", "unknown kind 99"),
        ("01 01 04616263 00", "version 1, this node reads 0 to 0"),
        ("01 00 04616263 00 00", "1 bytes follow"),
        ("01 00 0461", "damaged"),
        ("", "damaged"),
        ("07 00 10 0274 026b 0276 00", "damaged: 16 is not a valid ResourceKind"),
    ],
)
def test_what_cannot_be_read_is_never_skipped(encoded, words):
    with pytest.raises(UnreadableRecord) as problem:
        decode_record(bytes.fromhex(encoded))
    assert words in str(problem.value)
