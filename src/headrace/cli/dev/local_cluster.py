"""A whole cluster on one machine: starts a process for each node, passes on what they say, and ends them together."""

from __future__ import annotations

import asyncio
import shlex
import signal
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace import __version__
from headrace.cli.terminal.complaints import Complaint
from headrace.cli.terminal.output import answer, talk
from headrace.cli.terminal.stop_signals import stop_signal

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Sequence
    from pathlib import Path

HOST = "127.0.0.1"
PORTS_PER_NODE = 100  # 9092 and 9093, 9192 and 9193: whoever knows one node's ports knows the others'
REPLICAS_MAX = 3  # survives the loss of one node; more copies help nobody on one machine
STOP_S = 40.0  # longer than a node gives itself
LINE_BYTES_MAX = 1 << 20  # of a node's log; a longer line would end the reading


@dataclass(frozen=True)
class DevPlan:
    node_count: int
    port_base: int
    http_base: int | None
    data_dir: Path
    settings: tuple[tuple[str, str], ...] = ()
    log_level: str = "info"

    @property
    def node_ids(self) -> range:
        return range(1, self.node_count + 1)

    def listen(self, node_id: int) -> str:
        return f"{HOST}:{self.port_base + PORTS_PER_NODE * (node_id - 1)}"

    def cluster_port(self, node_id: int) -> int:
        """Where other nodes find it."""
        return self.port_base + PORTS_PER_NODE * (node_id - 1) + 1

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.listen(node_id) for node_id in self.node_ids)

    def directory(self, node_id: int) -> Path:
        return self.data_dir / f"node-{node_id}"

    def arguments(self, node_id: int) -> list[str]:
        """Of `headrace`. What is set by hand wins over what is set here."""
        voters = ",".join(f"{it}@{HOST}:{self.cluster_port(it)}" for it in self.node_ids)
        replicas = min(REPLICAS_MAX, self.node_count)
        settings = {"default.replication.factor": str(replicas), **dict(self.settings)}
        return [
            "serve",
            *("--node-id", str(node_id)),
            *("--data-dir", str(self.directory(node_id))),
            *("--listen", self.listen(node_id)),
            *("--voters", voters),
            *("--http", "off" if self.http_base is None else f"{HOST}:{self.http_base + node_id - 1}"),
            *("--log-level", self.log_level),
            *(f"-X{name}={value}" for name, value in settings.items()),
        ]

    def check_directory(self) -> None:
        """Who founded a cluster are its voters: the same data cannot be started with more or fewer of them."""
        found = len(list(self.data_dir.glob("node-*")))
        if found not in {0, self.node_count}:
            raise Complaint(
                f"{self.data_dir} holds a cluster of {found} nodes, not of {self.node_count}",
                f"start it with --nodes {found}, or choose another --data-dir",
            )

    def check_ports(self) -> None:
        """Before any node is started: each of them would advise options that are its own, not those of this command."""
        for node_id in self.node_ids:
            _check_port(self.cluster_port(node_id) - 1, "--port-base")
            _check_port(self.cluster_port(node_id), "--port-base")
            if self.http_base is not None:
                _check_port(self.http_base + node_id - 1, "--http-base")


def _check_port(port: int, option: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as nodes do: what is just closed is free
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Complaint(
                f"nodes cannot listen on {HOST}:{port}: {reason.lower()}",
                f"stop what is running there, or choose other ports with {option}",
            ) from error


class _Child:
    """One node's process."""

    def __init__(self, plan: DevPlan, node_id: int) -> None:
        self.node_id = node_id
        self.ready = asyncio.Event()
        self.arguments = plan.arguments(node_id)
        self.running: Process | None = None

    async def live(self) -> int:
        """From its start to its end; returns its exit code."""
        # A session of its own: Ctrl-C reaches this process alone, which then ends all nodes in order.
        self.running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headrace", *self.arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=LINE_BYTES_MAX,
        )
        assert self.running.stdout is not None
        assert self.running.stderr is not None
        saying = asyncio.gather(self._pass_on(self.running.stdout, tells=True), self._pass_on(self.running.stderr))
        code = await self.running.wait()
        await saying
        return code

    async def _pass_on(self, stream: asyncio.StreamReader, *, tells: bool = False) -> None:
        async for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            talk(f"node {self.node_id} | {text}")
            if tells and "is ready" in text:
                self.ready.set()

    def tell(self, number: signal.Signals) -> None:
        if self.running is not None and self.running.returncode is None:
            self.running.send_signal(number)


async def run(plan: DevPlan) -> int:
    """Until Ctrl-C or SIGTERM, or until no node is left. The exit code."""
    plan.check_directory()
    plan.check_ports()
    children = [_Child(plan, node_id) for node_id in plan.node_ids]
    stop = stop_signal(lambda: _kill(children))
    lives = [asyncio.ensure_future(_watched(child, stop)) for child in children]
    announcing = asyncio.ensure_future(_announce(plan, children, lives))
    everybody = asyncio.gather(*lives)
    try:
        await _first(everybody, stop)
        if not stop.done():
            raise Complaint("no node is left", "their last log lines are above")
        talk("stopping all nodes; Ctrl-C again does not wait for them")
        return await _stopped(children, everybody)
    finally:
        announcing.cancel()
        _kill(children)  # nobody who still runs here is meant to outlive this process


async def _watched(child: _Child, stop: asyncio.Future[None]) -> int:
    code = await child.live()
    if not stop.done():
        talk(f"node {child.node_id} has ended with exit code {code}; the others go on. To start it again:")
        talk(f"  headrace {shlex.join(child.arguments)}")
    return code


async def _first(one: asyncio.Future[Any], other: asyncio.Future[Any]) -> None:
    await asyncio.wait([one, other], return_when=asyncio.FIRST_COMPLETED)


async def _announce(plan: DevPlan, children: list[_Child], lives: Sequence[asyncio.Future[int]]) -> None:
    """One line on stdout, once every node that lives is ready."""
    for child, life in zip(children, lives, strict=True):
        ready = asyncio.ensure_future(child.ready.wait())
        await _first(ready, life)
        ready.cancel()
    count = sum(not life.done() for life in lives)
    if count:
        nodes = f"{count} of {len(lives)} nodes" if count < len(lives) else f"{count} nodes"
        answer(
            f"headrace {__version__} cluster of {nodes} is ready: kafka://{plan.bootstrap_servers} data={plan.data_dir}"
        )


async def _stopped(children: list[_Child], everybody: asyncio.Future[list[int]]) -> int:
    for child in children:
        child.tell(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_S):
            await everybody
    except TimeoutError:
        talk("not every node has stopped in time; the next start verifies what was not flushed")
        return 1
    return 0


def _kill(children: list[_Child]) -> None:
    for child in children:
        child.tell(signal.SIGKILL)
