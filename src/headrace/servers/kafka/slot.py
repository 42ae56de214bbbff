"""The line in which answers leave a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.network import Chunk


class Slot:
    """The place of one answer in the line; filled now or later."""

    __slots__ = ("chunks", "size")

    def __init__(self) -> None:
        self.chunks: Sequence[Chunk] | None = None
        self.size = 0
        """Bytes that count against the connection's limit while they wait here."""
