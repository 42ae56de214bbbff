"""The few requests that the driver itself sends. By hand, so that no client's timers are in a measure."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from bench.programs import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ANSWER_S_MAX = 60.0  # a topic of a thousand partitions is a thousand directories, each synced
CONNECT_EVERY_S = 0.001  # a cold start is measured by this grain
CREATE_TOPICS, METADATA, PRODUCE = (19, 2), (3, 1), (0, 7)


class PartitionState(NamedTuple):
    leader: int
    """A node's id; -1 if nobody leads."""
    in_sync: int
    """How many replicas are."""


def connect(port: int, *, within_s: float, is_alive: Callable[[], bool] = lambda: True) -> socket.socket:
    """Connect as soon as somebody listens, while whoever is to listen lives."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)
        except ConnectionRefusedError:
            if time.monotonic() > deadline or not is_alive():
                raise BenchError(f"nobody listens on port {port}") from None
            time.sleep(CONNECT_EVERY_S)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def create_topic(
    connection: socket.socket,
    topic: str,
    partitions: int,
    *,
    replicas: int = 1,
    configs: Mapping[str, str] | None = None,
) -> None:
    body = struct.pack(">i", 1) + _string(topic) + struct.pack(">ihii", partitions, replicas, 0, len(configs or {}))
    for name, value in (configs or {}).items():
        body += _string(name) + _string(value)
    body += struct.pack(">ib", int(ANSWER_S_MAX * 1000), 0)
    answer = _ask(connection, CREATE_TOPICS, body)
    # after the throttle time and one topic's name
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic))
    if error:
        raise BenchError(f"creating {topic} with {partitions} partitions: error {error}")


def partitions_of(connection: socket.socket, topic: str) -> list[PartitionState]:
    answer = memoryview(_ask(connection, METADATA, struct.pack(">i", 1) + _string(topic)))
    (brokers,), place = struct.unpack_from(">i", answer), 4
    for _ in range(brokers):
        place = _after_string(answer, place + 4)  # id, host
        place = _after_string(answer, place + 4)  # port, rack
    place = _after_string(answer, place + 4 + 4 + 2)  # controller, number of topics, error, name
    (count,), place = struct.unpack_from(">i", answer, place + 1), place + 5  # whether it is internal
    found = {}
    for _ in range(count):
        _, index, leader, replicas = struct.unpack_from(">hiii", answer, place)
        place += 14 + 4 * replicas
        (in_sync,) = struct.unpack_from(">i", answer, place)
        place += 4 + 4 * in_sync
        found[index] = PartitionState(leader, in_sync)
    return [found[index] for index in sorted(found)]


def produce_one(connection: socket.socket, topic: str, value: bytes, partition: int = 0) -> None:
    """One record with acks=all; returns when it is acknowledged."""
    batch = _batch_of_one(value)
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + _string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    answer = _ask(connection, PRODUCE, body)
    # after one topic's name, one partition's index
    (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
    if error:
        raise BenchError(f"producing to {topic}: error {error}")


def _ask(connection: socket.socket, api: tuple[int, int], body: bytes) -> bytes:
    request = struct.pack(">hhi", *api, 1) + _string("bench") + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)[4:]  # without the correlation id


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            raise BenchError("the node closed the connection instead of answering")
        received += more
    return received


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _after_string(answer: memoryview, place: int) -> int:
    (size,) = struct.unpack_from(">h", answer, place)
    return place + 2 + max(0, size)


def _varint(value: int) -> bytes:
    rest, encoded = value << 1 if value >= 0 else ~(value << 1), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _batch_of_one(value: bytes) -> bytes:
    # attributes, timestamp delta, offset delta, no key, value, no headers
    record = b"\0" + _varint(0) + _varint(0) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    now_ms = time.time_ns() // 1_000_000
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + _varint(len(record)) + record
    after_length = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(after_length)) + after_length
