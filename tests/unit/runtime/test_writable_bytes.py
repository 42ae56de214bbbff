"""Memory that is written through a view and read as bytes."""

from __future__ import annotations

import gc
import socket

import pytest

from headrace.runtime.writable_bytes import writable_bytes


@pytest.mark.parametrize("size", [0, 1, 61, 16 * 1024, 5 << 20])
def test_what_is_written_is_what_is_read(size: int) -> None:
    content, view = writable_bytes(size)
    assert len(content) == len(view) == size
    assert bytes(content) == bytes(size)
    view[: size // 2] = b"x" * (size // 2)
    assert bytes(content) == b"x" * (size // 2) + bytes(size - size // 2)
    assert not view.readonly


def test_each_has_memory_of_its_own() -> None:
    made = [writable_bytes(1) for _ in range(300)]  # Python keeps one object for each single byte
    for number, (_, view) in enumerate(made):
        view[0] = number % 256
    assert [content[0] for content, _ in made] == [number % 256 for number in range(300)]
    assert bytes(1) == b"\0"


def test_a_view_keeps_the_memory_alive() -> None:
    piece = writable_bytes(100_000)[1][50_000:]
    gc.collect()
    others = [writable_bytes(100_000)[1] for _ in range(50)]
    for other in others:
        other[:] = b"o" * 100_000
    piece[:5] = b"alive"
    assert bytes(piece[:6]) == b"alive\0"


def test_a_socket_can_write_there() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"hello")
        content, view = writable_bytes(64)
        assert right.recv_into(view[10:]) == 5
    assert content[8:17] == b"\0\0hello\0\0"
