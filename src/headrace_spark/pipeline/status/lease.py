"""A run's lease on its pipeline: a record in the status topic, claimed at the start and renewed while the run lives.

Two runs of one pipeline must not work at once. The order of the records in the topic's one partition decides: a run
that finds a claim after its own, by a run that it did not know, has been taken over and stops. Both see the same order.
What a run writes is safe in any case, because each sink fences the run before; this is about telling people.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.errors import ClientError
from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.consumer import AssignedConsumer
from headrace.client.security.settings import OPEN
from headrace.model.errors import Refusal
from headrace_spark.blocking import BlockingCluster
from headrace_spark.pipeline.status.run_status import (
    HEARTBEAT_S,
    AlreadyRunning,
    RunStatus,
    new_run,
    now_utc,
    renewed,
    with_past,
)
from headrace_spark.pipeline.status.status_topic import (
    PARTITION,
    ensure_topic,
    read_status,
    run_of,
    stop_request_of,
    write_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.connections.cluster import Cluster
    from headrace.client.security.settings import ClientSecurity
    from headrace.wire.batches.records import Record

CLIENT_ID = "headrace-pipeline"
WATCH_WAIT_S = 1.0  # a long poll; a request to stop is seen at once, this only bounds the time to leave
LAST_WORD_S = 10.0  # for the final record: without a cluster to take it, the process must end all the same


_own_run_ids: set[str] = set()  # of this process, while they run


def has_died_here(run: RunStatus) -> bool:
    """Whether it was a process of this machine that has ended: then there is no need to wait for missed heartbeats."""
    if run.host != socket.gethostname():
        return False
    if run.pid == os.getpid():  # in a container everybody is number 1
        return run.run_id not in _own_run_ids
    try:
        os.kill(run.pid, 0)  # signal 0 only asks
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class RunLease:
    """Claims the pipeline's name. Raises AlreadyRunning if another run has it, unless `take_over` is set.

    `on_stop` gets who asked for it, `on_taken_over` the other run. Both are called on a thread of this object.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        name: str,
        master: str,
        *,
        take_over: bool,
        on_stop: Callable[[str], None],
        on_taken_over: Callable[[RunStatus], None],
        security: ClientSecurity = OPEN,
    ) -> None:
        self._on_stop = on_stop
        self._on_taken_over = on_taken_over
        self._run = new_run(name, uuid4().hex, master, now_utc())
        self._earlier_run_ids: set[str] = set()
        self.has_taken_over = False
        """From a run that was alive, and may still be ending."""
        self._claim_offset = -1
        self._is_lost = False
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._client = BlockingCluster(bootstrap_servers, ClusterSettings(client_id=CLIENT_ID, security=security))
        try:
            self._producer = self._client.run(self._begin(self._client.cluster, take_over=take_over))
        except BaseException:
            self._client.close()
            raise

    @property
    def run(self) -> RunStatus:
        """The run's status, with all changes so far."""
        return self._run

    def update(self, **changes: Any) -> None:
        """Note these changes; the next heartbeat writes them. A new state and a new error are written at once."""
        before = self._run
        self._run = renewed(self._run, **changes)
        if (before.state, before.error_at) != (self._run.state, self._run.error_at):
            self._client.start(self._wake())

    def close(self) -> None:
        """Write the record a last time, unless it belongs to another run by now."""
        _own_run_ids.discard(self._run.run_id)
        try:
            self._client.run(self._end())
        finally:
            self._client.close()

    # ---- on the client's thread

    async def _begin(self, cluster: Cluster, *, take_over: bool) -> BatchingProducer:
        await ensure_topic(cluster)
        snapshot = await read_status(cluster)
        other = snapshot.runs.get(self._run.name)
        if other is not None:
            if other.is_alive(now_utc()) and not take_over and not has_died_here(other):
                raise AlreadyRunning(other)
            self.has_taken_over = other.is_alive(now_utc()) and not has_died_here(other)
            self._earlier_run_ids.add(other.run_id)
            self._run = with_past(self._run, other)
        producer = BatchingProducer(cluster)
        try:
            self._claim_offset = await write_run(producer, self._run)
        except BaseException:
            await producer.close()
            raise
        _own_run_ids.add(self._run.run_id)
        self._tasks = [
            asyncio.create_task(self._keep_alive(), name="renew the record"),
            asyncio.create_task(self._watch(cluster, snapshot.next_offset), name="watch the records"),
        ]
        return producer

    async def _wake(self) -> None:
        self._changed.set()

    async def _keep_alive(self) -> None:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._changed.wait()
            except TimeoutError:
                pass  # without news the lease is renewed all the same
            self._changed.clear()
            if not self._is_lost:
                await self._write()

    async def _write(self) -> None:
        """The pipeline goes on if the cluster cannot be reached for a while; its status is not renewed meanwhile."""
        try:
            await write_run(self._producer, renewed(self._run))
        except (ClientError, Refusal):
            return

    async def _watch(self, cluster: Cluster, next_offset: int) -> None:
        async with AssignedConsumer(cluster) as consumer:
            await consumer.assign({PARTITION: next_offset})
            while True:
                try:
                    records = (await consumer.poll(wait_s=WATCH_WAIT_S)).get(PARTITION, ())
                except (ClientError, Refusal):
                    await asyncio.sleep(WATCH_WAIT_S)
                    continue
                for record in records:
                    self._look_at(record)

    def _look_at(self, record: Record) -> None:
        request = stop_request_of(record)
        if request is not None and request[0] == self._run.run_id:
            self._on_stop(request[1])
        run = run_of(record)
        if run is None or run.name != self._run.name or run.run_id == self._run.run_id:
            return
        if record.offset < self._claim_offset:
            self._earlier_run_ids.add(run.run_id)
        elif run.run_id not in self._earlier_run_ids and not self._is_lost:
            self._is_lost = True
            self._on_taken_over(run)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(LAST_WORD_S):
                if not self._is_lost:
                    await self._write()
                await self._producer.close()
        except (TimeoutError, ClientError, Refusal):
            return  # the record goes stale, which says enough
