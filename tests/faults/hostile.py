"""What the hostile tests share: raw connections that may send anything, and a node that is watched from outside.

The node is a process of its own, so its memory, its descriptors and its log can be judged. While it is attacked a
second client keeps talking to it, and after each attack the node must be as it was.
"""

from __future__ import annotations

import re
import resource
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.wire.api import request_class
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import RequestHeader, decode_response, encode_request
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.faults.node_process import NodeProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.wire.api import Message

PATIENCE_S = 60.0  # nothing here is measured; this only ends a test that hangs
MIB = 1 << 20
KEPT_MIB = 48  # what the node may keep of an attack: freed memory that the allocator has not given back
HEALTHY_TOPIC = "healthy"
LENGTH = struct.Struct(">i")


class Hostile:
    """A connection that sends what it is told, and reads whole frames."""

    def __init__(self, port: int, address: str | None = None) -> None:
        """`address` is where it comes from, if that matters."""
        source = None if address is None else (address, 0)
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, raw: bytes) -> None:
        """The node may close the connection in the middle of it: that is an answer, too."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(raw)

    def send_until_nobody_takes_more(self, raw: bytes) -> None:
        self.socket.settimeout(1.0)
        with suppress(TimeoutError):
            while True:
                self.socket.send(raw)
        self.socket.settimeout(PATIENCE_S)

    def vanish(self) -> None:
        """Reset the connection, as a process that is killed with unread bytes does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def frame(self) -> bytes | None:
        """The next answer without its length; None if the connection is closed."""
        try:
            head = self._exactly(4)
            return None if head is None else self._exactly(LENGTH.unpack(head)[0])
        except ConnectionResetError:
            return None

    def _exactly(self, count: int) -> bytes | None:
        gathered = bytearray()
        while len(gathered) < count:
            piece = self.socket.recv(min(count - len(gathered), MIB))
            if not piece:
                return None
            gathered += piece
        return bytes(gathered)

    def is_refused(self) -> bool:
        """True once the node has closed the connection without an answer."""
        return self.frame() is None

    def begin(self, message: Message, version: int, client_id: str = "hostile") -> None:
        self._correlation_id += 1
        header = RequestHeader(message.API_KEY, version, self._correlation_id, client_id)
        self.send(encode_request(header, message))

    def begin_many(self, message: Message, version: int, count: int) -> None:
        """Pipeline a request with rising numbers, from a thread of its own so that answers can be read meanwhile."""
        frame = encode_request(RequestHeader(message.API_KEY, version, 0, "hostile"), message)
        head, tail = frame[:8], frame[12:]
        first = self._correlation_id + 1
        self._correlation_id += count
        frames = b"".join(head + LENGTH.pack(number) + tail for number in range(first, first + count))
        threading.Thread(target=self.send, args=(frames,), daemon=True).start()

    def expect_in_order(self, count: int) -> None:
        """Read answers to the last `count` requests, and that each has its number."""
        for number in range(self._correlation_id + 1 - count, self._correlation_id + 1):
            frame = self.frame()
            assert frame is not None, f"the connection was closed before answer {number}"
            assert frame[:4] == LENGTH.pack(number)

    def answer(self, message: Message, version: int) -> Any:
        frame = self.frame()
        assert frame is not None, "the connection was closed instead of answered"
        correlation_id, response = decode_response(frame, message.API_KEY, version)
        assert correlation_id == self._correlation_id
        return response

    def ask(self, message: Message, version: int, client_id: str = "hostile") -> Any:
        self.begin(message, version, client_id)
        return self.answer(message, version)

    # What several tests ask

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, replicas: int = 1
    ) -> int:
        wanted = CreatableTopic(
            name, partitions, replicas, [], [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
        )
        (created,) = self.ask(CreateTopicsRequest([wanted]), 5).topics
        return int(created.error_code)

    def produce(self, topic: str, batch: bytes | None, *, acks: int = 1, partition: int = 0, version: int = 8) -> Any:
        """What is answered for the one partition."""
        (answered,) = self.ask(produce_request(topic, batch, acks=acks, partition=partition), version).responses
        return answered.partition_responses[0]

    def fetch(self, topic: str, offset: int, *, partition: int = 0, version: int = 11, **options: int) -> Any:
        """What is answered for the one partition."""
        wanted = FetchTopic(topic, partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=MIB)])
        response = self.ask(FetchRequest(topics=[wanted], **options), version)
        return response.responses[0].partitions[0]


def produce_request(topic: str, batch: bytes | None, *, acks: int = 1, partition: int = 0) -> ProduceRequest:
    parts = [PartitionProduceData(partition, batch)]
    return ProduceRequest(None, acks, 10_000, [TopicProduceData(topic, partition_data=parts)])


def framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def request_start(api_key: int, version: int, client_id: bytes = b"hostile") -> bytes:
    """The header of a request, old form, without the length."""
    return struct.pack(">hhih", api_key, version, 7, len(client_id)) + client_id


def one_batch(value: bytes = b"value", **options: int) -> bytes:
    return bytes(encode_batch([(1_700_000_000_000, None, value, ())], **options))


def served_versions(api_key: int) -> range:
    low, high = request_class(api_key).VERSIONS
    return range(low, high + 1)


class WatchedNode:
    """A node process and what can be seen of it from outside."""

    def __init__(self, process: NodeProcess) -> None:
        self.process = process
        self.port = process.port
        self.http_port = process.http_port
        with self.connect() as client:
            assert client.create_topic(HEALTHY_TOPIC) == 0
            self.use(client)
        self.settle()

    def connect(self) -> Hostile:
        return Hostile(self.port)

    def use(self, client: Hostile) -> None:
        """Write a record and read it back, as a healthy client does."""
        written = client.produce(HEALTHY_TOPIC, one_batch(), acks=-1)
        assert written.error_code == 0
        read = client.fetch(HEALTHY_TOPIC, written.base_offset, max_wait_ms=1000, min_bytes=1)
        assert read.error_code == 0
        assert read.records

    # What it takes

    def memory_mib(self) -> float:
        return self._status("VmRSS") / 1024

    def peak_mib(self) -> float:
        return self._status("VmHWM") / 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def descriptors(self) -> list[str]:
        """What it has open, but for the logs that it keeps open on purpose. A log that is deleted counts again."""
        found = []
        for entry in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since it was listed
                found.append(str(entry.readlink()))
        return sorted(name for name in found if not name.endswith(".log"))

    def threads(self) -> int:
        return self._status("Threads")

    def _status(self, field: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)
        assert found is not None
        return int(found[1])

    def metric(self, name: str) -> float:
        with socket.create_connection(("127.0.0.1", self.http_port), timeout=PATIENCE_S) as http:
            http.sendall(b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
            text = b""
            while piece := http.recv(MIB):
                text += piece
        found = re.search(rf"^{name} (\S+)", text.decode(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def settle(self) -> None:
        """Wait until every connection of the past is gone."""
        wait_until(lambda: self.metric("headrace_connections") == 0, "all connections are gone", self._explain)

    def _explain(self) -> str:
        return self.process.log[-2000:]

    # Attacks

    @contextmanager
    def attacked(self, *, grows_mib: float = KEPT_MIB) -> Iterator[None]:
        """Run an attack. Meanwhile others are served; afterwards the node is as before.

        `grows_mib` is how far its memory may rise while the attack lasts.
        """
        log_start = len(self.process.log)
        self.settle()
        descriptors, memory_mib = self.descriptors(), self.memory_mib()
        self.forget_peak()
        with Bystander(self) as bystander:
            yield
        peak_mib = self.peak_mib()
        print(f"\nmemory +{peak_mib - memory_mib:.0f} MiB; slowest round of a bystander {bystander.slowest_s:.3f} s")
        assert peak_mib - memory_mib < grows_mib, f"memory rose from {memory_mib:.0f} to {peak_mib:.0f} MiB"
        with self.connect() as client:
            self.use(client)
        self.settle()
        wait_until(
            lambda: len(self.descriptors()) <= len(descriptors),
            "no descriptor is left open",
            lambda: f"{descriptors} before, {self.descriptors()} now",
        )
        wait_until(
            lambda: self.memory_mib() - memory_mib < KEPT_MIB,
            "memory is given back",
            lambda: f"{memory_mib:.0f} MiB before, {self.memory_mib():.0f} now",
        )
        self.check_log(log_start)

    def check_log(self, start: int = 0) -> None:
        """A traceback in the log is a bug, whatever else went well."""
        log = self.process.log[start:]
        assert "Traceback" not in log, log[-4000:]
        assert "our fault" not in log, log[-4000:]
        assert self.process.is_running, log[-4000:]


NodeT = TypeVar("NodeT", bound=WatchedNode)


class Bystander:
    """A healthy client that keeps using the node from a thread. Each answer must come; how soon is only noted."""

    def __init__(self, node: WatchedNode) -> None:
        self._node = node
        self._is_over = threading.Event()
        self._is_served = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)
        self._trouble: BaseException | None = None
        self.rounds = 0
        self.slowest_s = 0.0

    def __enter__(self) -> Bystander:
        self._thread.start()
        assert self._is_served.wait(PATIENCE_S), "the bystander is not served, even before the attack"
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(2 * PATIENCE_S)
        assert not self._thread.is_alive(), "the bystander hangs"
        assert self._trouble is None, f"the bystander suffered: {self._trouble!r}"
        assert self.rounds, "the bystander was never served"

    def _run(self) -> None:
        try:
            with self._node.connect() as client:
                while not (self._is_over.is_set() and self.rounds):
                    began_s = time.monotonic()
                    client.ask(ApiVersionsRequest(), 0)
                    self._node.use(client)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
                    self.rounds += 1
                    self._is_served.set()
                    time.sleep(0.01)
        except (OSError, AssertionError) as trouble:
            self._trouble = trouble


@contextmanager
def watched_node(
    directory: Path, *, files_max: int | None = None, kind: type[NodeT] = WatchedNode, **configs: str
) -> Iterator[NodeT]:
    """A fresh node. `files_max` is how many descriptors the system lets it have."""

    def limit_files() -> None:
        if files_max is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

    named = {name.replace("_", "."): value for name, value in configs.items()}
    with NodeProcess(directory / "data", directory / "node.log", configs=named, before_exec=limit_files) as process:
        process.start()
        yield kind(process)
        assert process.stop() == 0, process.log[-4000:]
