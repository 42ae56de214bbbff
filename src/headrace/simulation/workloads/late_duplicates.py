"""Requests that arrive a second time, late, over another connection.

A client that loses its connection tries again over a new one, and the first attempt may still lie in a buffer
somewhere. Here this happens far more often than in life: what clients send is overheard, and some of it is sent again
by a host of its own, which does not care for the answers.

Only requests that a node must know for late ones are repeated. Of others it cannot tell (a plain produce, the older
flow of transactions, a KIP-848 member that joins, or one in its present epoch), so nothing is promised for them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.frames import LENGTH_SIZE, decode_request
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.join_group import JoinGroupRequest
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from headrace.runtime.network import Address, Chunk, Link, Listener, Network, Receiver
    from headrace.simulation.workloads.context import WorkloadContext
    from headrace.wire.api import Message

HOST: Final = "echo"
DELAYS_S: Final = (0.02, 0.5, 3.0, 10.0)  # at most: within a request, within a session, and after its end
PATIENCE_S: Final = 12.0  # until a connection is closed, answered or not

# The lowest version of each API in which a node can tell a late request from a new one.
REPEATED_FROM: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.OFFSET_COMMIT: 0,
    ApiKey.JOIN_GROUP: 4,
    ApiKey.HEARTBEAT: 0,
    ApiKey.LEAVE_GROUP: 0,
    ApiKey.SYNC_GROUP: 0,
    ApiKey.INIT_PRODUCER_ID: 3,
    ApiKey.END_TXN: 5,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
}


class LateDuplicates:
    """`network` for clients that are to be overheard. `stop` it when no more is to go wrong."""

    def __init__(self, context: WorkloadContext, fraction: float, on_duplicate: Callable[[], None]) -> None:
        """`fraction` of all requests are repeated."""
        self._context = context
        self._fraction = fraction
        self._on_duplicate = on_duplicate
        self._chance: Random = context.random("echo")
        self._tasks: dict[asyncio.Task[None], None] = {}

    def network(self, inner: Network) -> Network:
        return _OverheardNetwork(inner, self) if self._fraction else inner

    def hear(self, address: Address, frame: bytes) -> None:
        if self._chance.random() >= self._fraction:
            return
        api_key, version = int.from_bytes(frame[4:6]), int.from_bytes(frame[6:8])
        if version < REPEATED_FROM.get(ApiKey(api_key), version + 1):
            return
        _, message = decode_request(frame[LENGTH_SIZE:])
        if _is_recognisable(message):
            delay_s = self._chance.choice(DELAYS_S) * self._chance.random()
            host = self._context.cluster.client_host(HOST)
            task = host.start(self._repeat(address, frame, message, delay_s), "repeat a request")
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def stop(self) -> None:
        self._fraction = 0.0
        for task in list(self._tasks):
            task.cancel()

    async def _repeat(self, address: Address, frame: bytes, message: Message, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        if isinstance(message, ConsumerGroupHeartbeatRequest) and not self._context.groups.is_stale(
            message.group_id, message.member_id, message.member_epoch
        ):
            return
        try:
            link = await self._context.world(HOST).network.connect(address, _Deaf())
        except OSError:
            return
        try:
            self._note(message)
            self._on_duplicate()
            link.send((frame,))
            await asyncio.sleep(PATIENCE_S)
        finally:
            link.abort()

    def _note(self, message: Message) -> None:
        """A commit that comes late may count, unless it is one of an earlier generation."""
        if isinstance(message, OffsetCommitRequest):
            offsets = {
                TopicPartition(topic.name, part.partition_index): part.committed_offset
                for topic in message.topics
                for part in topic.partitions
            }
            generation = message.generation_id_or_member_epoch
            groups = self._context.groups
            is_stale = groups.is_stale(message.group_id, message.member_id, generation)
            groups.begin_commit(message.group_id, offsets, is_stale=is_stale)


def _is_recognisable(message: Message) -> bool:
    match message:
        case ProduceRequest():
            return message.transactional_id is not None
        case InitProducerIdRequest():
            return message.transactional_id is not None
        case JoinGroupRequest():
            return bool(message.member_id)
        case ConsumerGroupHeartbeatRequest():
            return message.member_epoch > 0
        case _:
            return True


class _OverheardNetwork:
    def __init__(self, inner: Network, duplicates: LateDuplicates) -> None:
        self._inner = inner
        self._duplicates = duplicates

    async def listen(self, address: Address, receiver: Callable[[], Receiver]) -> Listener:
        return await self._inner.listen(address, receiver)

    async def connect(self, address: Address, receiver: Receiver) -> Link:
        return await self._inner.connect(address, _Overheard(receiver, self._duplicates))


class _Overheard:
    """A receiver that is given an overheard link."""

    def __init__(self, inner: Receiver, duplicates: LateDuplicates) -> None:
        self._inner = inner
        self._duplicates = duplicates
        self.buffer = inner.buffer
        self.received = inner.received
        self.drained = inner.drained
        self.disconnected = inner.disconnected

    def connected(self, link: Link) -> None:
        self._inner.connected(_OverheardLink(link, self._duplicates))


class _OverheardLink:
    """A link whose every chunk is one whole request, as our client sends them."""

    def __init__(self, inner: Link, duplicates: LateDuplicates) -> None:
        self._inner = inner
        self._duplicates = duplicates
        self.peer = inner.peer
        self.local = inner.local
        self.since_s = inner.since_s
        self.certificate = inner.certificate
        self.pause_reading = inner.pause_reading
        self.resume_reading = inner.resume_reading
        self.close = inner.close
        self.abort = inner.abort

    @property
    def queued_bytes(self) -> int:
        return self._inner.queued_bytes

    def send(self, chunks: Iterable[Chunk]) -> None:
        frames = list(chunks)
        self._inner.send(frames)
        for frame in frames:
            assert isinstance(frame, bytes)
            self._duplicates.hear(self.peer, frame)


class _Deaf:
    """Receives answers that nobody wants."""

    def __init__(self) -> None:
        self._room = bytearray(4096)

    def connected(self, link: Link) -> None: ...

    def buffer(self) -> memoryview:
        return memoryview(self._room)

    def received(self, count: int) -> None: ...

    def drained(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None: ...
