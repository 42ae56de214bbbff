"""Keeps the buffers of one node's partitions filled: one long poll after the other, each on the heels of the last."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.client.connections.cluster import RetryBackoff
from headrace.client.errors import ClientError
from headrace.client.reading.fetch_session import FetchSession, Wanted
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, TopicPartition
from headrace.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.reading.offsets import IsolationLevel
    from headrace.wire.messages.fetch import PartitionData

EARLY_PAUSE_S = (
    0.02  # after an answer without records that did not wait for any: a node that always does so is not asked on and on
)
ANSWER_GRACE_S = 10.0  # beyond the poll's own wait: a node may have to read a cold disk

_SESSION_LOST = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}


class FetchPlan(NamedTuple):
    """What a node is asked for next."""

    partitions: dict[TopicPartition, Wanted]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class FetchReceiver(Protocol):
    """Who wants the records."""

    def plan_for(self, node_id: int) -> FetchPlan:
        """What this node is to be asked for now. Without partitions the fetcher sleeps until it is woken."""

    def leaders_moved(self) -> None:
        """Another node may have become the one to ask."""

    def fetched(self, name: TopicPartition, offset: int, answer: PartitionData) -> None:
        """What came of one partition, of which `offset` was asked for."""

    def fetch_failed(self, node_id: int, trouble: Exception) -> None:
        """This fetcher has given up."""


class Fetcher:
    """Fetches from one node, or, for NO_NODE, waits for partitions that nobody leads."""

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        lane: str,
        receiver: FetchReceiver,
        isolation: IsolationLevel,
        *,
        waits_for_leaders: bool = False,
    ) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._lane = lane
        self._receiver = receiver
        self._waits_for_leaders = waits_for_leaders
        self._view = cluster.view
        self._session = FetchSession(isolation)
        self._has_room = asyncio.Event()
        self._backoff: RetryBackoff | None = None

    def wake(self) -> None:
        """A buffer has room, or a partition came to this node."""
        self._has_room.set()

    async def run(self) -> None:
        """Until it is cancelled, or trouble lasts too long: then `fetch_failed` is told."""
        try:
            await self._fetch_for_ever()
        finally:
            self._end_wait()

    async def _fetch_for_ever(self) -> None:
        while True:
            if self._view is not self._cluster.view:  # whoever asked for it: what has moved from here is now elsewhere
                self._view = self._cluster.view
                self._receiver.leaders_moved()
            self._has_room.clear()
            plan = self._receiver.plan_for(self._node_id)
            if not plan.partitions:
                if self._backoff is not None:
                    self._backoff.end()  # others read what this node does not give
                await self._has_room.wait()
                continue
            try:
                await self._fetch(plan)
                self._end_wait()
            except (ClientError, Refusal) as trouble:
                self._session.reset()
                if not self._cluster.is_retriable(trouble):
                    self._receiver.fetch_failed(self._node_id, trouble)
                    return
                if not await self._may_go_on(trouble):
                    return

    async def _may_go_on(self, trouble: Exception) -> bool:
        """Wait, and look where the partitions are now. False if it has lasted too long."""
        limit_s = self._limit_s(trouble)
        if self._backoff is not None and self._backoff.limit_s != limit_s:
            self._end_wait()
        if self._backoff is None:
            self._backoff = RetryBackoff(self._cluster, limit_s)
        try:
            await self._backoff.wait_or_raise(trouble)
        except (ClientError, Refusal) as final:
            self._receiver.fetch_failed(self._node_id, final)
            return False
        with suppress(ClientError, Refusal):  # the next fetch meets the same trouble
            await self._cluster.refresh()
        return True

    def _end_wait(self) -> None:
        """The next trouble has its own time."""
        if self._backoff is not None:
            self._backoff.end()
            self._backoff = None

    def _limit_s(self, trouble: Exception) -> float | None:
        """None: as the cluster's settings say."""
        is_leaderless = isinstance(trouble, Refusal) and trouble.code is ErrorCode.LEADER_NOT_AVAILABLE
        return math.inf if is_leaderless and self._waits_for_leaders else None

    async def _fetch(self, plan: FetchPlan) -> None:
        if self._node_id == NO_NODE:
            raise self._cluster.why_no_leader(next(iter(plan.partitions)))
        connection = await self._cluster.node_connection(self._node_id, self._lane)
        request = self._session.request(
            plan.partitions, max_wait_ms=plan.max_wait_ms, min_bytes=plan.min_bytes, max_bytes=plan.max_bytes
        )
        began_s = self._cluster.clock.monotonic_s()
        answer = await connection.request(request, FetchResponse, timeout_s=plan.max_wait_ms / 1000 + ANSWER_GRACE_S)
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            self._session.reset()
            if code not in _SESSION_LOST:
                raise Refusal(code, f"node {self._node_id} refuses to be read: {code.name.lower().replace('_', ' ')}")
            return
        self._session.accepted(answer.session_id)
        self._hand_over(answer, plan.partitions)
        waited_ms = (self._cluster.clock.monotonic_s() - began_s) * 1000
        if waited_ms < plan.max_wait_ms / 2 and not _has_records(answer):
            await asyncio.sleep(EARLY_PAUSE_S)

    def _hand_over(self, answer: FetchResponse, wanted: dict[TopicPartition, Wanted]) -> None:
        """Give out the good, then raise what calls for another look at the cluster."""
        names = {want.topic_id: name.topic for name, want in wanted.items()}
        moved: Refusal | None = None
        for topic in answer.responses:
            for partition in topic.partitions:
                # From version 13 on an answer names topics by id alone.
                name = TopicPartition(topic.topic or names.get(topic.topic_id, ""), partition.partition_index)
                code = ErrorCode(partition.error_code)
                if code.is_retriable:
                    moved = Refusal(code, f"{name}: {code.name.lower().replace('_', ' ')}")
                elif name in wanted:
                    self._receiver.fetched(name, wanted[name].offset, partition)
        if moved is not None:
            raise moved


def _has_records(answer: FetchResponse) -> bool:
    return any(part.records for topic in answer.responses for part in topic.partitions)
