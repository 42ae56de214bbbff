"""Memory that arrives from a socket and is read by compiled code.

Compiled code reads `bytes` twenty times as fast as any other buffer, and a socket writes only into what may be changed.
To copy what has come from the one into the other would cost as much as to look at it. So this is a `bytes` object, for
whoever looks, and a view of the same memory, for whoever writes. Nobody else has seen the object before, nobody hashes
it, and every view keeps it alive.
"""

from __future__ import annotations

import sys
from ctypes import c_char
from typing import Final

_HEADER: Final = sys.getsizeof(b"") - 1
"""Where the content of a `bytes` object begins in CPython; behind it lies one byte more, which is zero."""
_IS_CPYTHON: Final = sys.implementation.name == "cpython"


def writable_bytes(size: int) -> tuple[bytes | bytearray, memoryview]:
    """So many bytes, all zero, and a view through which they can be changed.

    Pages come from the system as they are written to, so what is never used costs nothing.
    """
    if not _IS_CPYTHON or not size:
        other = bytearray(size)
        return other, memoryview(other)
    content = bytes(size)
    window = (c_char * size).from_address(id(content) + _HEADER)
    window.content = content  # type: ignore[attr-defined]  # any attribute may be set; this one holds on to the memory
    return content, memoryview(window).cast("B")
