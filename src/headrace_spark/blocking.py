"""The asynchronous client for code that has no event loop: Spark's tasks and planners.

One thread runs a loop for the client's sake. Answers keep arriving there while the caller decodes what it has.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

from headrace.client.connections.cluster import system_cluster

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future
    from typing import Any

    from headrace.client.connections.cluster import Cluster, ClusterSettings

T = TypeVar("T")


class BlockingCluster:
    """A cluster and the loop that it lives on. Use it in a `with` block.

        with BlockingCluster("127.0.0.1:9092") as client:
            topics = client.run(Admin(client.cluster).list_topics())

    Raises ValueError if `bootstrap_servers` is not `host:port`, or several of them with commas between.
    """

    def __init__(self, bootstrap_servers: str, settings: ClusterSettings | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        # Daemon: a task that Spark gives up must not keep its process alive.
        self._thread = threading.Thread(target=self._loop.run_forever, name="headrace-client", daemon=True)
        self._thread.start()
        try:
            self.cluster: Cluster = self.run(self._connected(bootstrap_servers, settings))
        except BaseException:
            self._stop_loop()
            raise

    def __enter__(self) -> BlockingCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work on the loop, and wait for it."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin the work on the loop; the caller goes on."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Close the client and end its loop. To close it again does nothing."""
        if self._loop.is_closed():
            return
        try:
            self.run(self.cluster.close())
        finally:
            self._stop_loop()

    @staticmethod
    async def _connected(bootstrap_servers: str, settings: ClusterSettings | None) -> Cluster:
        return system_cluster(bootstrap_servers, settings)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
