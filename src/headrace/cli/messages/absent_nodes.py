"""Nodes that are away while somebody follows a topic: they are waited for, and whoever waits is told so."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.cli.terminal.output import talk
from headrace.client.errors import ClusterUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.client.connections.cluster import Cluster

LOOK_S = 1.0
HICCUP_S = 5.0  # others lead in less, and a small node has started again: not worth a word


@asynccontextmanager
async def told_of_absences(cluster: Cluster) -> AsyncIterator[None]:
    """Say once that nodes are waited for, and once that they answer again, also in the middle of a step that waits."""
    watching = asyncio.get_running_loop().create_task(_watch(cluster), name="watch for absences")
    try:
        yield
    finally:
        watching.cancel()


async def _watch(cluster: Cluster) -> None:
    is_told = False
    while True:
        await asyncio.sleep(LOOK_S)
        # A wait that was told of is over when nobody waits any more, however short the others have waited.
        absence = cluster.absence(0.0 if is_told else HICCUP_S)
        if (absence is not None) != is_told:
            talk("the cluster answers again" if absence is None else waiting_for(absence))
            is_told = not is_told


def waiting_for(absence: Exception) -> str:
    if isinstance(absence, ClusterUnreachable):
        return "no node of the cluster answers; waiting until one does"
    return f"a node that is needed does not answer ({absence}); waiting until it does, or another takes its place"
