"""The receive buffer: frames come out as they were sent, and memory follows the bytes that really came."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.servers.kafka.connections.receive_buffer import GROWTH, KEPT_MAX, LARGE_FRAME, SMALL, ReceiveBuffer

LENGTH = struct.Struct(">i")


def frame(size: int, fill: int = 1) -> bytes:
    return LENGTH.pack(size) + bytes([fill]) * size


def pour(buffer: ReceiveBuffer, raw: bytes, piece_max: int = 1 << 30) -> list[bytes]:
    """Receive bytes as a connection does, in pieces of at most `piece_max`; returns the frames that became whole."""
    frames = []
    position = 0
    while position < len(raw):
        room = buffer.room()
        assert len(room) > 0
        piece = raw[position : position + min(piece_max, len(room))]
        room[: len(piece)] = piece
        buffer.filled(len(piece))
        position += len(piece)
        while buffer.end - buffer.start >= 4:
            size = 4 + LENGTH.unpack_from(buffer.raw, buffer.start)[0]
            if buffer.start + size > buffer.end:
                break
            frames.append(bytes(buffer.view[buffer.start : buffer.start + size]))
            buffer.start += size
    return frames


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@given(
    sizes=st.lists(st.integers(8, 3 * LARGE_FRAME), max_size=12),
    piece_max=st.sampled_from([1 << 10, 5000, SMALL, LARGE_FRAME, 1 << 30]),
)
def test_frames_come_out_as_they_went_in(sizes: list[int], piece_max: int) -> None:
    frames = [frame(size, number) for number, size in enumerate(sizes)]
    assert pour(ReceiveBuffer(), b"".join(frames), piece_max) == frames


@given(sizes=st.lists(st.integers(8, 40), min_size=1, max_size=30), pieces=st.integers(1, 13))
def test_small_frames_come_out_however_they_are_cut(sizes: list[int], pieces: int) -> None:
    frames = [frame(size, number) for number, size in enumerate(sizes)]
    assert pour(ReceiveBuffer(), b"".join(frames), pieces) == frames


def test_a_silent_connection_has_no_memory() -> None:
    assert ReceiveBuffer().capacity == 0


@pytest.mark.parametrize("sent", [4, 1000, SMALL, SMALL + 1, 200_000, 3_000_000])
def test_memory_follows_what_was_sent_and_not_what_was_announced(sent: int) -> None:
    buffer = ReceiveBuffer()
    pour(buffer, LENGTH.pack(100 << 20) + bytes(sent - 4), 10_000)
    buffer.room()
    assert buffer.end - buffer.start == sent
    assert buffer.capacity <= max(SMALL, GROWTH * sent)


def test_a_huge_frame_takes_pages_as_they_are_written() -> None:
    buffer = ReceiveBuffer()
    before = resident_bytes()
    pour(buffer, LENGTH.pack(500 << 20) + bytes(5 << 20), 1 << 20)
    buffer.room()
    assert buffer.capacity == 4 + (500 << 20)
    assert resident_bytes() - before < 50 << 20


def test_a_large_frame_is_read_to_its_end_and_not_beyond() -> None:
    buffer = ReceiveBuffer()
    big = frame(LARGE_FRAME + 10)
    pour(buffer, big[:SMALL])
    received = SMALL
    while received < len(big):
        room = buffer.room()
        received += len(room)
        buffer.filled(len(room))
    assert received == len(big)


def test_a_buffer_that_fits_is_used_again() -> None:
    buffer = ReceiveBuffer()
    pour(buffer, frame(1 << 20))
    raw = buffer.raw
    pour(buffer, frame(1 << 20))
    assert buffer.raw is raw


def test_what_grew_very_large_goes_as_soon_as_it_is_empty() -> None:
    buffer = ReceiveBuffer()
    pour(buffer, frame(KEPT_MAX + 1))
    assert buffer.capacity > KEPT_MAX
    buffer.room()
    assert buffer.capacity == SMALL


def test_huge_frames_of_several_clients_do_not_mix() -> None:
    one, other = ReceiveBuffer(), ReceiveBuffer()
    frames = [LENGTH.pack(8 << 20) + bytes([number]) * (8 << 20) for number in (1, 2)]
    found: list[list[bytes]] = [[], []]
    for position in range(0, len(frames[0]), 300_000):
        for number, buffer in enumerate((one, other)):
            found[number] += pour(buffer, frames[number][position : position + 300_000])
    assert found == [[frames[0]], [frames[1]]]


def test_memory_that_was_not_used_for_a_while_is_given_back() -> None:
    buffer = ReceiveBuffer()
    pour(buffer, frame(1 << 20))
    buffer.shrink()
    assert buffer.capacity > 1 << 20, "it has just been used"
    pour(buffer, frame(100))
    buffer.shrink()
    assert buffer.capacity == SMALL, "a client that still speaks, but no longer in large frames"
    buffer.shrink()
    assert buffer.capacity == 0, "a client that is silent"
    assert pour(buffer, frame(100)) == [frame(100)]


def test_what_waits_is_never_given_back() -> None:
    buffer = ReceiveBuffer()
    pour(buffer, frame(200_000)[:150_000])
    for _ in range(3):
        buffer.shrink()
    assert pour(buffer, frame(200_000)[150_000:]) == [frame(200_000)]


def test_forgetting_drops_even_what_waits() -> None:
    buffer = ReceiveBuffer()
    pour(buffer, frame(1000)[:500])
    buffer.forget()
    assert (buffer.capacity, buffer.start, buffer.end) == (0, 0, 0)


def test_it_knows_that_it_is_inside_a_large_frame():
    buffer = ReceiveBuffer()
    frame = (200_000).to_bytes(4, "big") + bytes(200_000)
    _fill(buffer, frame[:10])
    assert not buffer.is_inside_a_frame  # its length was not looked at yet
    sent = 10
    while sent < len(frame):
        room = buffer.room()
        count = min(len(room), 30_000, len(frame) - sent)
        room[:count] = frame[sent : sent + count]
        buffer.filled(count)
        sent += count
        assert buffer.is_inside_a_frame == (sent < len(frame))
    buffer.start = buffer.end
    _fill(buffer, b"\x00\x00")
    assert not buffer.is_inside_a_frame


def _fill(buffer: ReceiveBuffer, content: bytes) -> None:
    buffer.room()[: len(content)] = content
    buffer.filled(len(content))
