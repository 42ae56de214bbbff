"""The part of the tour in which a leader is killed under load, and comes back."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Final

from headrace.cli.demo.load import PARTITIONS, TOPIC, Load
from headrace.cli.terminal.complaints import TERMINATED, Complaint, Interrupted
from headrace.cli.terminal.output import duration_text, plural, talk
from headrace.client.connections.cluster import ClusterSettings, system_cluster
from headrace.model.names import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.demo.nodes import DemoNodes
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import Topic

LOOK_S: Final = 0.05
WATCH_S: Final = 3  # of load before, between and after: long enough to see it run
PATIENCE_S: Final = 60.0  # against hangs; what is waited for takes seconds


def lose_a_leader(nodes: DemoNodes, show_loss: Callable[[], None]) -> None:
    """`show_loss` is called while the node is away; it shows what others see."""

    async def run() -> None:
        this = asyncio.current_task()
        assert this is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
        async with system_cluster(nodes.bootstrap_servers, ClusterSettings(client_id="headrace-demo")) as cluster:
            await _Loss(nodes, cluster, show_loss).happens()

    try:
        asyncio.run(run())
    except asyncio.CancelledError as stop:
        raise Interrupted(TERMINATED) from stop


class _Loss:
    def __init__(self, nodes: DemoNodes, cluster: Cluster, show_loss: Callable[[], None]) -> None:
        self._nodes = nodes
        self._cluster = cluster
        self._show_loss = show_loss
        self._load = Load(cluster)

    async def happens(self) -> None:
        async with self._load as load:
            talk("\n# A writer sends up to 300 numbered payments a second with acks=all: each is acknowledged once it")
            talk("# is on the disks of all nodes in sync, two at least. The group `audit` reads them as they come.")
            await self._until(lambda _: load.read_count > 0)  # a new group waits a moment for more members
            await self._watch()
            victim = (await self._topic()).partitions[0].leader
            await self._kill(victim)
            await self._watch()
            await asyncio.to_thread(self._show_loss)
            await self._bring_back(victim)
            await self._watch()
            await load.stop_writing()
            await self._count()

    async def _watch(self) -> None:
        """A line each second."""
        for _ in range(WATCH_S):
            await asyncio.sleep(1)
            load = self._load
            talk(f"  {load.sent_count:,} sent, {len(load.acked):,} acknowledged, {load.read_count:,} read by the group")

    async def _kill(self, victim: int) -> None:
        load, before = self._load, await self._topic()
        hit = [part.index for part in before.partitions if part.leader == victim]
        talk(f"\n# Node {victim} leads {_names(hit)}. It is killed now with SIGKILL: no goodbye, nothing flushed.")
        killed_s = time.monotonic()
        self._nodes.kill(victim)
        await self._until(lambda topic: all(topic.partitions[index].leader not in {victim, NO_NODE} for index in hit))
        acks = {index: load.acks_of(index) for index in hit}
        await self._until(lambda _: all(load.acks_of(index) > count for index, count in acks.items()))
        self._tell_of_recovery(await self._topic(), hit, killed_s)

    def _tell_of_recovery(self, topic: Topic, hit: list[int], killed_s: float) -> None:
        load = self._load
        for index in hit:
            part = topic.partitions[index]
            talk(f"  {TOPIC}-{index}: node {part.leader} leads now; in sync are {_listed(part.isr)}.")
            talk(f"    Writes paused for {_duration(load.longest_pause_s(index, killed_s))}.")
        others = [index for index in range(PARTITIONS) if index not in hit]
        if others:
            pause_s = max(load.longest_pause_s(index, killed_s) for index in others)
            talk(f"  {_names(others)}: led by other nodes all the time; longest pause {_duration(pause_s)}.")
        talk(f"  {plural(load.failed_count, 'payment')} failed: the writer tries again by itself.")

    async def _bring_back(self, node_id: int) -> None:
        talk(f"\n# Node {node_id} starts again with its old disk. It cuts what was never agreed on, fetches what it")
        talk("# missed, and counts as in sync again only when it has everything.")
        started_s = time.monotonic()
        self._nodes.launch(node_id)
        await self._until(lambda _: self._nodes.is_ready(node_id))
        talk(f"  node {node_id} is up after {_duration(time.monotonic() - started_s)}")
        await self._until(lambda topic: all(node_id in part.isr for part in topic.partitions))
        talk(f"  node {node_id} is in sync again, in all of {TOPIC}, after {_duration(time.monotonic() - started_s)}")

    async def _count(self) -> None:
        load = self._load
        talk("\n# Was anything lost? The writer stops, and the log is read from its beginning.")
        found = await load.found()
        lost = [number for number in load.acked if number not in found]
        repeated = sum(times > 1 for times in found.values())
        talk(f"  sent {load.sent_count:,}, acknowledged {len(load.acked):,}, failed {load.failed_count:,}")
        talk(f"  acknowledged and lost: {len(lost):,}. In the log more than once: {repeated:,}.")
        if lost or repeated:
            raise Complaint(
                "payments were lost or repeated, which must never be", f"keep {self._nodes.home} and tell us"
            )

    # ---- looking

    async def _topic(self) -> Topic:
        return (await self._cluster.full_view()).topics[TOPIC]

    async def _until(self, is_so: Callable[[Topic], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            if is_so(await self._topic()):
                return
            if time.monotonic() > deadline_s:
                raise Complaint(
                    f"this takes longer than {PATIENCE_S:.0f} s, which it must not",
                    f"the nodes' logs are in {self._nodes.home}; keep a place with --dir",
                )
            await asyncio.sleep(LOOK_S)


def _names(indexes: list[int]) -> str:
    return ", ".join(f"{TOPIC}-{index}" for index in indexes)


def _listed(node_ids: tuple[int, ...]) -> str:
    return " and ".join(map(str, node_ids))


def _duration(seconds: float) -> str:
    return duration_text(round(1000 * seconds))
