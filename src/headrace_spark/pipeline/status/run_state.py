"""What pipelines are doing, told through the cluster: any client can ask, from any machine.

Each run keeps one record in a compacted topic: its key is the pipeline's name, its value a JSON object. The run writes
it again every few seconds; a record that is not renewed belongs to a run that died. A request to stop is a record
of its own, which names the run that it means. Nothing here needs Spark.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.consumer import AssignedConsumer
from headrace.client.reading.offsets import Edge, find_bounds
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace_spark.pipeline.status.query_state import QueryState, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.batches.records import Record

TOPIC = "__headrace_pipelines"
PARTITION = TopicPartition(TOPIC, 0)
"""The only one: the order of its records decides between two runs of one pipeline."""
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # Whoever asks reads the whole topic: small segments are compacted soon.
    "segment.bytes": str(4 << 20),
    "segment.ms": str(3_600_000),
}
HEARTBEAT_S = 5.0  # how often a run renews its record
SILENT_AFTER_S = 30.0  # six beats missed: the run, its machine or its network is gone
_TIMES = ("started_at", "updated_at", "error_at")
STOP_SUFFIX = "/stop"  # a slash cannot be part of a pipeline's name


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    """It goes on, but some query fails, and has got through nothing since."""
    STOPPING = "stopping"
    FINISHED = "finished"
    """It did all there was to do."""
    FAILED = "failed"
    STOPPED = "stopped"
    """Somebody asked it to."""

    @property
    def is_over(self) -> bool:
        return self in {State.FINISHED, State.FAILED, State.STOPPED}


@dataclass(frozen=True, slots=True)
class RunState:
    name: str
    run_id: str
    state: State
    started_at: datetime
    updated_at: datetime
    host: str
    pid: int
    master: str
    queries: tuple[QueryState, ...] = ()
    restarts: int = 0
    error: str | None = None
    """The last one: why it failed, or why it had to start again, also if it has got over it."""
    error_at: datetime | None = None
    error_in: str | None = None
    """The query that failed; None if it was none of them."""
    checkpoint: str | None = None
    """Where the last run that began anything keeps its progress."""
    group: str | None = None
    """The consumer group that shows it."""
    sink_ids: tuple[str, ...] = ()
    """The transactional ids that its topics are written with; those of earlier checkpoints as long as they may have
    left something in the cluster.
    """

    def is_alive(self, now: datetime) -> bool:
        """As far as one can tell: it is not over, and was heard of lately."""
        return not self.state.is_over and self.silent_s(now) < SILENT_AFTER_S

    def is_well(self, now: datetime) -> bool:
        """It ended as it should, or is alive and no query of it fails."""
        if self.state.is_over:
            return self.state is not State.FAILED
        return self.is_alive(now) and self.state is not State.DEGRADED

    def silent_s(self, now: datetime) -> float:
        return (now - self.updated_at).total_seconds()

    @property
    def place(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        facts = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in _TIMES:
            facts[name] = None if facts[name] is None else time_text(facts[name])
        facts["queries"] = [query.to_json() for query in self.queries]
        return facts

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> RunState:
        """Unknown keys are passed over: a newer version may say more."""
        known = {item.name: facts[item.name] for item in fields(cls) if item.name in facts}
        known["state"] = _state_from_text(facts["state"])
        known.update({name: datetime.fromisoformat(facts[name]) for name in _TIMES if facts.get(name) is not None})
        known["sink_ids"] = tuple(facts.get("sink_ids", ()))
        known["queries"] = tuple(QueryState.from_json(query) for query in facts.get("queries", ()))
        return cls(**known)


@dataclass(slots=True)
class Board:
    """All that the topic says."""

    runs: dict[str, RunState] = field(default_factory=dict)
    next_offset: int = 0
    """Where to read on."""


class AlreadyRunning(Exception):
    """A pipeline runs once at a time: two runs would share one checkpoint."""

    def __init__(self, other: RunState) -> None:
        super().__init__(f"pipeline {other.name!r} is {other.state} already, as {other.place}")
        self.other = other


def new_run(name: str, run_id: str, master: str, now: datetime) -> RunState:
    return RunState(name, run_id, State.STARTING, now, now, socket.gethostname(), os.getpid(), master)


def with_past(run: RunState, before: RunState) -> RunState:
    """A run that follows another knows what that one went through: to start anew heals nothing by itself."""
    queries = tuple(query.inherited() for query in before.queries)
    known = replace(run, queries=queries, checkpoint=before.checkpoint, group=before.group, sink_ids=before.sink_ids)
    return replace(known, error=before.error, error_at=before.error_at, error_in=before.error_in)


def now_utc() -> datetime:
    return datetime.now(UTC)


async def read_board(cluster: Cluster) -> Board:
    """The latest record of each pipeline."""
    board = Board()
    try:
        first, end = (await find_bounds(cluster, [PARTITION]))[PARTITION]
    except Refusal as refusal:
        if refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return board  # nobody ever ran a pipeline here
        raise
    board.next_offset = end
    if first == end:
        return board
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({PARTITION: Edge.EARLIEST}, {PARTITION: end})
        while not consumer.is_finished:
            for record in (await consumer.poll()).get(PARTITION, ()):
                _note(board.runs, record)
    return board


async def ask_to_stop(cluster: Cluster, run: RunState) -> None:
    """The run sees it within a second, and ends after the batches that it is at."""
    request = {
        "name": run.name,
        "run_id": run.run_id,
        "requested_by": f"process {os.getpid()} on {socket.gethostname()}",
    }
    async with BatchingProducer(cluster) as producer:
        await (await producer.send(TOPIC, (run.name + STOP_SUFFIX).encode(), _encode(request), partition=0))


async def write_run(producer: BatchingProducer, run: RunState) -> int:
    """Returns the offset of the record."""
    delivered = await (await producer.send(TOPIC, run.name.encode(), _encode(run.to_json()), partition=0))
    return delivered.offset


async def ensure_topic(cluster: Cluster) -> None:
    try:
        await Admin(cluster).create_topic(TOPIC, partitions=1, configs=TOPIC_CONFIGS)
    except Refusal as refusal:
        if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def run_of(record: Record) -> RunState | None:
    """None if the record is something else: a request, a deletion, or from a version that writes it differently."""
    if record.key is None or record.value is None or bytes(record.key).decode(errors="replace").endswith(STOP_SUFFIX):
        return None
    try:
        return RunState.from_json(json.loads(bytes(record.value)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def stop_request_of(record: Record) -> tuple[str, str] | None:
    """The run that shall stop, and who wants it."""
    if record.key is None or record.value is None or not bytes(record.key).endswith(STOP_SUFFIX.encode()):
        return None
    try:
        request = json.loads(bytes(record.value))
        return request["run_id"], request["requested_by"]
    except (ValueError, KeyError, TypeError):
        return None


def renewed(run: RunState, **changes: Any) -> RunState:
    return replace(run, updated_at=now_utc(), **changes)


def _note(runs: dict[str, RunState], record: Record) -> None:
    run = run_of(record)
    if run is not None:
        runs[run.name] = run
    elif record.key is not None and record.value is None:
        runs.pop(bytes(record.key).decode(errors="replace"), None)


def _state_from_text(text: str) -> State:
    """A state that a newer version has and this one does not know is one of a run that goes on: nobody may take it
    for one that has ended.
    """
    try:
        return State(text)
    except ValueError:
        return State.RUNNING


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
