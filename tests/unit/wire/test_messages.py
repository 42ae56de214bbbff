"""What generated messages do beyond round trips: unknown tags, missing fields, values that a version cannot carry."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from headrace.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from headrace.wire.primitives import Malformed, Reader, Writer


def encode(message: Any, version: int) -> bytes:
    writer = Writer()
    message.encode(writer, version)
    return bytes(writer.buffer)


UNKNOWN_TAGS = "02 63 03 aabbcc 64 00"  # tag 99 with three bytes, tag 100 with none


def test_unknown_tags_are_skipped_at_every_depth() -> None:
    one_topic = "02" + "07" * 16 + "0274" + UNKNOWN_TAGS
    request = MetadataRequest.decode(Reader(bytes.fromhex(one_topic + "01 00" + UNKNOWN_TAGS)), 12)
    assert request == MetadataRequest([MetadataRequestTopic(TopicId(b"\x07" * 16), "t")])


def test_known_tags_are_found_among_unknown_ones_in_any_order() -> None:
    untagged = encode(FetchRequest(), 15)[:-1]
    unknown = "09 01 ff"
    replica_state = "01 0d 00000005 0000000000000006 00"
    cluster_id = "00 02 0263"
    request = FetchRequest.decode(Reader(untagged + bytes.fromhex("03" + unknown + replica_state + cluster_id)), 15)
    assert request == FetchRequest(cluster_id="c", replica_state=ReplicaState(5, 6))


def test_a_known_tag_of_the_wrong_size_is_refused() -> None:
    untagged = encode(FetchRequest(), 15)[:-1]
    with pytest.raises(Malformed, match=r"tagged field 0 .* claims 3 bytes, its value has 2"):
        FetchRequest.decode(Reader(untagged + bytes.fromhex("01 00 03 0263ff")), 15)


def test_a_tag_of_a_later_version_is_unknown_to_an_earlier_one() -> None:
    with_state = encode(FetchRequest(replica_state=ReplicaState(5, 6)), 15)
    as_version_14 = bytes(4) + with_state  # version 14 still begins with the replica id
    assert FetchRequest.decode(Reader(as_version_14), 14).replica_state == ReplicaState()


def test_tags_at_their_default_are_not_written() -> None:
    partition = PartitionData(records=b"")
    bare = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]), 12)
    partition.diverging_epoch = EpochEndOffset(0, 0)
    told = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]), 12)
    assert len(told) == len(bare) + 2 + 4 + 8 + 1


def test_fields_that_a_version_lacks_decode_as_their_default() -> None:
    response = MetadataResponse.decode(Reader(encode(MetadataResponse(controller_id=4, throttle_time_ms=9), 0)), 0)
    assert response == MetadataResponse()
    assert response.controller_id == -1


def test_an_ignorable_value_is_dropped_silently() -> None:
    broker = MetadataResponseBroker(1, "h", 9092, rack="a")
    topic = MetadataResponseTopic(name="t", topic_id=TopicId(b"\x01" * 16))
    response = MetadataResponse.decode(Reader(encode(MetadataResponse(brokers=[broker], topics=[topic]), 0)), 0)
    assert response.brokers == [MetadataResponseBroker(1, "h", 9092)]
    assert response.topics[0].topic_id == NO_TOPIC_ID


def test_a_value_that_matters_is_not() -> None:
    with pytest.raises(ValueError, match=r"version 3 cannot carry MetadataRequest\.allow_auto_topic_creation"):
        encode(MetadataRequest(allow_auto_topic_creation=False), 3)
    with pytest.raises(ValueError, match=r"version 14 cannot carry FetchRequest\.replica_state"):
        encode(FetchRequest(replica_state=ReplicaState(1, 1)), 14)
    with pytest.raises(ValueError, match=r"version 15 cannot carry FetchRequest\.replica_id"):
        encode(FetchRequest(replica_id=1), 15)


def test_null_is_refused_where_the_version_has_none() -> None:
    assert MetadataRequest.decode(Reader(encode(MetadataRequest(None), 1)), 1).topics is None
    with pytest.raises(ValueError, match=r"MetadataRequest\.topics cannot be null in version 0"):
        encode(MetadataRequest(None), 0)
    with pytest.raises(Malformed, match="null array"):
        MetadataRequest.decode(Reader(b"\xff\xff\xff\xff"), 0)


def test_a_nullable_struct_has_a_byte_that_says_so() -> None:
    without = encode(DescribeTopicPartitionsRequest(), 0)
    request = DescribeTopicPartitionsRequest(cursor=Cursor("t", 3))
    assert without.endswith(b"\xff\x00")
    assert encode(request, 0) == without[:-2] + b"\x01\x02t\x00\x00\x00\x03\x00" + b"\x00"
    assert DescribeTopicPartitionsRequest.decode(Reader(encode(request, 0)), 0) == request


def test_records_are_a_view_of_the_frame() -> None:
    partition = PartitionData(records=b"batch")
    frame = bytearray(encode(FetchResponse(responses=[FetchableTopicResponse("t", partitions=[partition])]), 4))
    (topic,) = FetchResponse.decode(Reader(frame), 4).responses
    records = topic.partitions[0].records
    assert isinstance(records, memoryview)
    assert records == b"batch"
    assert records.obj is frame


def test_lists_of_a_default_message_are_its_own() -> None:
    CreateTopicsRequest().topics.append(object())  # type: ignore[arg-type]
    assert CreateTopicsRequest().topics == []


def test_a_response_of_thousands_of_topics_comes_back() -> None:
    response = CreateTopicsResponse(topics=[CreatableTopicResult(f"topic-{number}") for number in range(4000)])
    assert CreateTopicsResponse.decode(Reader(encode(response, 7)), 7) == response
