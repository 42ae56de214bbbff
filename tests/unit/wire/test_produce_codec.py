"""What a Produce request may name, and how much of it."""

from __future__ import annotations

import pytest

from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.primitives import Malformed
from headrace.wire.produce import STRING_MAX, TAGS_MAX, TooManyPartitions, decode_produce

VERSION = 12
HEADER = 14 + 1  # the length of the frame, the fixed part of the header, no client id, no tags


def body(topics: list[TopicProduceData]) -> bytes:
    frame = encode_request(RequestHeader(0, VERSION, 1, ""), ProduceRequest(None, 1, 1000, topics))
    return bytes(frame)[HEADER:]


def test_a_name_has_a_limit() -> None:
    longest = body([TopicProduceData("n" * STRING_MAX, partition_data=[PartitionProduceData(0, b"")])])
    assert len(decode_produce(longest, 0, len(longest), VERSION)[3][0][0]) == STRING_MAX
    longer = longest.replace(b"\x80\x80\x02", b"\x81\x80\x02", 1).replace(b"nn", b"nnn", 1)
    assert longer != longest
    with pytest.raises(Malformed, match="a name or an id of 32768 bytes"):
        decode_produce(longer, 0, len(longer), VERSION)


def test_tagged_fields_are_counted_over_the_whole_request() -> None:
    """Each is small, and there is a place for some in every partition."""
    one = PartitionProduceData(0, b"")
    plain = body([TopicProduceData("t", partition_data=[one] * 2)])
    tags = b"\x01\x00\x00"  # one, number 0, empty
    partition = b"\x00\x00\x00\x00\x01\x00"
    assert plain.count(partition) == 2

    def tagged(count: int) -> bytes:
        many = partition[:-1] + bytes((0x80 | (count & 0x7F), count >> 7)) + tags[1:] * count
        return plain.replace(partition, many)

    fits = tagged(TAGS_MAX // 2)
    assert len(decode_produce(fits, 0, len(fits), VERSION)[3][0][1]) == 2
    too_many = tagged(TAGS_MAX // 2 + 1)
    with pytest.raises(Malformed, match="more than 256 tagged fields"):
        decode_produce(too_many, 0, len(too_many), VERSION)


@pytest.mark.parametrize(("topics", "each", "is_too_many"), [(4, 1, False), (1, 4, False), (5, 0, True), (2, 3, True)])
def test_topics_and_partitions_have_the_same_limit_and_are_counted_apart(
    topics: int, each: int, is_too_many: bool
) -> None:
    one = PartitionProduceData(0, b"")
    asked = body([TopicProduceData(f"t{number}", partition_data=[one] * each) for number in range(topics)])
    if is_too_many:
        with pytest.raises(TooManyPartitions):
            decode_produce(asked, 0, len(asked), VERSION, 4)
    else:
        decode_produce(asked, 0, len(asked), VERSION, 4)
