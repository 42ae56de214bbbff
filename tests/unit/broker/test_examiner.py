"""Who opens batches beside the loop: what goes where, and what comes back."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, TypeVar

import pytest

from headrace.broker.partitions import examiner
from headrace.broker.partitions.examiner import Examiner
from headrace.model.errors import ErrorCode
from headrace.runtime.clock import SystemClock
from headrace.runtime.threads import GENERAL, SystemThreads
from headrace.wire.batches.examination import SLICE_STEPS, Demands, Examined, Rejected, Unopened
from headrace.wire.batches.header import Codec, read_header
from headrace.wire.batches.records import encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.runtime.clock import Clock

T = TypeVar("T")

MIB = 1 << 20
HERE = "127.0.0.1"


class NotedThreads(SystemThreads):
    """Real threads that say in which lane each call was made."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[str] = []

    async def run(self, call: Callable[[], T], *, lane: str = GENERAL) -> T:
        self.lanes.append(lane)
        return await super().run(call, lane=lane)


@pytest.fixture
def threads() -> Iterator[NotedThreads]:
    threads = NotedThreads()
    yield threads
    threads.close()


def examiner_with(threads: SystemThreads, clock: Clock | None = None) -> Examiner:
    return Examiner(threads, clock or SystemClock())


def unopened(value_bytes: int, codec: Codec = Codec.ZSTD, demands: Demands = Demands()) -> Unopened:  # noqa: B008
    batch = memoryview(encode_batch([(1000, None, bytes(value_bytes), ())], codec=codec))
    return Unopened(batch, read_header(batch), demands)


async def test_most_batches_are_done_in_a_quick_thread(threads: NotedThreads) -> None:
    (found,) = await examiner_with(threads).examine([unopened(MIB)], HERE)
    assert isinstance(found, Examined)
    assert found.newest_ms == 1000
    assert threads.lanes == ["examine-0"]


async def test_what_unfolds_far_goes_on_in_the_slow_thread(threads: NotedThreads) -> None:
    found = await examiner_with(threads).examine([unopened(1), unopened(9 * MIB), unopened(2)], HERE)
    assert [type(one) for one in found] == [Examined, Examined], "after a slow one the turn is over"
    assert threads.lanes == ["examine-0", "examine-slowly"]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
async def test_what_unfolds_too_far_is_too_large(threads: NotedThreads, codec: Codec) -> None:
    (found,) = await examiner_with(threads).examine([unopened(65 * MIB, codec)], HERE)
    assert isinstance(found, Rejected)
    assert found.code is ErrorCode.MESSAGE_TOO_LARGE


async def test_many_records_go_on_in_the_slow_thread(threads: NotedThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examiner, "QUICK_RECORDS", 10)
    batch = memoryview(encode_batch([(1, None, None, ())] * 11, codec=Codec.LZ4))
    await examiner_with(threads).examine([Unopened(batch, read_header(batch), Demands())], HERE)
    assert threads.lanes == ["examine-0", "examine-slowly"]


async def test_each_batch_hears_its_own_answer(threads: NotedThreads) -> None:
    needs_keys = Demands(needs_keys=True)
    found = await examiner_with(threads).examine([unopened(10), unopened(10, demands=needs_keys), unopened(20)], HERE)
    assert [type(one) for one in found] == [Examined, Rejected, Examined]
    refused = found[1]
    assert isinstance(refused, Rejected)
    assert [error.batch_index for error in refused.record_errors] == [0]


async def test_what_a_topic_wants_in_another_codec_comes_back_in_it(threads: NotedThreads) -> None:
    (found,) = await examiner_with(threads).examine([unopened(5 * MIB, demands=Demands(codec=Codec.NONE))], HERE)
    assert isinstance(found, Examined)
    assert found.repacked is not None
    assert len(found.repacked) > 5 * MIB


class HastyClock(SystemClock):
    """Time flies: every look at it finds that a turn's time has passed."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        self._now_s += examiner.QUICK_S
        return self._now_s


async def test_a_turn_ends_after_a_while(threads: NotedThreads) -> None:
    found = await examiner_with(threads, HastyClock()).examine([unopened(1), unopened(2)], HERE)
    assert len(found) == 1, "the others wait for the next turn, and somebody else may come first"


async def test_a_turn_ends_when_much_was_packed_anew(threads: NotedThreads) -> None:
    plain = Demands(codec=Codec.NONE)
    batches = [unopened(3 * MIB, demands=plain) for _ in range(4)]
    looks = examiner._Job(batches, examiner_with(threads)._quick, StandingClock()).run()
    assert len(looks) == 2


class StandingClock(SystemClock):
    def monotonic_s(self) -> float:
        return 0.0


class BreathlessThreads(NotedThreads):
    """Whoever pauses in a thread is held there."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused, self.may_go_on = Event(), Event()

    def breathe(self) -> None:
        self.is_paused.set()
        assert self.may_go_on.wait(30), "nobody let it go on"


async def test_whoever_is_cancelled_has_nobody_looking_at_his_bytes() -> None:
    """And does not wait for the end of a long look: the walk stops at its next pause."""
    threads = BreathlessThreads()
    batch = memoryview(encode_batch([(1, None, None, ())] * (SLICE_STEPS * 50), codec=Codec.ZSTD))
    look = asyncio.create_task(examiner_with(threads).examine([Unopened(batch, read_header(batch), Demands())], HERE))
    await asyncio.to_thread(threads.is_paused.wait, 30)
    look.cancel()
    await asyncio.sleep(0)
    assert not look.done(), "a thread still reads the bytes"
    threads.is_paused.clear()
    threads.may_go_on.set()
    with suppress(asyncio.CancelledError):
        await look
    assert look.cancelled()
    assert not threads.is_paused.is_set(), "it went on to another pause"
    threads.close()


async def test_nobody_holds_a_clients_bytes_after_the_look(threads: NotedThreads) -> None:
    """Not even until the garbage is collected: that may be after gigabytes."""
    received = Received(bytes(unopened(10_000).batch))
    one = Unopened(memoryview(received), read_header(memoryview(received)), Demands())
    gone = weakref.ref(received)
    gc.disable()
    try:
        await examiner_with(threads).examine([one], HERE)
        del received, one
        async with asyncio.timeout(20):
            while gone() is not None:  # the thread that looked may hold it for a moment longer
                await asyncio.sleep(0.001)
    finally:
        gc.enable()


class Received(bytearray):
    """Memory of which one can ask whether it is still there."""

    __slots__ = ("__weakref__",)


class NoThreads(NotedThreads):
    """Whose calls take one turn of the loop each: nothing but the order of turns decides who is done first."""

    async def run(self, call: Callable[[], T], *, lane: str = GENERAL) -> T:
        self.lanes.append(lane)
        await asyncio.sleep(0)
        return call()


async def test_addresses_take_turns() -> None:
    """Somebody with many requests waits behind his own."""
    one = examiner_with(NoThreads())
    done: list[str] = []

    async def ask(address: str) -> None:
        await one.examine([unopened(1)], address)
        done.append(address)

    await asyncio.gather(*(ask("greedy") for _ in range(20)), ask("modest"))
    assert done.index("modest") <= 2 * examiner.QUICK_THREADS
