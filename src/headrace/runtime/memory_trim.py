"""Gives memory that was freed back to the system: a thread looks how much the process has, and asks the C library.

An attack or a burst of large requests leaves holes between what lives on. The C library keeps them for later, and the
node would seem to need for ever what it needed once. Only glibc has to be asked; elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S: Final = 5.0
GROWN_BYTES: Final = 16 << 20  # less is not worth the milliseconds in which whoever wants memory waits
LOOKS_MAX: Final = 64  # five minutes: a node that has grown for good need not be asked more often
RESIDENT: Final = Path("/proc/self/statm")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """What this process has of the machine's memory; 0 where the system does not say."""
    try:
        return int(RESIDENT.read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def glibc_trim() -> Callable[[int], int] | None:
    """What gives back every page on which nothing lives, in all arenas; None where the C library has no such call."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


class MemoryTrim:
    """Looks from a thread of its own: the loop neither reads files nor waits for the C library."""

    def __init__(self, look_s: float = LOOK_S) -> None:
        self._look_s = look_s
        self._trim = glibc_trim()
        self._least_bytes = self._left_bytes = resident_bytes()
        """The least that the process ever had, and what it had after it was last asked."""
        self._looks_left, self._pause_looks = 0, 1
        """Until it is asked again although it has not grown since: what was in use then may be free by now."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headrace-memory", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(self._look_s):
            self.look()

    def look(self) -> None:
        resident = resident_bytes()
        self._least_bytes = min(self._least_bytes, resident)
        self._left_bytes = min(self._left_bytes, resident)
        if self._trim is None or resident <= self._least_bytes + GROWN_BYTES:
            return
        if resident > self._left_bytes + GROWN_BYTES:
            self._pause_looks = 1
        elif self._looks_left > 0:
            self._looks_left -= 1
            return
        self._trim(0)
        self._left_bytes = resident_bytes()
        self._looks_left, self._pause_looks = self._pause_looks, min(2 * self._pause_looks, LOOKS_MAX)
