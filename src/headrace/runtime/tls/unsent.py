"""What waits to be encrypted on one connection."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.runtime.disk import FileSlice
from headrace.runtime.network import release_slices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.runtime.network import Chunk

PIECE: Final = 64 << 10  # bytes that are encrypted at once: four records; larger pieces only take more memory


class Unsent:
    """Byte strings and file slices, in order."""

    __slots__ = ("_chunks", "size")

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self.size = 0
        """Bytes of all of them."""

    def add(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            size = chunk.size if type(chunk) is FileSlice else len(chunk)  # type: ignore[arg-type]  # mypy does not narrow by `type`
            if size:
                self._chunks.append(chunk)
                self.size += size
            else:
                release_slices((chunk,))

    def next_piece(self) -> bytes | bytearray | memoryview:
        """Take some; small chunks together, for each record of TLS has its price. Raises ReadFault if the first
        slice cannot be read."""
        chunks, left = self._chunks, PIECE
        parts: list[bytes | bytearray | memoryview] = []
        while chunks and left:
            chunk = chunks[0]
            if isinstance(chunk, FileSlice):
                part: bytes | bytearray | memoryview = self._part_of_slice(chunk, left)
            elif len(chunk) <= left:
                part = chunk
                chunks.popleft()
            else:
                view = memoryview(chunk)
                part, chunks[0] = view[:left], view[left:]
            left -= len(part)
            parts.append(part)
        piece = parts[0] if len(parts) == 1 else b"".join(parts)
        self.size -= len(piece)
        return piece

    def _part_of_slice(self, chunk: FileSlice, size_max: int) -> bytes:
        if not chunk.is_current:
            raise ConnectionAbortedError("the log was cut while its bytes were on their way out")
        part = chunk.file.read(chunk.position, min(chunk.size, size_max))
        if not part:
            raise ConnectionAbortedError("the log is shorter than the slice that was promised")
        chunk.position += len(part)
        chunk.size -= len(part)
        if chunk.size == 0:
            self._chunks.popleft()
            chunk.release()
        return part

    @property
    def first_slice(self) -> FileSlice:
        """What could not be read."""
        chunk = self._chunks[0]
        assert isinstance(chunk, FileSlice)
        return chunk

    def drop(self) -> None:
        release_slices(self._chunks)
        self._chunks.clear()
        self.size = 0
