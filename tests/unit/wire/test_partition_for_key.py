"""Keys go where Java clients send them."""

from __future__ import annotations

import pytest
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from headrace.wire.partitioning import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed_hash"),
    [  # the vectors of Apache Kafka's own UtilsTest, the last of librdkafka's
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"kafka", -798503068),
    ],
)
def test_murmur2_has_the_published_values(key: bytes, signed_hash: int) -> None:
    assert murmur2(key) == signed_hash % 2**32


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 63, 64, 67, 68, 69, 70, 71, 1000])
def test_keys_of_every_length_hash_as_in_kafka_python(size: int) -> None:
    key = bytes(251 - index % 251 for index in range(size))
    assert murmur2(key) == murmur2_of_kafka_python(key) % 2**32


def test_the_sign_bit_is_cleared_before_the_division() -> None:
    assert murmur2(b"foobar") > 2**31
    assert partition_for_key(b"foobar", 1000) == (-790332482 & 0x7FFFFFFF) % 1000


def test_keys_spread_over_all_partitions() -> None:
    counts = [0] * 12
    for number in range(12_000):
        counts[partition_for_key(b"customer-%d" % number, 12)] += 1
    assert min(counts) > 900
