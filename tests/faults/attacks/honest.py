"""The honest client: it writes a record, reads it back, and now and then asks what clients ask, and times each answer.

One request is under way at a time, and one is due every few milliseconds. While a node stands still, requests that
were due are not sent, so a second of silence would be a single slow request among thousands. Therefore each request
that took longer than the time between two counts for those, too, that would have waited with it.
"""

from __future__ import annotations

import gc
import math
import time
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.wire.batches.header import HEADER_SIZE, read_header
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import RequestHeader, decode_response, encode_request
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.faults.hostile import Hostile, produce_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.wire.api import Message
    from tests.faults.attacks.apart import Line

INTERVAL_S = 0.004
HANG_S = 5.0  # no machine is so busy that an answer of a healthy node takes longer
FAILURES_KEPT = 5
GROUP = "honest"


class Window(NamedTuple):
    """What the honest client saw in a stretch of time."""

    requests: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    failures: list[str]
    written: int
    """Records that were acknowledged since the start."""
    committed: int
    """The offset that was last committed; -1 if none was."""


class HonestClient:
    def __init__(self, port: int, topic: str, *, reconnects: bool, commits: bool) -> None:
        self._port = port
        self._topic = topic
        self._reconnects = reconnects
        self._others = [self._metadata, self._find_coordinator, self._look_up, *([self._commit] if commits else [])]
        self._connection: Hostile | None = None
        self.times_s: list[float] = []
        self.failures: list[str] = []
        self.written = 0
        self.committed = -1

    def requests(self) -> Iterator[None]:
        """One request at each step, for ever."""
        for other in cycle(self._others):
            for _ in range(4):
                offset, value = self._produce()
                yield
                self._fetch(offset, value)
                yield
            other()
            yield
            if self._reconnects:
                self.leave()

    def leave(self) -> None:
        if self._connection is not None:
            self._connection.socket.close()
            self._connection = None

    def _ask(self, message: Message, version: int) -> Any:
        began_s = time.perf_counter()
        if self._connection is None:
            self._connection = Hostile(self._port)
            self._connection.socket.settimeout(HANG_S)
        header = RequestHeader(message.API_KEY, version, 1, "honest")
        self._connection.send(encode_request(header, message))
        frame = self._connection.frame()
        self.times_s.append(time.perf_counter() - began_s)
        if frame is None:
            raise ConnectionResetError(f"{type(message).__name__}: the connection was closed")
        return decode_response(frame, message.API_KEY, version)[1]

    def _produce(self) -> tuple[int, bytes]:
        value = b"%032d" % self.written
        request = produce_request(self._topic, bytes(encode_batch([(int(time.time() * 1000), b"k", value, ())])))
        answered = self._ask(request, 8).responses[0].partition_responses[0]
        _expect(answered.error_code == 0, f"Produce: error {answered.error_code}")
        self.written += 1
        return answered.base_offset, value

    def _fetch(self, offset: int, value: bytes) -> None:
        wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=4096)
        request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(self._topic, partitions=[wanted])])
        answered = self._ask(request, 11).responses[0].partitions[0]
        _expect(answered.error_code == 0, f"Fetch: error {answered.error_code}")
        records = bytes(answered.records or b"")
        _expect(len(records) > HEADER_SIZE, "Fetch: nothing came")
        _expect(read_header(records).base_offset == offset and value in records, "Fetch: this is not what was written")

    def _metadata(self) -> None:
        (topic,) = self._ask(MetadataRequest([MetadataRequestTopic(name=self._topic)]), 7).topics
        _expect(topic.error_code == 0 and topic.partitions[0].leader_id >= 0, "Metadata: no leader")

    def _find_coordinator(self) -> None:
        answer = self._ask(FindCoordinatorRequest(key=GROUP), 2)
        _expect(answer.error_code == 0, f"FindCoordinator: error {answer.error_code}")

    def _commit(self) -> None:
        place = OffsetCommitRequestPartition(0, committed_offset=self.written)
        request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(self._topic, partitions=[place])])
        code = self._ask(request, 7).topics[0].partitions[0].error_code
        _expect(code == 0, f"OffsetCommit: error {code}")
        self.committed = self.written

    def _look_up(self) -> None:
        wanted = ListOffsetsTopic(self._topic, [ListOffsetsPartition(0, timestamp=-1)])
        (found,) = self._ask(ListOffsetsRequest(topics=[wanted]), 5).topics[0].partitions
        _expect(found.error_code == 0 and found.offset >= self.written, f"ListOffsets: {found}")

    def window(self) -> Window:
        """What was seen since the last one."""
        times_s, self.times_s = self.times_s, []
        failures, self.failures = self.failures, []
        counted_s = sorted(with_those_that_waited(times_s))
        return Window(
            len(times_s),
            1000 * percentile(counted_s, 0.5),
            1000 * percentile(counted_s, 0.99),
            1000 * max(times_s, default=0.0),
            failures[:FAILURES_KEPT],
            self.written,
            self.committed,
        )


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)


def with_those_that_waited(times_s: Sequence[float]) -> list[float]:
    counted = list(times_s)
    for time_s in times_s:
        waited_s = time_s - INTERVAL_S
        while waited_s >= INTERVAL_S:
            counted.append(waited_s)
            waited_s -= INTERVAL_S
    return counted


def percentile(ascending: Sequence[float], share: float) -> float:
    return ascending[math.ceil(share * len(ascending)) - 1] if ascending else 0.0


def be_honest(line: Line, port: int, topic: str, *, reconnects: bool = False, commits: bool = True) -> Window:
    """Ask until told to stop; tell a `Window` whenever asked for one. Nothing is asked again that has failed."""
    client = HonestClient(port, topic, reconnects=reconnects, commits=commits)
    gc.freeze()
    gc.disable()
    steps = client.requests()
    line.wait_begin()
    due_s = time.perf_counter()
    while not line.is_over.is_set():
        try:
            next(steps)
        except (OSError, ValueError) as trouble:
            client.failures.append(f"{type(trouble).__name__}: {trouble}")
            client.leave()
            steps = client.requests()
        if not line.asked.empty():
            line.asked.get()
            line.say("window", client.window())
        due_s = max(due_s + INTERVAL_S, time.perf_counter())
        time.sleep(max(0.0, due_s - time.perf_counter()))
    return client.window()
