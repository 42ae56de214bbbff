"""Runs a command's work against a cluster."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, TypeVar

from headrace.cli.terminal.client_settings import chosen_client
from headrace.cli.terminal.complaints import INTERRUPTED, TERMINATED, Complaint, Interrupted
from headrace.client.connections.cluster import ClusterSettings, system_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.client.connections.cluster import Cluster

T = TypeVar("T")

CLIENT_ID = "headrace-cli"
RETRY_FOR_S = 15.0  # a person waits; longer than a leader election


def with_cluster(work: Callable[[Cluster], Awaitable[T]], *, away_for_s: float | None = None) -> T:
    """Connect, run `work`, disconnect. Ctrl-C and SIGTERM let it tidy up: store positions, leave its group.

    `away_for_s` is how long a cluster that was reached and is away now is waited for, if not as any passing trouble.
    """
    chosen = chosen_client()
    settings = ClusterSettings(
        client_id=CLIENT_ID, retry_for_s=RETRY_FOR_S, away_for_s=away_for_s, security=chosen.security
    )
    try:
        cluster = system_cluster(chosen.bootstrap_servers, settings)
    except ValueError as unusable:  # a certificate, or a key
        raise Complaint(str(unusable)) from unusable

    async def run() -> T:
        this = asyncio.current_task()
        assert this is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
        async with cluster:
            return await work(cluster)

    try:
        return asyncio.run(run())
    except KeyboardInterrupt as stop:
        raise Interrupted(INTERRUPTED) from stop
    except asyncio.CancelledError as stop:
        raise Interrupted(TERMINATED) from stop
