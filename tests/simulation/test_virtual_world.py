"""The simulator itself: time, faults and repeatability."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.runtime.network import Address
from headrace.simulation.environment.life import HostIsDown
from headrace.simulation.environment.loop import Deadlock, Livelock, OutOfTime
from headrace.simulation.environment.threads import SimulatedThreads
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ring_of_hosts import ring

if TYPE_CHECKING:
    from headrace.runtime.network import Link
    from headrace.runtime.world import World

ROOT = Path(__file__).parents[2]


# Time.


def test_years_pass_at_once_and_in_order() -> None:
    async def main(universe: Universe) -> list[tuple[int, float]]:
        woken: list[tuple[int, float]] = []

        async def sleep(years: int) -> None:
            await asyncio.sleep(years * 31_556_952.0)
            woken.append((years, universe.loop.time() / 31_556_952.0))

        await asyncio.gather(*map(sleep, (50, 1, 7)))
        return woken

    assert run(main, seed=1) == [(1, 1.0), (7, 7.0), (50, 50.0)]


def test_a_wall_clock_can_be_wrong_and_jump() -> None:
    async def main(universe: Universe) -> None:
        right, wrong = universe.host("right").clock, universe.host("wrong").clock
        wrong.skew_ms = -5_000
        assert right.wall_ms() - wrong.wall_ms() == 5_000
        await asyncio.sleep(60)
        wrong.jump(86_400_000)
        assert wrong.wall_ms() - right.wall_ms() == 86_400_000 - 5_000
        assert wrong.monotonic_s() == right.monotonic_s() == 60

    run(main, seed=1)


def test_a_deadlock_says_who_waits_where() -> None:
    async def wait_for_godot(event: asyncio.Event) -> None:
        await event.wait()

    async def main(universe: Universe) -> None:
        universe.host("node").start(wait_for_godot(asyncio.Event()), "estragon")
        await asyncio.Event().wait()

    with pytest.raises(Deadlock) as caught:
        run(main, seed=1)
    report = str(caught.value)
    assert "node#1 estragon: " in report
    assert "wait_for_godot (test_virtual_world.py:" in report
    assert "Event.wait" in report


def test_a_livelock_is_noticed() -> None:
    async def main(_: Universe) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run(main, seed=1)


def test_a_run_has_a_limit() -> None:
    async def main(_: Universe) -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(OutOfTime, match="100 virtual seconds"):
        run(main, seed=1, limit_s=100)


def test_threads_are_refused() -> None:
    async def main(_: Universe) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads in the simulator"):
        run(main, seed=1)


def test_a_failing_callback_fails_the_run() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def main(universe: Universe) -> None:
        universe.loop.call_later(1, fail)
        await asyncio.sleep(10)

    with pytest.raises(ZeroDivisionError):
        run(main, seed=1)


def test_a_task_whose_failure_nobody_sees_fails_the_run() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def main(universe: Universe) -> None:
        universe.loop.create_task(fail())
        await asyncio.sleep(1)
        gc.collect()
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run(main, seed=1)


# One seed, one run.


def fingerprint_in_another_process(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.simulation.ring_of_hosts", str(seed)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_one_seed_gives_one_trace_whatever_the_hashes() -> None:
    prints = {fingerprint_in_another_process(7, hash_seed) for hash_seed in ("1", "2")}
    assert prints == {run(ring, seed=7)}


def test_another_seed_gives_another_trace() -> None:
    assert run(ring, seed=7) != run(ring, seed=8)


# Death.


class Sink:
    """Takes everything."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.ended_s: float | None = None
        self._buffer = bytearray(4096)

    def connected(self, link: Link) -> None:
        self.link = link

    def buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def received(self, count: int) -> None:
        self.bytes += self._buffer[:count]

    def drained(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None:
        self.ended_s = asyncio.get_running_loop().time()


async def chatter(world: World, peer: Address, ran_after: list[str]) -> None:
    """A node that leaves traces everywhere, also while it dies."""
    loop = asyncio.get_running_loop()
    log = world.disk.open("log", create=True)
    link = await world.network.connect(peer, Sink())

    def tick() -> None:
        log.append([b"t"])
        link.send([b"t"])
        loop.call_later(0.1, tick)

    tick()
    try:
        while True:
            await world.threads.run(lambda: log.append([b"c"]))
    finally:
        ran_after.append("finally")
        for last_act in (
            lambda: log.append([b"GHOST"]),
            lambda: link.send([b"GHOST"]),
            link.close,
            link.abort,
            world.threads.close,
            lambda: world.disk.write_file("ghost", b""),
            lambda: loop.create_task(asyncio.sleep(1)),
        ):
            with pytest.raises(HostIsDown):
                last_act()
        loop.call_later(1, ran_after.append, "timer")
        await asyncio.sleep(1)
        ran_after.append("after the sleep")


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_stops_every_effect_of_the_node(seed: int) -> None:
    async def main(universe: Universe) -> None:
        node, peer = universe.host("node"), universe.host("peer")
        sink = Sink()
        listener = await peer.world.network.listen(Address("0.0.0.0", 0), lambda: sink)
        ran_after: list[str] = []
        node.start(chatter(node.world, Address("peer", listener.address.port), ran_after), "chatter")
        await asyncio.sleep(5)
        old_disk = node.world.disk
        before = len(node.device.file("log").cached)
        node.crash()
        await asyncio.sleep(60)
        assert ran_after == ["finally"]
        assert len(node.device.file("log").cached) == before > 50
        assert b"GHOST" not in sink.bytes
        assert sink.ended_s is not None
        assert sink.ended_s < 10
        with pytest.raises(HostIsDown):
            old_disk.list("")
        world = node.restart()
        assert world.disk.list("") == ["log"]
        assert len(world.disk.read_file("log")) == before, "SIGKILL leaves the page cache"

    run(main, seed)


def test_a_crash_in_the_middle_of_a_call_unwinds_it() -> None:
    async def main(universe: Universe) -> None:
        node = universe.host("node")
        disk, threads = node.world.disk, node.world.threads
        await node.start(threads.run(partial(disk.replace_file, "vote", b"old")), "write the old one")
        went_on: list[str] = []

        async def write() -> None:
            try:
                disk.write_file("draft", b"new")
                disk.rename("draft", "vote")
            except Exception:  # noqa: BLE001 - careless code, as it happens
                went_on.append("caught")
            await asyncio.sleep(0)
            went_on.append("awake")

        node.power_cut_at(step=3)  # after create and write, before the renaming
        node.start(write(), "write")
        await asyncio.sleep(1)
        assert not node.is_up
        assert went_on == []
        assert node.restart().disk.read_file("vote") == b"old"

    run(main, seed=1)


def test_a_power_cut_is_silent_and_a_crash_is_not() -> None:
    async def main(universe: Universe) -> list[float]:
        noticed_s = []
        for fault in ("crash", "power_cut"):
            node, peer = universe.host(f"node-{fault}"), universe.host("peer")
            sink = Sink()
            listener = await node.world.network.listen(Address("0.0.0.0", 0), Sink)
            await peer.start(peer.world.network.connect(Address(node.name, listener.address.port), sink), "dial")
            start_s = universe.loop.time()
            getattr(node, fault)()
            await asyncio.sleep(30)
            assert sink.ended_s is not None
            noticed_s.append(sink.ended_s - start_s)
        return noticed_s

    after_crash_s, after_power_cut_s = run(main, seed=3)
    assert after_crash_s < 0.1 < after_power_cut_s


def test_a_dark_host_does_not_answer_and_a_dead_process_refuses() -> None:
    async def main(universe: Universe) -> None:
        node, network = universe.host("node"), universe.host("peer").world.network
        node.crash()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Address("node", 9092), Sink())
        node.restart()
        node.power_cut()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(network.connect(Address("node", 9092), Sink()), 60)
        knocking = asyncio.ensure_future(network.connect(Address("node", 9092), Sink()))
        await asyncio.sleep(5)
        await node.restart().network.listen(Address("node", 9092), Sink)
        link = await knocking
        assert link.peer == Address("node", 9092)
        with pytest.raises(OSError, match="No route"):
            await network.connect(Address("nowhere", 1), Sink())

    run(main, seed=1)


def test_a_paused_node_misses_time_and_nothing_else() -> None:
    async def main(universe: Universe) -> None:
        node, peer = universe.host("node"), universe.host("peer")
        sink, ticks = Sink(), []
        listener = await node.world.network.listen(Address("node", 0), lambda: sink)
        link = await peer.world.network.connect(listener.address, Sink())
        start_s = universe.loop.time()

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(round(universe.loop.time() - start_s, 3))

        node.start(tick(), "tick")
        await asyncio.sleep(3.5)
        node.pause()
        link.send([b"are you there?"])
        await asyncio.sleep(10)
        assert ticks == [1, 2, 3]
        assert sink.bytes == b""
        assert sink.ended_s is None
        node.resume()
        await asyncio.sleep(0.1)
        assert ticks == [1, 2, 3, 13.5]
        assert sink.bytes == b"are you there?"
        node.pause()
        node.crash()
        await asyncio.sleep(10)
        assert len(ticks) == 4

    run(main, seed=1)


# Threads.


def test_a_call_cancelled_while_it_waits_never_happens() -> None:
    async def main(universe: Universe) -> None:
        threads = universe.host("node").world.threads
        made: list[str] = []
        first = asyncio.ensure_future(threads.run(lambda: made.append("first"), lane="sync"))
        second = asyncio.ensure_future(threads.run(lambda: made.append("second"), lane="sync"))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.sleep(10)
        assert made == ["first"], "a thread that has begun does not stop"

    run(main, seed=1)


@pytest.mark.parametrize("seed", range(10))
def test_a_call_of_a_dead_node_happens_before_the_crash_or_never(seed: int) -> None:
    async def main(universe: Universe) -> tuple[bool, bool]:
        node = universe.host("node")
        happened, returned = [], []

        async def call() -> None:
            await node.world.threads.run(lambda: happened.append(True))
            returned.append(True)

        node.start(call(), "call")
        await asyncio.sleep(universe.random("crash").uniform(0, 0.012))
        node.crash()
        at_crash = bool(happened), bool(returned)
        await asyncio.sleep(10)
        assert (bool(happened), bool(returned)) == at_crash
        return at_crash

    run(main, seed)


def test_a_slow_lane_is_slow() -> None:
    async def main(universe: Universe) -> tuple[float, float]:
        threads = universe.host("node").threads
        assert isinstance(threads, SimulatedThreads)
        threads.slowness["sync"] = 1000

        async def seconds(lane: str) -> float:
            start_s = universe.loop.time()
            for _ in range(20):
                await threads.run(lambda: None, lane=lane)
            return universe.loop.time() - start_s

        return await seconds("sync"), await seconds("raft")

    slow_s, normal_s = run(main, seed=1)
    assert slow_s > 50 * normal_s


# The network between.


async def connected(universe: Universe) -> tuple[Any, Sink, Sink]:
    left, right = universe.host("left"), universe.host("right")
    here, there = Sink(), Sink()
    listener = await right.world.network.listen(Address("right", 0), lambda: there)
    link = await left.world.network.connect(listener.address, here)
    return link, here, there


def test_a_partition_holds_bytes_up_and_healing_lets_them_go() -> None:
    async def main(universe: Universe) -> None:
        link, here, there = await connected(universe)
        universe.fabric.partition(["left"], ["right"])
        link.send([b"held up, "])
        await asyncio.sleep(100)
        link.send([b"in order"])
        assert there.bytes == b""
        universe.fabric.heal()
        await asyncio.sleep(1)
        assert there.bytes == b"held up, in order"
        assert here.ended_s is there.ended_s is None

    run(main, seed=1)


def test_a_connection_may_not_survive_a_partition() -> None:
    async def main(universe: Universe) -> None:
        link, here, there = await connected(universe)
        universe.fabric.partition(["left"], ["right"])
        link.send([b"lost"])
        await asyncio.sleep(10)
        universe.fabric.heal(break_fraction=1.0)
        await asyncio.sleep(1)
        assert there.bytes == b""
        assert here.ended_s is not None
        assert there.ended_s is not None

    run(main, seed=1)


def test_a_route_can_fail_one_way() -> None:
    async def main(universe: Universe) -> None:
        link, here, there = await connected(universe)
        universe.fabric.block("left", "right")
        link.send([b"never"])
        there.link.send([b"still"])
        await asyncio.sleep(10)
        assert there.bytes == b""
        assert here.bytes == b"still"

    run(main, seed=1)


def test_a_connect_through_a_partition_times_out() -> None:
    async def main(universe: Universe) -> None:
        left, right = universe.host("left"), universe.host("right")
        await right.world.network.listen(Address("right", 9092), Sink)
        universe.fabric.partition(["left"], ["right"])
        with pytest.raises(TimeoutError):
            await left.world.network.connect(Address("right", 9092), Sink())
        assert universe.loop.time() > 100

    run(main, seed=1)


def test_a_cut_breaks_both_ends_and_spares_others() -> None:
    async def main(universe: Universe) -> None:
        _, here, there = await connected(universe)
        bystander = Sink()
        listener = await universe.host("third").world.network.listen(Address("third", 0), Sink)
        await universe.host("left").world.network.connect(listener.address, bystander)
        universe.fabric.cut("right", "left")
        await asyncio.sleep(1)
        assert here.ended_s is not None
        assert there.ended_s is not None
        assert bystander.ended_s is None

    run(main, seed=1)


def test_loopback_is_for_the_host_itself() -> None:
    async def main(universe: Universe) -> None:
        left, right = universe.host("left"), universe.host("right")
        listener = await right.world.network.listen(Address("127.0.0.1", 9092), Sink)
        await right.world.network.connect(listener.address, Sink())
        with pytest.raises(ConnectionRefusedError):
            await left.world.network.connect(Address("right", 9092), Sink())

    run(main, seed=1)
