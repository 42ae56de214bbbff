"""Runs a command's work against a cluster."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, TypeVar

from headrace.cli.terminal.complaints import INTERRUPTED, TERMINATED, USAGE, Complaint, Interrupted
from headrace.cli.terminal.options import chosen_bootstrap_server
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
    settings = ClusterSettings(client_id=CLIENT_ID, retry_for_s=RETRY_FOR_S, away_for_s=away_for_s)
    try:
        cluster = system_cluster(chosen_bootstrap_server(), settings)
    except ValueError as wrong:
        raise Complaint(f"--bootstrap-server: {wrong}", exit_code=USAGE) from wrong

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
