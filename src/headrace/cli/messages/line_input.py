"""Lines from files and from stdin, without keeping the event loop from its other work."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.terminal.complaints import Complaint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

CHUNK_BYTES = 256 * 1024
LINE_BYTES_MAX = 64 << 20  # no broker takes a message of this size; a file without line ends must not fill the memory
STDIN = 0


class Lines(NamedTuple):
    """A few lines that were read together."""

    source: str
    first_number: int
    lines: list[bytes]
    bytes_read: int


class LineSplitter:
    """Cuts chunks into lines. A line ends with a newline; the last one may lack it."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            self._rest += chunk
            return []
        lines = chunk.split(b"\n")
        lines[0] = bytes(self._rest) + lines[0]
        self._rest = bytearray(lines.pop())
        return lines

    def finish(self) -> list[bytes]:
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []

    @property
    def waiting_bytes(self) -> int:
        return len(self._rest)


async def read_lines(paths: Sequence[Path]) -> AsyncIterator[Lines]:
    """All lines of these files, one file after the other; of stdin if there are none."""
    if not paths:
        async for lines in _lines_of(STDIN, "stdin"):
            yield lines
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            async for lines in _lines_of(descriptor, str(path)):
                yield lines
        finally:
            os.close(descriptor)


async def _lines_of(descriptor: int, source: str) -> AsyncIterator[Lines]:
    splitter = LineSplitter()
    next_number = 1
    while chunk := await _read(descriptor):
        lines = splitter.feed(chunk)
        if splitter.waiting_bytes > LINE_BYTES_MAX:
            number = next_number + len(lines)
            raise Complaint(f"{source}, line {number}: longer than {LINE_BYTES_MAX:,} bytes, the most that is read")
        yield Lines(source, next_number, lines, len(chunk))
        next_number += len(lines)
    yield Lines(source, next_number, splitter.finish(), 0)


async def _read(descriptor: int) -> bytes:
    """The next bytes; empty at the end. A terminal or a pipe is waited for on the loop, a file is always ready."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, _wake, readable)
    except PermissionError:
        return os.read(descriptor, CHUNK_BYTES)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, CHUNK_BYTES)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
