"""Production nodes on simulated hosts, started again whenever they end; and hosts for their clients."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.broker.build import NodePlan, build
from headrace.broker.membership.local_node import CLIENTS, NODES
from headrace.broker.membership.membership import MembershipPlan
from headrace.client.connections.cluster import Cluster, ClusterSettings
from headrace.metadata.image.records import Endpoint
from headrace.model.names import NodeId
from headrace.runtime.network import Address
from headrace.servers.kafka.build import kafka_server
from headrace.simulation.environment.life import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from random import Random

    from headrace.broker.node import Node
    from headrace.model.names import TopicPartition
    from headrace.runtime.network import Network
    from headrace.servers.kafka.server import KafkaServer
    from headrace.simulation.environment.host import Host
    from headrace.simulation.environment.universe import Universe

KAFKA_PORT = 9092
CLUSTER_PORT = 9093
LOOK_EVERY_S = 0.05  # at a lone node
RESTARTS_S = (0.1, 0.5, 5.0)  # at most, before it is started again: as systemd does, or as a machine boots
HURRIED_RESTART_S = 0.3
STOP_S = 30.0  # as `headrace serve`: a stop that takes longer is given up
READY_STEP_S = 0.1
STALE_CLIENT_FRACTION = 0.2


class NodeProcess:
    """One node as `headrace serve` would run it. Its process can end in many ways; its host's device stays."""

    def __init__(
        self,
        universe: Universe,
        node_id: NodeId,
        configs: Mapping[str, str],
        voters: Mapping[NodeId, Address],
        join: Sequence[Address] = (),
    ) -> None:
        """Without `voters`, and nobody to `join`, it is a cluster of its own."""
        self._universe = universe
        self._configs = configs
        self._voters = voters
        self.join = join
        self._meets_others = bool(voters or join)
        self._asked_to_stop: asyncio.Future[None]
        self.node_id = node_id
        self.host: Host = universe.host(_host_name(node_id))
        self.address = Address(self.host.name, KAFKA_PORT)
        self.node: Node | None = None
        """While it serves."""
        self.present: Node | None = None
        """The same, and also while it starts and stops: it takes part in elections before it serves anybody."""
        self.flush_slowness = 1.0
        """How many times longer than on a good disk a flush takes: the time in which a crash finds it unfinished."""
        self.launches = 0
        self.exits: list[tuple[float, BaseException | None]] = []
        """When it ended by itself, and the error; None after a clean stop. Crashes are not among them."""

    def launch(self) -> None:
        if not self.host.is_up:
            self.host.restart()
        self.host.threads.slowness["flush"] = self.flush_slowness
        self.launches += 1
        self.node = self.present = None
        self._asked_to_stop = self._universe.loop.create_future()
        self.host.start(self._run(), "node")

    @property
    def is_serving(self) -> bool:
        return self.host.is_up and self.node is not None and not self.host.life.is_suspended

    @property
    def is_stopping(self) -> bool:
        return self._asked_to_stop.done()

    def ask_to_stop(self) -> None:
        """As SIGTERM."""
        self._universe.trace.note("asked to stop", self.host.life.name)
        if not self._asked_to_stop.done():
            self._asked_to_stop.set_result(None)

    async def _run(self) -> None:
        """What `headrace serve` does, without its terminal."""
        error: BaseException | None = None
        plan = NodePlan(MembershipPlan(self.node_id, self._voters, self.join), self._configs)
        meetings: list[KafkaServer] = []
        try:
            node = self.present = await build(self.host.world, plan)
            await node.start(partial(self._meet, node, meetings) if self._meets_others else None)
            await self._serve(node)
            error = node.failed.result() if node.failed.done() else None
        except Exception as trouble:  # noqa: BLE001 - a process may end for any reason, and the judge looks at it
            error = trouble
        for meeting in meetings:
            await meeting.stop()
        self._universe.loop.call_soon(self._exited, error, context=OUTSIDE)

    async def _meet(self, node: Node, meetings: list[KafkaServer]) -> list[Endpoint]:
        """Open the listener where nodes find each other; whoever runs the node closes it last."""
        meeting = kafka_server(node, is_for_nodes=True)
        meetings.append(meeting)
        place = await meeting.start(Address(self.host.name, CLUSTER_PORT))
        return [Endpoint(NODES, *place), Endpoint(CLIENTS, *self.address)]

    async def _serve(self, node: Node) -> None:
        server = kafka_server(node)
        ended = self._asked_to_stop

        def end(_: object) -> None:
            if not ended.done():
                ended.set_result(None)

        node.failed.add_done_callback(end)
        try:
            await server.start(self.address)
            self.node = node
            await ended
        finally:
            await node.leave()
            await server.stop()
            await asyncio.wait_for(node.stop(), STOP_S)

    def _exited(self, error: BaseException | None) -> None:
        if self.host.is_up:
            self._universe.trace.note("exit", self.host.life.name, str(error))
            self.exits.append((self._universe.loop.time(), error))
            self.host.crash()  # closes its sockets and forgets its timers, as the end of any process does


def _host_name(node_id: NodeId) -> str:
    return f"node-{node_id}"


class SimulatedCluster:
    """The nodes, and a supervisor that starts each of them again."""

    def __init__(self, universe: Universe, *, node_count: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self.universe = universe
        self._configs = configs or {}
        node_ids = [NodeId(number) for number in range(1, node_count + 1)]
        voters = {it: Address(_host_name(it), CLUSTER_PORT) for it in node_ids} if node_count > 1 else {}
        self.nodes = [NodeProcess(universe, node_id, self._configs, voters) for node_id in node_ids]
        self.on_look: Callable[[NodeProcess], None] = lambda _: None
        """Called for a lone node often, and for every node at the instant before it crashes."""
        self._chance = universe.random("supervisor")
        self._supervisors: list[asyncio.Task[None]] = []
        self.client_network: Callable[[Network], Network] = lambda network: network
        """What clients get instead of their host's network, if anybody is to overhear them."""
        self._client_count = 0
        self.is_hurried = False
        """Once set, nodes are started again soon."""

    def join(self, node_id: NodeId) -> NodeProcess:
        """Start one more node, which asks the others to be let in. What becomes of it shows in time."""
        doors = [Address(process.host.name, CLUSTER_PORT) for process in self.nodes]
        guest = NodeProcess(self.universe, node_id, self._configs, {}, doors)
        guest.launch()
        return guest

    @property
    def bootstrap(self) -> list[Address]:
        return [process.address for process in self.nodes]

    def start(self) -> None:
        for process in self.nodes:
            process.host.last_words = self._looker(process)
            process.launch()
            self._supervisors.append(self.universe.loop.create_task(self._supervise(process)))

    async def _supervise(self, process: NodeProcess) -> None:
        while True:
            await self._watch_until_down(process)
            await asyncio.sleep(self._restart_delay_s())
            process.launch()

    async def _watch_until_down(self, process: NodeProcess) -> None:
        """A lone node is looked at every now and then. In a cluster somebody looks after every turn of the loop."""
        look = self._looker(process)
        while len(self.nodes) == 1 and process.host.is_up:
            await asyncio.sleep(LOOK_EVERY_S)
            look()
        await process.host.is_down.wait()

    def _restart_delay_s(self) -> float:
        return HURRIED_RESTART_S if self.is_hurried else self._chance.choice(RESTARTS_S) * self._chance.random()

    def _looker(self, process: NodeProcess) -> Callable[[], None]:
        return lambda: self.on_look(process)

    async def wait_ready(self) -> None:
        """Until every node serves. The run's own limit of time ends a wait that is in vain."""
        while not all(process.is_serving for process in self.nodes):  # noqa: ASYNC110 - any of them may go down again
            await asyncio.sleep(READY_STEP_S)

    async def wait_down(self) -> None:
        """Until every node has gone down, and its present life is another."""
        lives = [process.host.life for process in self.nodes]
        while not all(life.is_over for life in lives):  # noqa: ASYNC110 - a clean stop takes its time
            await asyncio.sleep(READY_STEP_S)

    def address_for(self, partition: TopicPartition, chance: Random) -> Address:
        """Mostly of the leader, as a client knows it that has asked; else of anybody, as if it had asked long ago."""
        if len(self.nodes) == 1:
            return self.nodes[0].address
        guess = chance.choice(self.nodes)
        if chance.random() < STALE_CLIENT_FRACTION or guess.node is None:
            return guess.address
        topic = guess.node.image.topic_named(partition.topic)
        known = None if topic is None else guess.node.image.partition(topic.topic_id, partition.partition)
        leader = next((it for it in self.nodes if known is not None and it.node_id == known.leader), guess)
        return leader.address

    # Clients

    def client_host(self, name: str) -> Host:
        return self.universe.host(name)

    def client(self, name: str, settings: ClusterSettings | None = None) -> Cluster:
        """A client on a host of its own. Everything that uses it must run there: see `run_on`."""
        world = self.client_host(name).world
        self._client_count += 1
        first = self._client_count % len(self.nodes)  # each asks another node first
        bootstrap = self.bootstrap[first:] + self.bootstrap[:first]
        return Cluster(bootstrap, self.client_network(world.network), world.clock, world.entropy, settings)

    def run_on(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.client_host(name).start(work, "client")
