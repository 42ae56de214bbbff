"""How one run of a pipeline is doing, as a value: what it tells of itself, and what can be concluded from it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headrace_spark.pipeline.status.query_status import QueryStatus, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping


HEARTBEAT_S = 5.0  # how often a run renews its record
SILENT_AFTER_S = 30.0  # six beats missed: the run, its machine or its network is gone
_TIMES = ("started_at", "updated_at", "error_at")


class RunState(StrEnum):
    """What a run is doing."""

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
        """Whether the run has ended, in whatever way."""
        return self in {RunState.FINISHED, RunState.FAILED, RunState.STOPPED}


@dataclass(frozen=True, slots=True)
class RunStatus:
    """All that a run tells of itself: the value of its record."""

    name: str
    run_id: str
    state: RunState
    started_at: datetime
    updated_at: datetime
    host: str
    pid: int
    master: str
    queries: tuple[QueryStatus, ...] = ()
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
            return self.state is not RunState.FAILED
        return self.is_alive(now) and self.state is not RunState.DEGRADED

    def silent_s(self, now: datetime) -> float:
        """How long it was not heard of."""
        return (now - self.updated_at).total_seconds()

    @property
    def where(self) -> str:
        """Which process it is, for people."""
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        """As it stands in the run's record."""
        facts = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in _TIMES:
            facts[name] = None if facts[name] is None else time_text(facts[name])
        facts["queries"] = [query.to_json() for query in self.queries]
        return facts

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> RunStatus:
        """Unknown keys are passed over: a newer version may say more."""
        known = {item.name: facts[item.name] for item in fields(cls) if item.name in facts}
        known["state"] = _state_from_text(facts["state"])
        known.update({name: datetime.fromisoformat(facts[name]) for name in _TIMES if facts.get(name) is not None})
        known["sink_ids"] = tuple(facts.get("sink_ids", ()))
        known["queries"] = tuple(QueryStatus.from_json(query) for query in facts.get("queries", ()))
        return cls(**known)


class AlreadyRunning(Exception):
    """A pipeline runs once at a time: two runs would share one checkpoint."""

    def __init__(self, other: RunStatus) -> None:
        super().__init__(f"pipeline {other.name!r} is {other.state} already, as {other.where}")
        self.other = other


def new_run(name: str, run_id: str, master: str, now: datetime) -> RunStatus:
    """The first status of a run of this process."""
    return RunStatus(name, run_id, RunState.STARTING, now, now, socket.gethostname(), os.getpid(), master)


def with_past(run: RunStatus, before: RunStatus) -> RunStatus:
    """A run that follows another knows what that one went through: to start anew heals nothing by itself."""
    queries = tuple(query.inherited() for query in before.queries)
    known = replace(run, queries=queries, checkpoint=before.checkpoint, group=before.group, sink_ids=before.sink_ids)
    return replace(known, error=before.error, error_at=before.error_at, error_in=before.error_in)


def now_utc() -> datetime:
    """The time as runs write it: every machine means the same."""
    return datetime.now(UTC)


def renewed(run: RunStatus, **changes: Any) -> RunStatus:
    """The same run as it is now, with these changes."""
    return replace(run, updated_at=now_utc(), **changes)


def _state_from_text(text: str) -> RunState:
    """A state that only newer versions know counts as running, so that the run is not taken for one that has ended."""
    try:
        return RunState(text)
    except ValueError:
        return RunState.RUNNING
