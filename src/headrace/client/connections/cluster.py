"""A client's way into a cluster: finds the nodes, remembers who leads what, keeps one connection to each.

Several callers share one `Cluster`. What may pass by itself (a broken connection, a leader that moved) is
waited out by `retry`; everything else is raised at once, with a sentence that says what was tried.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from headrace.client.connections.connection import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, SOFTWARE_NAME
from headrace.client.connections.opener import ConnectionOpener
from headrace.client.connections.pool import MAIN_LANE, ConnectionPool, look_at_result
from headrace.client.connections.view import ClusterView, Topic, parse_addresses, view_of
from headrace.client.errors import (
    ClientError,
    ClusterUnreachable,
    ConnectionLost,
    NeverReached,
    RequestTimedOut,
    in_words,
    refuse_unless_ok,
)
from headrace.client.security.settings import OPEN, ClientSecurity
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, NO_TOPIC_ID
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from headrace.client.connections.connection import Answer, Connection
    from headrace.client.connections.view import Node, Partition
    from headrace.model.names import TopicId, TopicPartition
    from headrace.runtime.clock import Clock
    from headrace.runtime.entropy import Entropy
    from headrace.runtime.network import Address, Network
    from headrace.runtime.threads import Threads
    from headrace.wire.api import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a client reaches a cluster, and how long it waits out what may pass."""

    client_id: str = SOFTWARE_NAME
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    request_timeout_s: float = REQUEST_TIMEOUT_S
    retry_for_s: float = 30.0
    """How long an attempt is repeated if what stopped it may pass; longer than a leader election takes."""
    away_for_s: float | None = None
    """How long nodes that do not answer are waited for, once the cluster was reached. None: as any passing trouble."""
    reach_for_s: float = 0.0
    """How long the first contact is tried. 0: every address once, so that a wrong address is told at once."""
    topic_wait_s: float = 0.0
    """How long a topic that does not exist is waited for."""
    backoff_first_s: float = 0.02
    backoff_max_s: float = 1.0
    metadata_age_max_s: float = 300.0
    """Partitions that were added are found after this time at the latest."""
    security: ClientSecurity = OPEN
    """How connections are protected, and who the client is: see `parse_security`."""


class Cluster:
    """A client's view of a cluster, and its connections. Use it with `async with`; any number of producers and
    consumers share one.

        async with system_cluster("localhost:9092") as cluster:
            topic = await cluster.topic("orders")

    `bootstrap` are the addresses to begin with; the nodes say where the others are. `system_cluster` makes one on real
    sockets; the simulator hands in a network, a clock and an entropy of its own.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        network: Network,
        clock: Clock,
        entropy: Entropy,
        settings: ClusterSettings | None = None,
        threads: Threads | None = None,
    ) -> None:
        """Raises ValueError if the settings name certificates that cannot be used."""
        self.clock = clock
        self.entropy = entropy
        self.settings = settings or ClusterSettings()
        self.view = ClusterView()
        self.waiting: dict[RetryBackoff, None] = {}
        """Those who wait for their next attempt."""
        self._bootstrap = tuple(bootstrap)
        self._opener = ConnectionOpener(network, entropy, self.settings, threads)
        self._pool = ConnectionPool(self._opener.open)
        self._topics: dict[str, float] = {}  # those that callers asked for, and when each was last seen
        self._refreshing: asyncio.Task[ClusterView] | None = None
        self._topics_asked = 0  # how many of them the request under way asks for
        self._guide: Connection | None = None  # whom we ask what anybody knows
        self._out_of_touch: ClientError | None = None  # why nobody could be asked the last time

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Requests under way fail with ConnectionLost."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        self._pool.close()
        self._opener.close()

    # What the cluster looks like.

    async def refresh(self) -> ClusterView:
        """Ask again about the nodes and the topics in use. Callers that come together share one request."""
        while self._refreshing is not None and not self._refreshing.done():
            if self._topics_asked == len(self._topics):
                # Shielded: one caller that gives up must not take the answer from the others.
                return await asyncio.shield(self._refreshing)
            await _ended(self._refreshing)  # it was sent before our topic was wanted
        self._topics_asked = len(self._topics)
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh(), name="refresh metadata")
        self._refreshing.add_done_callback(look_at_result)
        return await asyncio.shield(self._refreshing)

    async def full_view(self) -> ClusterView:
        """A view of every topic there is. What `topic` answers from stays as it is."""
        return await self.retry(lambda: self._ask_metadata(None))

    def known_topic(self, name: str) -> Topic | None:
        """What is known without asking, unless it is too old."""
        topic = self.view.topics.get(name)
        if topic is None or self.clock.monotonic_s() - self._topics[name] > self.settings.metadata_age_max_s:
            return None
        return topic

    async def topic(self, name: str) -> Topic:
        """A topic by name, as it was described `metadata_age_max_s` ago or later.

        Refusal UNKNOWN_TOPIC_OR_PARTITION if there is none, after `topic_wait_s`. It does not create topics.
        """
        topic = self.known_topic(name)
        if topic is not None:
            return topic
        self._topics.setdefault(name, 0.0)
        backoff = RetryBackoff(self, self.settings.topic_wait_s)
        while True:
            view = await self.retry(self.refresh)
            if name in view.topics:
                return view.topics[name]
            refusal = _topic_refusal(name, view.refusals.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            if not refusal.code.is_retriable:
                raise refusal
            await backoff.wait_or_raise(refusal)

    async def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of these topics that there are."""
        if any(self.known_topic(name) is None for name in names):
            for name in names:
                self._topics.setdefault(name, 0.0)
            await self.retry(self.refresh)
        found = self.view.topics
        return {name: found[name] for name in names if name in found}

    def leader_of(self, name: TopicPartition) -> Partition | None:
        """Where a partition is led, if that is known and anybody does."""
        topic = self.view.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return None
        partition = topic.partitions[name.partition]
        return None if partition.is_offline or partition.leader not in self.view.nodes else partition

    def why_no_leader(self, name: TopicPartition) -> Refusal:
        """What to tell a caller for whom `leader_of` found nobody."""
        topic = self.view.topics.get(name.topic)
        if topic is None:
            return _topic_refusal(name.topic, self.view.refusals.get(name.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if not 0 <= name.partition < len(topic.partitions):
            return no_such_partition(topic, name.partition)
        return Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"no node that is alive leads {name}")

    def topic_id(self, name: str) -> TopicId:
        """The id of a topic that was asked for before; NO_TOPIC_ID if it is not known."""
        topic = self.view.topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    # Asking.

    async def ask(self, message: Message, answer: type[Answer], *, timeout_s: float | None = None) -> Answer:
        """Ask whichever node there is a connection to; `answer` is the class of the response.

        One attempt: ClusterUnreachable if no node takes a connection, ConnectionLost or RequestTimedOut if this one
        does not answer. Wrap it in `retry` to wait that out.
        """
        connection = await self.any_connection()
        return await connection.request(message, answer, timeout_s=timeout_s)

    async def ask_controller(self, message: Message, answer: type[Answer]) -> Answer:
        """Ask the controller; or any node while it is not known, for nodes pass such requests on. One attempt."""
        if self.view.controller_id == NO_NODE:
            await self.refresh()
        if self.view.controller_id not in self.view.nodes:
            return await self.ask(message, answer)  # nodes pass such requests on
        connection = await self.node_connection(self.view.controller_id)
        return await connection.request(message, answer)

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt while what stops it may pass by itself, and look at the metadata anew before each.

        How long depends on the trouble: `retry_for_s` or `away_for_s` of the settings. Then the last trouble is raised.
        """
        is_repeated = False
        with RetryBackoff(self) as backoff:
            while True:
                try:
                    if is_repeated:
                        await self.refresh()
                    return await attempt()
                except (ClientError, Refusal) as trouble:
                    if not self.is_retriable(trouble):
                        raise
                    await backoff.wait_or_raise(trouble)
                is_repeated = True

    def is_retriable(self, trouble: Exception) -> bool:
        """True if trying again makes sense. A cluster that we never reached is more likely a wrong address."""
        if isinstance(trouble, Refusal):
            return trouble.code.is_retriable
        if isinstance(trouble, ClusterUnreachable):
            return bool(self.view.nodes)
        return isinstance(trouble, (ConnectionLost, RequestTimedOut))

    def retry_limit_s(self, trouble: Exception) -> float:
        """How long to repeat what has failed for this reason."""
        away_for_s = self.settings.away_for_s
        return self.settings.retry_for_s if away_for_s is None or not self.is_absence(trouble) else away_for_s

    def is_absence(self, trouble: Exception) -> bool:
        """True if nodes do not answer that have been there. Others may be looked for in the wrong place.

        With the whole cluster away it is all the same: those who come back say where everybody is.
        """
        if isinstance(trouble, NeverReached) and self._out_of_touch is None:
            return False
        return isinstance(trouble, ClientError) and bool(self.view.nodes)

    def absence(self, for_s: float) -> Exception | None:
        """What has kept somebody waiting for nodes for so long. That all of them are away says more than who is."""
        since_s = self.clock.monotonic_s() - for_s
        absences = [backoff.absence for backoff in self.waiting if backoff.began_s <= since_s]
        return next((self._out_of_touch or absence for absence in absences if absence is not None), None)

    def hurry(self) -> None:
        """From now on nodes that do not answer are waited for no longer than anything else that may pass."""
        self.settings = replace(self.settings, away_for_s=None)

    # Connections.

    async def any_connection(self) -> Connection:
        """A connection that works, or a new one: to a node that we know, else to a bootstrap address."""
        if self._guide is None or self._guide.is_lost:
            self._guide = await self._reach_anybody()
        return self._guide

    def ask_another(self) -> None:
        """What we were told led nowhere: a node that is cut off from the others tells what was, as long as that lasts.

        One that we have no connection to is not waited for, and asked the next time: it may not be there at all.
        """
        others = [address for address in self._addresses() if self._guide is None or address != self._guide.address]
        if not others:
            return
        other = others[int(self.entropy.fraction() * len(others))]
        connection = self._pool.get_nowait(other)
        if connection is not None:
            self._guide = connection
        else:
            self._pool.open_soon(other)

    async def _reach_anybody(self) -> Connection:
        connection = self._pool.any_shared()
        if connection is not None:
            return connection
        backoff = RetryBackoff(self, self.settings.reach_for_s)
        while True:
            troubles: list[str] = []
            for address in self._addresses():
                try:
                    return await self._pool.get(address)
                except ConnectionLost as trouble:
                    troubles.append(str(trouble))
            await backoff.wait_or_raise(ClusterUnreachable(_unreachable(troubles)))

    async def node_connection(self, node_id: int, lane: str = MAIN_LANE) -> Connection:
        """The connection to one node, at the address that the cluster gives for it. One attempt.

        `lane` names a connection apart from that which all others share: see `new_lane`. NeverReached if nothing has
        ever answered there: the address may be wrong.
        """
        node = self.view.nodes.get(node_id)
        if node is None:
            raise ConnectionLost(f"node {node_id} is not known to the cluster")
        try:
            return await self._pool.get(node.address, lane)
        except ConnectionLost as trouble:
            if node.address in self._bootstrap:
                raise
            kind = ConnectionLost if node.address in self._pool.reached else NeverReached
            raise kind(_advertised_wrongly(node, trouble)) from trouble

    def new_lane(self, purpose: str) -> str:
        """A name for connections that nobody else uses. Whoever waits long holds up what is asked behind it."""
        return self._pool.new_lane(purpose)

    def close_lane(self, lane: str) -> None:
        """Close the connections of this name. Requests under way on them fail with ConnectionLost."""
        self._pool.close_lane(lane)

    def _addresses(self) -> list[Address]:
        """Nodes that we know first: bootstrap addresses may be long out of date. Each address once."""
        known = [node.address for node in self.view.nodes.values()]
        return list(dict.fromkeys([*known, *self._bootstrap]))

    # Metadata.

    async def _refresh(self) -> ClusterView:
        try:
            self.view = await self._ask_metadata(list(self._topics))
        except ClientError as trouble:
            self._out_of_touch = trouble
            raise
        self._out_of_touch = None
        now_s = self.clock.monotonic_s()
        for name in self.view.topics:
            self._topics[name] = now_s
        return self.view

    async def _ask_metadata(self, names: list[str] | None) -> ClusterView:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = await self.ask(MetadataRequest(topics, allow_auto_topic_creation=False), MetadataResponse)
        refuse_unless_ok(answer.error_code, "Metadata")
        return view_of(answer)


class RetryBackoff:
    """Waits between attempts, longer each time, until the time is up. Each attempt may have another node to ask.

    The time is `limit_s`, or, without it, what the cluster's settings say of the trouble. Then use it with `with`, or
    call `end`: whoever waits for nodes is known to the cluster, which tells of it.
    """

    def __init__(self, cluster: Cluster, limit_s: float | None = None) -> None:
        self.limit_s = limit_s
        self.began_s = cluster.clock.monotonic_s()
        self.absence: Exception | None = None
        """What is waited for, if it is nodes that do not answer."""
        self._cluster = cluster
        self._backoff_s = cluster.settings.backoff_first_s

    def __enter__(self) -> RetryBackoff:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """The time counts from now on."""
        self.began_s = self._cluster.clock.monotonic_s()

    def end(self) -> None:
        """Nothing is waited for any more."""
        self._cluster.waiting.pop(self, None)

    async def wait_or_raise(self, trouble: Exception) -> None:
        """Sleep until the next attempt; or raise `trouble` if the time is up."""
        limit_s = self.limit_s
        if limit_s is None:
            self._note(trouble)
            limit_s = self._cluster.retry_limit_s(trouble)
        left_s = self.began_s + limit_s - self._cluster.clock.monotonic_s()
        if left_s <= 0:
            raise trouble
        self._cluster.ask_another()
        # Clients that lost the same node must not all come back in the same instant.
        jitter = 0.8 + 0.4 * self._cluster.entropy.fraction()
        await asyncio.sleep(min(left_s, self._backoff_s * jitter))
        self._backoff_s = min(self._backoff_s * 2, self._cluster.settings.backoff_max_s)

    def _note(self, trouble: Exception) -> None:
        cluster = self._cluster
        was_absence, is_absence = self.absence is not None, cluster.is_absence(trouble)
        if was_absence and not is_absence and cluster.settings.away_for_s is not None:
            self.begin()  # those who are back need time to find their places
        self.absence = trouble if is_absence else None
        cluster.waiting[self] = None


def system_cluster(bootstrap: str, settings: ClusterSettings | None = None) -> Cluster:
    """A cluster reached over real sockets: `host:port`, or several with commas between. It connects when it is first
    asked.

    ValueError if that is no address.
    """
    from headrace.runtime.clock import SystemClock  # noqa: PLC0415 - the simulator brings its own
    from headrace.runtime.entropy import SystemEntropy  # noqa: PLC0415
    from headrace.runtime.network import SystemNetwork  # noqa: PLC0415

    return Cluster(parse_addresses(bootstrap), SystemNetwork(), SystemClock(), SystemEntropy(), settings)


async def _ended(task: asyncio.Task[T]) -> None:
    """Until it has ended, well or not."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task.add_done_callback(lambda _: None if ended.done() else ended.set_result(None))
    await ended


def no_such_partition(topic: Topic, partition: int) -> Refusal:
    """What to raise for a partition that the topic does not have."""
    return Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic {topic.name!r} has no partition {partition}; it has 0 to {len(topic.partitions) - 1}",
    )


def _topic_refusal(name: str, code: ErrorCode) -> Refusal:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Refusal(code, f"there is no topic {name!r}")
    return Refusal(code, in_words(code, f"topic {name!r}", f"DESCRIBE on topic {name!r}"))


def _unreachable(troubles: list[str]) -> str:
    tried = "; ".join(troubles)
    return (
        f"no node of the cluster answers ({tried}). Check that a node runs there (`headrace serve`), and that "
        "--bootstrap-server names its Kafka address"
    )


def _advertised_wrongly(node: Node, trouble: ClientError) -> str:
    return (
        f"node {node.node_id} says that it is reached at {node.address}, but it is not ({trouble}). Either it has just "
        "stopped (`headrace cluster status` shows that soon), or this name and port do not lead to it from here: then "
        "correct the address that it advertises (--advertise)"
    )
