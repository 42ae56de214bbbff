"""A node and its Kafka server on the test's own event loop, with clients on real sockets."""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from headrace.broker.access.listener_access import OPEN
from headrace.broker.build import NodePlan, build
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.servers.kafka.build import kafka_server
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import RequestHeader, decode_response, encode_request
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from headrace.broker.access.listener_access import ListenerAccess
    from headrace.broker.node import Node
    from headrace.servers.kafka.server import KafkaServer
    from headrace.wire.api import Message

LENGTH = struct.Struct(">i")
SOON_S = 20  # for what is a matter of some turns of the loop


class LivingServer:
    def __init__(self, node: Node, server: KafkaServer, address: Address) -> None:
        self.node = node
        self.server = server
        self.address = address
        self.meetings: list[KafkaServer] = []
        self._clients: list[Client] = []

    async def listen_for_nodes(self) -> Address:
        """Where other nodes would meet this one."""
        meeting = kafka_server(self.node, is_for_nodes=True)
        self.meetings.append(meeting)
        return await meeting.start(Address("127.0.0.1", 0))

    async def connect(self, address: Address | None = None, tls: ssl.SSLContext | None = None) -> Client:
        reader, writer = await asyncio.open_connection(*(address or self.address), ssl=tls)
        client = Client(reader, writer)
        self._clients.append(client)
        return client

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        node = self.node
        wanted = [NewTopic(name, partitions, 1, (), settings)]
        await node.commands.submit(
            lambda image: create_topics(image, wanted, node.view.configs, node.commands.new_topic_id)
        )

    def leased_files(self) -> int:
        """Log files that some answer still holds."""
        segments = [segment for partition in self.node.topics.partitions() for segment in partition.log.segments]
        return sum(segment.file is not None and segment.file.is_leased for segment in segments)

    async def close_clients(self) -> None:
        for client in self._clients:
            client.writer.close()
            with suppress(ConnectionError):
                await client.writer.wait_closed()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    def begin(self, message: Message, version: int) -> None:
        self._correlation_id += 1
        header = RequestHeader(message.API_KEY, version, self._correlation_id, "test")
        self.writer.write(encode_request(header, message))

    async def frame(self) -> bytes | None:
        """The next answer without its length; None if the connection is closed."""
        try:
            (size,) = LENGTH.unpack(await self.reader.readexactly(4))
            return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def ask(self, message: Message, version: int) -> Any:
        self.begin(message, version)
        frame = await self.frame()
        assert frame is not None, "the connection was closed instead of answered"
        return decode_response(frame, message.API_KEY, version)[1]

    async def pause(self) -> None:
        await asyncio.sleep(0.001)

    def vanish(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def living_server(
    directory: Path, access_of: Callable[[Node], ListenerAccess] = lambda _: OPEN, **configs: str
) -> AsyncIterator[LivingServer]:
    disk, threads = SystemDisk(directory), SystemThreads()
    world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), threads)
    named = {name.replace("_", "."): value for name, value in configs.items()}
    node = await build(world, NodePlan(configs={"headrace.durability": "written", **named}))
    try:
        await node.start()
        server = kafka_server(node, access=access_of(node))
        living = LivingServer(node, server, await server.start(Address("127.0.0.1", 0)))
        yield living
        await living.close_clients()
        for one in (server, *living.meetings):
            await one.stop()
        await node.stop()
    finally:
        threads.close()
        disk.close()


async def until(is_done: Callable[[], bool], within_s: float = 120) -> None:
    async with asyncio.timeout(within_s):
        while not is_done():
            await asyncio.sleep(0.001)


def produce(topic: str, value: bytes = b"value", *, acks: int = 1, partitions: int = 1) -> ProduceRequest:
    batch = bytes(encode_batch([(1_700_000_000_000, None, value, ())]))
    parts = [PartitionProduceData(index, batch) for index in range(partitions)]
    return ProduceRequest(None, acks, 10_000, [TopicProduceData(topic, partition_data=parts)])


def fetch(topic: str, offset: int = 0, *, max_wait_ms: int = 0, min_bytes: int = 1, **options: int) -> FetchRequest:
    part = FetchPartition(0, fetch_offset=offset, partition_max_bytes=64 << 20)
    return FetchRequest(
        topics=[FetchTopic(topic, partitions=[part])], max_wait_ms=max_wait_ms, min_bytes=min_bytes, **options
    )
