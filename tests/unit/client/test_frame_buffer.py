from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.frame_buffer import SHARED_SIZE, FrameBuffer
from headrace.wire.primitives import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = (0, 1, 3, 4, 5, 700, SHARED_SIZE - 5, SHARED_SIZE - 4, SHARED_SIZE - 3, SHARED_SIZE, SHARED_SIZE * 3 + 1, 2)


def content(size: int) -> bytes:
    return bytes(position % 251 for position in range(size))


def stream() -> bytes:
    return b"".join(size.to_bytes(4, "big") + content(size) for size in SIZES)


def frames_of(buffer: FrameBuffer, sent: bytes, piece: int) -> Iterator[bytes]:
    """Feed the stream as a socket would: as much as there is room for, at most `piece` bytes at a time."""
    position = 0
    while position < len(sent):
        room = buffer.room()
        assert len(room) > 0
        count = min(piece, len(room), len(sent) - position)
        room[:count] = sent[position : position + count]
        position += count
        for frame in buffer.received(count):
            yield bytes(frame)


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 1000, SHARED_SIZE, 10**9])
def test_frames_come_out_whole_however_the_stream_is_cut(piece: int) -> None:
    if piece == 1:
        sent = b"".join(size.to_bytes(4, "big") + content(size) for size in (0, 1, 7, 300))
        expected = [content(size) for size in (0, 1, 7, 300)]
    else:
        sent, expected = stream(), [content(size) for size in SIZES]
    assert list(frames_of(FrameBuffer(), sent, piece)) == expected


def test_a_frame_stays_as_it_was_when_the_next_ones_arrive() -> None:
    buffer = FrameBuffer()
    kept: list[memoryview] = []
    for letter in (b"a", b"b", b"c"):
        sent = (10).to_bytes(4, "big") + letter * 10
        buffer.room()[: len(sent)] = sent
        kept += buffer.received(len(sent))
    assert [bytes(frame) for frame in kept] == [b"a" * 10, b"b" * 10, b"c" * 10]


@pytest.mark.parametrize("length", [-1, 1025, 2**31 - 1])
def test_a_length_out_of_bounds_is_refused_before_memory_is_made(length: int) -> None:
    buffer = FrameBuffer(bytes_max=1024)
    buffer.room()[:4] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(Malformed, match="expected 0 to 1024"):
        list(buffer.received(4))
