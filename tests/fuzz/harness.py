"""What is fuzzed, and what must hold for any input: the same functions with atheris, and without it in `make test`.

A target takes any bytes and lets nothing out: it catches the exceptions that a decoder declares, and those alone. What
else comes out is a finding, as is an input that takes long or much memory.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.model.errors import ErrorCode, Refusal

SLOW_S = 1.0  # the processor's time: what a single input may take, on any machine that this is run on
JUMP_MB = 200  # what it may add to the most memory that the process has ever had


class Target(NamedTuple):
    name: str
    play: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    """Inputs to begin with, so that nobody has to guess what a message looks like."""
    bytes_max: int = 4_096
    share: float = 1.0
    """Of the inputs, compared with others."""


class TooSlow(AssertionError):
    pass


class TooLarge(AssertionError):
    pass


def judged(target: Target) -> Callable[[bytes], None]:
    """The target, with an eye on time and memory."""

    def play(data: bytes) -> None:
        began_s, before_kb = time.process_time(), _peak_kb()
        target.play(data)
        took_s, grown_mb = time.process_time() - began_s, (_peak_kb() - before_kb) / 1024
        if grown_mb > JUMP_MB:  # first: so much memory takes its time as well
            raise TooLarge(f"{grown_mb:.0f} MB more for {len(data)} bytes")
        if took_s > SLOW_S:
            raise TooSlow(f"{took_s:.1f} s for {len(data)} bytes")

    return play


def expect(refusal: Refusal, code: ErrorCode) -> None:
    assert refusal.code is code, refusal


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
