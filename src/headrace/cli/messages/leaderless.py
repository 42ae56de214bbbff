"""Partitions that nobody leads: they hold up nothing but themselves, and whoever reads is told which they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.cli.terminal.complaints import Complaint
from headrace.cli.terminal.output import talk
from headrace.cli.terminal.session import RETRY_FOR_S
from headrace.client.errors import ClientError
from headrace.model.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition

LOOK_S = 1.0
ELECTION_S = 5.0  # a new leader is found in less: not worth a word


class LeaderWatch:
    """`look` between two polls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._missing_since_s: dict[TopicPartition, float] = {}
        self._told: dict[TopicPartition, bool] = {}
        """Which were said to have no leader, and whether they have had one since, while they were not ours."""
        self._look_due_s = 0.0

    async def look(self, names: Collection[TopicPartition]) -> None:
        """Say once which of these have no leader, and again when they have one. May be called often."""
        now_s = time.monotonic()
        if now_s < self._look_due_s:
            return
        self._look_due_s = now_s + LOOK_S
        if self._missing_since_s and not await self._is_refreshed():
            return  # nobody can say who leads what; whoever reads meets the same trouble, and tells
        self._missing_since_s = {
            name: self._missing_since_s.get(name, now_s) for name in names if is_leaderless(self._cluster, name)
        }
        self._tell(names)

    @property
    def given_up(self) -> list[TopicPartition]:
        """Those that have had no leader for as long as a person waits."""
        return self._missing_for(RETRY_FOR_S)

    async def _is_refreshed(self) -> bool:
        try:
            await self._cluster.refresh()
        except (ClientError, Refusal):
            return False
        return True

    def _missing_for(self, duration_s: float) -> list[TopicPartition]:
        now_s = time.monotonic()
        return [name for name, since_s in self._missing_since_s.items() if now_s - since_s >= duration_s]

    def _tell(self, names: Collection[TopicPartition]) -> None:
        lost = [name for name in self._missing_for(ELECTION_S) if self._told.get(name, True)]
        if lost:
            talk(f"{no_leader(lost)}; what the others have is read meanwhile")
        led = [name for name in self._told if not is_leaderless(self._cluster, name)]
        returned = [name for name in led if name in names]
        if returned:
            talk(f"somebody leads {listed(returned)} again")
        # One that is nobody's or another member's for a while is not back yet: it may be ours again in a moment.
        self._told.update(dict.fromkeys(led, True))
        self._told.update(dict.fromkeys(lost, False))
        for name in returned:
            del self._told[name]


def is_leaderless(cluster: Cluster, name: TopicPartition) -> bool:
    """True if it exists, as far as is known, and nobody leads it."""
    return name.topic in cluster.view.topics and cluster.leader_of(name) is None


def not_read(names: Iterable[TopicPartition]) -> Complaint:
    """At the end of all that could be read."""
    return Complaint(
        f"{no_leader(names)}: not read to the end, as everything else was",
        "`headrace topics describe` shows the partitions, `headrace cluster status` which nodes are missing",
    )


def no_leader(names: Iterable[TopicPartition]) -> str:
    return f"no node that is alive leads {listed(names)}"


def listed(names: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(names)))
