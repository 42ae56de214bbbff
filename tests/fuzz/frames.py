"""The bytes of a connection: how they arrive, are cut into frames, and what Produce makes of them in place.

An input begins with a byte that says in what pieces the rest arrives.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headrace.client.connections.frame_buffer import FrameBuffer
from headrace.servers.kafka.connections.receive_buffer import BUSY, GROWTH, ReceiveBuffer
from headrace.wire.api import APIS, ApiKey
from headrace.wire.frames import (
    LENGTH_SIZE,
    RequestHeader,
    decode_request_header,
    encode_request,
    frame_length,
)
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.primitives import Malformed, Reader
from headrace.wire.produce import decode_one_batch, decode_produce
from tests.fuzz.harness import Target
from tests.fuzz.messages import CLASSES, REQUEST, play_message

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_MAX: Final = 1 << 17  # enough for what is large to everybody, and soon made
PIECES: Final = (1 << 20, 1, 3, 7, 64, 1000)
PRODUCE: Final = APIS[ApiKey.PRODUCE]
CLIENT_ID: Final = struct.Struct(">h")


def play(data: bytes) -> None:
    if not data:
        return
    stream, piece = data[1:], PIECES[data[0] % len(PIECES)]
    found, is_sound = cut_at_once(stream)
    assert cut_as_a_node_does(stream, piece) == (found, is_sound)
    assert cut_as_a_client_does(stream, piece) == (found, is_sound)
    for frame in found:
        play_frame(frame)


def cut_at_once(stream: bytes) -> tuple[list[bytes], bool]:
    """Every whole frame, and whether none after them claims what it may not."""
    found, position = [], 0
    while len(stream) - position >= LENGTH_SIZE:
        try:
            end = position + LENGTH_SIZE + frame_length(stream, position, FRAME_MAX)
        except Malformed:
            return found, False
        if end > len(stream):
            break
        found.append(stream[position + LENGTH_SIZE : end])
        position = end
    return found, True


def cut_as_a_node_does(stream: bytes, piece: int) -> tuple[list[bytes], bool]:
    buffer, found, received = ReceiveBuffer(), [], 0
    while received < len(stream):
        room = buffer.room()
        assert len(room) > 0
        count = min(len(room), piece, len(stream) - received)
        room[:count] = stream[received : received + count]
        buffer.filled(count)
        received += count
        assert buffer.capacity <= max(BUSY, GROWTH * received), "it takes more than it was sent"
        while buffer.end - buffer.start >= LENGTH_SIZE:
            try:
                length = frame_length(buffer.raw, buffer.start, FRAME_MAX)
            except Malformed:
                return found, False
            end = buffer.start + LENGTH_SIZE + length
            if end > buffer.end:
                break
            found.append(bytes(buffer.raw[buffer.start + LENGTH_SIZE : end]))
            buffer.start = end
    return found, True


def cut_as_a_client_does(stream: bytes, piece: int) -> tuple[list[bytes], bool]:
    buffer, found, received = FrameBuffer(FRAME_MAX), [], 0
    while received < len(stream):
        room = buffer.room()
        assert len(room) > 0
        count = min(len(room), piece, len(stream) - received)
        room[:count] = stream[received : received + count]
        received += count
        try:
            for frame in buffer.received(count):
                found.append(bytes(frame))  # noqa: PERF401 - those before the nonsense count
        except Malformed:
            return found, False
    return found, True


def play_frame(frame: bytes) -> None:
    try:
        reader = Reader(frame)
        header = decode_request_header(reader)
    except Malformed:
        return
    if header.api_key == ApiKey.PRODUCE and PRODUCE.serves(header.api_version):
        play_produce(frame, reader.position, header)
    play_message(CLASSES[REQUEST].get(header.api_key), header.api_version, frame[reader.position :])


def play_produce(frame: bytes, body_start: int, header: RequestHeader) -> None:
    """The hot paths read what the general one reads, or leave it alone."""
    version, buffer = header.api_version, bytearray(frame)
    try:
        one = decode_one_batch(buffer, _after_client_id(frame), len(buffer), version)
        is_refused = False
    except Malformed:
        one, is_refused = None, True
    try:
        whole = decode_produce(buffer, body_start, len(buffer), version)
    except Malformed:
        assert one is None, "the quick way took what the general one refuses"
        return
    assert not is_refused, "the quick way refuses what the general one takes"
    if one is not None:
        acks, timeout_ms, topic, *place = one
        assert whole == (None, acks, timeout_ms, [(topic, [tuple(place)])])


def _after_client_id(frame: bytes) -> int:
    """Where the quick way begins: it has not looked at the header's tags."""
    (size,) = CLIENT_ID.unpack_from(frame, 8)
    return 10 + max(size, 0)


def seeds() -> Iterator[bytes]:
    batch = bytes(range(61))
    for version in range(PRODUCE.version_min, PRODUCE.version_max + 1):
        part = PartitionProduceData(0, batch)
        name = {"topic_id": bytes(16)} if version >= 13 else {"name": "t"}
        for topics in ([], [TopicProduceData(**name, partition_data=[part])], [TopicProduceData(**name)] * 2):
            request = ProduceRequest(None, -1, 1000, topics)
            yield b"\0" + encode_request(RequestHeader(ApiKey.PRODUCE, version, 1, "c"), request)
    for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FETCH):
        version = APIS[key].version_max
        framed = encode_request(RequestHeader(key, version, 1, "client"), CLASSES[REQUEST][key]())
        yield b"\1" + framed + framed
    yield b"\0" + (2**31 - 1).to_bytes(4)
    yield b"\2" + (70_000).to_bytes(4) + bytes(3000)


TARGET: Final = Target("frames", play, seeds, bytes_max=1_024)
