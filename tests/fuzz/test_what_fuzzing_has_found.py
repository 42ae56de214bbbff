"""Every input that a campaign has kept, once more: what it found stays mended, and its targets stay true."""

from __future__ import annotations

import resource
import time

import pytest

from tests.fuzz.corpus_files import kept
from tests.fuzz.harness import JUMP_MB, SLOW_S, Target, TooLarge, TooSlow, judged
from tests.fuzz.targets import NAMES, target_named


@pytest.mark.parametrize("name", NAMES)
def test_seeds_and_corpus(name: str) -> None:
    target = target_named(name)
    play = judged(target)
    inputs = [*target.seeds(), *kept(name)]
    assert len(inputs) > len(list(target.seeds())), "nothing was kept"
    for data in inputs:
        try:
            play(data)
        except Exception as error:
            raise AssertionError(f"{name}: {data.hex()}") from error


@pytest.mark.parametrize("name", NAMES)
def test_inputs_cut_short(name: str) -> None:
    """Without a fuzzer: every seed ends anywhere."""
    target = target_named(name)
    for seed in list(target.seeds())[::7]:
        for end in range(0, len(seed), max(1, len(seed) // 10)):
            target.play(seed[:end])


def test_what_takes_long_is_a_finding() -> None:
    def spin(_: bytes) -> None:
        began_s = time.process_time()
        while time.process_time() - began_s <= SLOW_S:
            pass

    with pytest.raises(TooSlow):
        judged(Target("slow", spin, tuple))(b"")


def test_what_takes_much_memory_is_a_finding() -> None:
    so_far = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with pytest.raises(TooLarge):
        judged(Target("large", lambda _: bytearray(so_far + (JUMP_MB << 20)) and None, tuple))(b"")
