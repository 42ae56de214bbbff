"""`headrace serve`: one node in one process. Here the real parts are chosen and put together."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace import __version__
from headrace.broker.build import NodePlan, build
from headrace.broker.failure import DisplacedNode, Failure
from headrace.broker.health import Health
from headrace.broker.listeners.opening import Doors
from headrace.broker.listeners.token_settings import UnusableKeys
from headrace.broker.membership.identity import WrongIdentity
from headrace.broker.membership.local_node import NODES
from headrace.broker.membership.membership import MembershipPlan
from headrace.cli.serve.addresses import (
    CannotStart,
    ServeOptions,
    expect_addresses,
    expect_founder,
    expect_guarded,
    expect_to_be_found,
    listen,
)
from headrace.cli.serve.first_users import first_users_of
from headrace.cli.terminal.stop_signals import stop_signal
from headrace.metadata.image.records import Endpoint
from headrace.model.errors import DiskFailure, Refusal
from headrace.model.names import NodeId
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.long_lived import LongLived
from headrace.runtime.memory_trim import MemoryTrim
from headrace.runtime.network import SystemNetwork
from headrace.runtime.stall_watch import StallWatch
from headrace.runtime.threads import SystemThreads
from headrace.runtime.tls.settings import UnusableTls
from headrace.runtime.world import World
from headrace.servers.console.server import ConsoleServer
from headrace.servers.kafka.build import client_listeners, kafka_server
from headrace.storage.compaction.workers import InProcess
from headrace.storage.files.damage import DamagedLog
from headrace.storage.segments.segment_cache import OPEN_FILES
from headrace.wire.batches.examination import IS_COMPILED

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.broker.node import Node
    from headrace.runtime.network import Address
    from headrace.servers.kafka.server import KafkaServer

log = logging.getLogger("headrace")

FILES_WANTED = 65_536  # connections and segments; the operating system's usual 1,024 suffice for neither
FILES_SPARE = 192  # listeners, a burst of new connections, the console's, files that are open for a moment
FILES_PER_CONNECTION = 2  # the socket, and its twin that is watched while the client is slow to read
FEW_CONNECTIONS = 500  # below that, somebody should know that the process's limit is the reason
STOP_S = 30.0  # a stop that takes longer is given up: recovery at the next start is safe


def serve(options: ServeOptions) -> int:
    """Run until SIGTERM or Ctrl-C. The exit code: 0 after a clean stop, 1 otherwise.

    A second Ctrl-C ends it as a crash would, which is safe.
    """
    if not __debug__:
        raise CannotStart("asserts guard the data, and `python -O` removes them; start without -O")
    return asyncio.run(_run(options, _raise_file_limit()))


def _claimed(data_dir: Path) -> SystemDisk:
    """Raises CannotStart if the directory cannot be used, or another process uses it."""
    try:
        return SystemDisk(data_dir)
    except BlockingIOError as error:  # it says all that is to be said
        raise CannotStart(str(error.strerror)) from error
    except OSError as error:
        place = data_dir.absolute()
        raise CannotStart(f"the data directory {place} cannot be used: {error.strerror or error}") from error


def _shared_out(files_max: int) -> tuple[int, int]:
    """How many files logs may keep open, and how many connections there may be."""
    open_files = max(min(OPEN_FILES, files_max // 2), files_max // 4)
    files_spare = min(FILES_SPARE, files_max // 4)
    connections_max = max(1, (files_max - open_files - files_spare) // FILES_PER_CONNECTION)
    if connections_max < FEW_CONNECTIONS:
        log.warning(
            "the process may open %d files, which leaves room for %d connections; raise `ulimit -n`",
            files_max,
            connections_max,
        )
    return open_files, connections_max


async def _run(options: ServeOptions, files_max: int) -> int:
    await expect_addresses(options)
    entropy = SystemEntropy()
    doors = _doors(options, entropy)
    disk = _claimed(options.data_dir)
    threads, stalls, memory = SystemThreads(), StallWatch(log.warning), MemoryTrim()
    world = World(SystemClock(), disk, entropy, SystemNetwork(), threads)
    open_files, connections_max = _shared_out(files_max)
    plan = NodePlan(
        MembershipPlan(
            None if options.node_id is None else NodeId(options.node_id),
            options.voters,
            options.join,
            first_users_of(options),
        ),
        options.configs,
        options.rack,
        options.listeners.described(),
        open_files,
        InProcess(disk.location),
        stalls.stood_still_s,
        knows_its_clients=options.listeners.knows_its_clients,
        proof=doors.proof,
    )
    health = Health(Failure())
    cluster_listener = _ClusterListener(options, doors)
    console = ConsoleServer(world, health, doors.http)
    keeping: asyncio.Task[None] | None = None
    stalls.start()
    memory.start()
    try:
        # First up and last down: whoever watches the node hears from it while it recovers and while it stops.
        http = await _open_console(console, options.http, "http" if doors.http is None else "https")
        node = await build(world, plan, health)
        console.show(node)
        long_lived = LongLived(lambda: node.store.open_count, lambda: node.quorum.applied_end)
        keeping = asyncio.create_task(long_lived.run())
        await node.start(partial(cluster_listener.open, node))
        return await _serve(_ClientListeners(node, options, doors, connections_max), options, http, long_lived)
    except (WrongIdentity, DisplacedNode, DamagedLog, DiskFailure) as error:
        raise CannotStart(str(error)) from error
    except Refusal as refusal:
        raise CannotStart(refusal.message) from refusal
    finally:
        await cluster_listener.close()
        await console.stop()
        if keeping is not None:
            keeping.cancel()
        stalls.close()
        memory.close()
        threads.close()
        disk.close()


def _doors(options: ServeOptions, entropy: SystemEntropy) -> Doors:
    """Raises CannotStart for keys and certificates that cannot be used."""
    try:
        return Doors(options.listeners, entropy)
    except UnusableTls as wrong:
        raise CannotStart(str(wrong)) from wrong


async def _open_console(console: ConsoleServer, address: Address | None, scheme: str) -> str:
    return "" if address is None else f" {scheme}://{await listen(console, address, '--http')}"


class _ClusterListener:
    """Where the nodes of a cluster meet: a listener of its own, open before this node can serve anybody."""

    def __init__(self, options: ServeOptions, doors: Doors) -> None:
        self._options = options
        self._doors = doors
        self._server: KafkaServer | None = None

    async def open(self, node: Node) -> list[Endpoint]:
        options, node_id = self._options, node.node_id
        if not node.quorum.has_log:
            expect_founder(options, node_id)
        own = options.cluster_address(node_id)
        if own is None:
            if not node.quorum.has_company:
                return []
            raise CannotStart(f"node {node_id} is part of a cluster: say with --cluster-listen where others find it")
        expect_to_be_found(options, node_id, own)
        expect_guarded(options, own)
        self._server = kafka_server(node, access=self._doors.nodes, is_for_nodes=True)
        bound = await listen(self._server, own, "--cluster-listen")
        clients = [Endpoint(it.name, *it.advertised) for it in options.listeners.clients]
        return [Endpoint(NODES, *options.told_address(node_id, bound)), *clients]

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop()


class _ClientListeners:
    """Where clients come in: a listener for each way to be known."""

    def __init__(self, node: Node, options: ServeOptions, doors: Doors, connections_max: int) -> None:
        self.node = node
        self._plans = options.listeners
        self._doors = doors
        self._connections_max = connections_max
        self._servers: list[KafkaServer] = []

    async def open(self) -> list[Address]:
        try:
            self._servers = await client_listeners(
                self.node, self._plans, self._doors, connections_max=self._connections_max
            )
        except UnusableKeys as wrong:
            raise CannotStart(str(wrong)) from wrong
        places = zip(self._plans.clients, self._servers, strict=True)
        return [await listen(server, plan.at, "--listen") for plan, server in places]

    async def stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers))


async def _serve(listeners: _ClientListeners, options: ServeOptions, http: str, long_lived: LongLived) -> int:
    stop, node = stop_signal(), listeners.node
    try:
        first, *others = await listeners.open()
        _log_form()
        long_lived.freeze_all()
        _announce(node, f"kafka://{first}{http}", options, others)
        await _first_of(stop, node.failed)
    finally:
        await node.leave()
        await listeners.stop()
        is_clean = await _stop_in_time(node)
    if node.failed.done():
        print(f"headrace: stopped because {node.failed.result()}", file=sys.stderr)
        return 1
    return 0 if is_clean else 1


async def _stop_in_time(node: Node) -> bool:
    """Whether it was a clean stop."""
    try:
        await asyncio.wait_for(node.stop(), STOP_S)
    except DiskFailure as failure:
        print(
            f"headrace: stopped, but not cleanly: {failure}; the next start verifies what was not flushed",
            file=sys.stderr,
        )
        return False
    except TimeoutError:
        log.error("the disk is too slow for a clean stop; the next start verifies what was not flushed")  # noqa: TRY400
        os._exit(1)  # a thread that waits for the device would hold the process as long as the device likes
    return True


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


def _announce(node: Node, addresses: str, options: ServeOptions, others: list[Address]) -> None:
    """The one line that says where to find the node, for people and for scripts that wait for it."""
    names = [it.name for it in options.listeners.clients[1:]]
    more = "".join(f" {name}://{at}" for name, at in zip(names, others, strict=True))
    print(
        f"headrace {__version__} node {node.node_id} is ready: {addresses} data={options.data_dir}{more}",
        flush=True,
    )


def _log_form() -> None:
    if IS_COMPILED:
        log.info("records are checked by compiled code")
    else:
        log.warning(
            "records are checked by plain Python, some fifty times slower: install a C compiler and the headers of "
            "Python, then headrace again"
        )


def _raise_file_limit() -> int:
    """As many open files as the system allows, and we can use; returns how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
