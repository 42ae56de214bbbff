"""Produce and Fetch have codecs of their own on the hot path; they must mean the same as the generated ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.names import TopicId
from headrace.wire.batches.examination import RecordError
from headrace.wire.fetch import FetchedPartition, encode_fetch_response
from headrace.wire.frames import decode_response, encode_response
from headrace.wire.messages.fetch import FetchResponse
from headrace.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headrace.wire.primitives import Malformed, Writer
from headrace.wire.produce import (
    ProduceOutcome,
    decode_one_batch,
    decode_produce,
    encode_one_success,
    encode_outcome,
    encode_produce_response,
    with_throttle,
)

names = st.text(min_size=1, max_size=20)
ids = st.binary(min_size=16, max_size=16)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
produce_versions = st.integers(3, 13)
requested = st.lists(
    st.tuples(names, ids, st.lists(st.tuples(int32, st.none() | st.binary(max_size=200)), max_size=3)), max_size=3
)


def produce_request(version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: list) -> bytes:
    message = ProduceRequest(
        transactional_id,
        acks,
        timeout_ms,
        [
            TopicProduceData(
                name=name if version < 13 else "",
                topic_id=TopicId(topic_id) if version >= 13 else TopicId(bytes(16)),
                partition_data=[PartitionProduceData(index, records) for index, records in partitions],
            )
            for name, topic_id, partitions in topics
        ],
    )
    writer = Writer()
    message.encode(writer, version)
    return bytes(writer.buffer)


@given(produce_versions, st.none() | names, int16, int32, requested, st.binary(max_size=9))
def test_a_produce_request_is_read_alike(version, transactional_id, acks, timeout_ms, topics, rest):
    body = produce_request(version, transactional_id, acks, timeout_ms, topics)
    frame = bytearray(b"before" + body + rest)

    decoded = decode_produce(frame, 6, 6 + len(body), version)

    assert decoded[:3] == (transactional_id, acks, timeout_ms)
    assert len(decoded[3]) == len(topics)
    for (key, parts), (name, topic_id, partitions) in zip(decoded[3], topics, strict=True):
        assert key == (name if version < 13 else topic_id)
        for part, (index, records) in zip(parts, partitions, strict=True):
            partition, start, size = part
            assert partition == index
            assert size == (-1 if records is None else len(records))
            if records:
                assert frame[start : start + size] == records


@given(produce_versions, int16, int32, names, ids, int32, st.binary(max_size=200), st.binary(max_size=9))
def test_one_batch_is_read_alike(version, acks, timeout_ms, name, topic_id, index, records, rest):
    body = produce_request(version, None, acks, timeout_ms, [(name, topic_id, [(index, records)])])
    header_tags = b"" if version < 9 else b"\x00"
    frame = bytearray(b"before" + header_tags + body + rest)
    one = decode_one_batch(frame, 6, 6 + len(header_tags) + len(body), version)
    assert one is not None
    assert one[:4] == (acks, timeout_ms, name if version < 13 else topic_id, index)
    assert frame[one[4] : one[4] + one[5]] == records


@given(produce_versions, int16, int32, names, ids, int32, st.binary(max_size=60), st.data())
def test_one_batch_is_never_read_differently(version, acks, timeout_ms, name, topic_id, index, records, data):
    body = bytearray(produce_request(version, None, acks, timeout_ms, [(name, topic_id, [(index, records)])]))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    header_tags = b"" if version < 9 else b"\x00"
    end = len(header_tags) + data.draw(st.integers(0, len(body)))
    frame = bytearray(header_tags + body)
    one = decode_one_batch(frame, 0, end, version)
    if one is not None:
        acks, timeout_ms, topic, partition, start, size = one
        decoded = decode_produce(frame, len(header_tags), end, version)
        assert decoded == (None, acks, timeout_ms, [(topic, [(partition, start, size)])])


@given(produce_versions, requested, st.data())
def test_a_cut_produce_request_is_refused(version, topics, data):
    body = produce_request(version, None, 1, 1000, topics)
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(Malformed):
        decode_produce(bytearray(body), 0, end, version)


@given(produce_versions, st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(version, body):
    try:
        request = decode_produce(bytearray(body), 0, len(body), version)
    except Malformed:
        return
    for _, parts in request[3]:
        for _, start, size in parts:
            assert start + max(size, 0) <= len(body)


outcomes = st.builds(
    ProduceOutcome,
    int32,
    int16,
    int64,
    int64,
    int64,
    st.lists(st.builds(RecordError, int32, st.none() | names), max_size=2),
    st.none() | names,
)


@given(produce_versions, int32, st.lists(st.tuples(names, ids, st.lists(outcomes, max_size=3)), max_size=3))
def test_a_produce_response_is_written_alike(version, correlation_id, topics):
    hot = encode_produce_response(
        correlation_id,
        version,
        [
            (name if version < 13 else topic_id, [encode_outcome(version, result) for result in results])
            for name, topic_id, results in topics
        ],
    )

    general = ProduceResponse(
        [
            TopicProduceResponse(
                name=name if version < 13 else "",
                topic_id=TopicId(topic_id) if version >= 13 else TopicId(bytes(16)),
                partition_responses=[
                    PartitionProduceResponse(
                        index=outcome.partition,
                        error_code=outcome.error_code,
                        base_offset=outcome.base_offset,
                        log_append_time_ms=outcome.log_append_time_ms,
                        log_start_offset=outcome.log_start_offset,
                        record_errors=[BatchIndexAndErrorMessage(*error) for error in outcome.record_errors],
                        error_message=outcome.error_message,
                    )
                    for outcome in results
                ],
            )
            for name, topic_id, results in topics
        ]
    )
    assert hot == encode_response(correlation_id, 0, version, general)


@dataclass
class Records:
    """Stands for a slice of a file."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)


fetched = st.builds(
    FetchedPartition,
    int32,
    int16,
    int64,
    int64,
    int64,
    st.none() | st.builds(Records, st.binary(max_size=300)),
    st.none() | st.lists(st.tuples(int64, int64), max_size=2),
    st.none() | st.tuples(int32, int64),
    st.booleans(),
)


@given(
    st.integers(4, 18),
    int32,
    st.lists(st.tuples(names, ids, st.lists(fetched, max_size=3)), max_size=3),
    int16,
    int32,
    int32,
)
def test_a_fetch_response_is_written_alike(version, correlation_id, topics, error_code, session_id, throttle_ms):
    chunks = encode_fetch_response(
        correlation_id,
        version,
        [(name if version < 13 else topic_id, parts) for name, topic_id, parts in topics],
        error_code=error_code,
        session_id=session_id,
        throttle_ms=throttle_ms,
    )
    frame = b"".join(chunk if isinstance(chunk, bytes) else chunk.content for chunk in chunks)

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    answered_id, response = decode_response(frame[4:], 1, version)
    assert answered_id == correlation_id
    assert isinstance(response, FetchResponse)
    assert response.throttle_time_ms == throttle_ms
    if version >= 7:
        assert (response.error_code, response.session_id) == (error_code, session_id)
    for answered, (name, topic_id, parts) in zip(response.responses, topics, strict=True):
        assert (answered.topic if version < 13 else answered.topic_id) == (name if version < 13 else topic_id)
        for got, part in zip(answered.partitions, parts, strict=True):
            assert got.partition_index == part.partition
            assert got.error_code == part.error_code
            assert got.high_watermark == part.high_watermark
            assert got.last_stable_offset == part.last_stable_offset
            assert got.preferred_read_replica == -1
            if version >= 5:
                assert got.log_start_offset == part.log_start_offset
            aborted = got.aborted_transactions
            assert (
                aborted and [(each.producer_id, each.first_offset) for each in aborted]
            ) == part.aborted_transactions
            assert bytes(got.records or b"") == (part.records.content if part.records else b"")
            told = part.diverging if version >= 12 else None
            assert (got.diverging_epoch.epoch, got.diverging_epoch.end_offset) == (told or (-1, -1))
            assert got.may_have_gaps == (part.may_have_gaps and version >= 12 and told is None)


@given(produce_versions, int32, names, ids, int32, int64, int64, int64)
def test_one_success_is_written_alike(version, correlation_id, name, topic_id, partition, base, time, start):
    topic = name if version < 13 else topic_id
    outcome = encode_outcome(version, ProduceOutcome(partition, 0, base, time, start))
    one = encode_one_success(correlation_id, version, topic, partition, (base, time, start))
    assert one == encode_produce_response(correlation_id, version, [(topic, [outcome])])


@given(produce_versions, st.integers(0, 2**31 - 1), names, ids, st.lists(outcomes, max_size=3))
def test_a_client_is_told_to_wait_and_else_the_same(version, throttle_ms, name, topic_id, results):
    topic = name if version < 13 else topic_id
    told = encode_produce_response(1, version, [(topic, [encode_outcome(version, result) for result in results])])
    _, before = decode_response(told[4:], 0, version)
    _, after = decode_response(with_throttle(told, version, throttle_ms)[4:], 0, version)
    assert after == replace(before, throttle_time_ms=throttle_ms)
