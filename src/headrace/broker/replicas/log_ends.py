"""Where this node's logs end, and where the others' do: what is compared before somebody is elected after an outage.

The comparison itself is `metadata.elections.log_end_comparison`. Here the controller asks those who may be elected,
again and again until every partition is led that can be.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError
from headrace.metadata.elections.log_end_comparison import LogEnd, elect_longest, replicas_to_compare
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch, LogId, Offset
from headrace.wire.messages.describe_log_ends import AskedLog, DescribeLogEndsRequest, DescribeLogEndsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.quorum import Quorum
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.elections.log_end_comparison import Elected, LogEnds
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock

log = logging.getLogger(__name__)

LOGS_MAX: Final = 500  # of one question, and of one decision: both are one turn of the loop
ANSWER_S: Final = 1.0  # it is a look at what is in memory; who does not answer is asked again
LANE: Final = "log ends"


def log_ends(topics: TopicTable, log_ids: Iterable[LogId]) -> dict[LogId, LogEnd | None]:
    """Of those that this node has opened. None for one that is damaged, ends before what was safe in it, or finds no
    room to be opened."""
    ends: dict[LogId, LogEnd | None] = {}
    for log_id in log_ids:
        served, partition = topics.topic(log_id.topic_id), topics.by_log_id(log_id)
        if partition is None:
            if served is not None and log_id.partition in served.troubles:
                ends[log_id] = None
        elif partition.log.damage:
            ends[log_id] = None
        else:
            # Whether flushed or not: what a start finds has survived, and what was not acknowledged does no harm.
            own = partition.log
            ends[log_id] = LogEnd(Epoch(own.epochs.latest), Offset(own.next_offset), partition.was_in_sync)
    return ends


class LogComparison:
    """At work on the controller alone."""

    def __init__(
        self,
        node_id: NodeId,
        quorum: Quorum,
        peers: Peers,
        clock: Clock,
        own_ends: Callable[[Sequence[LogId]], dict[LogId, LogEnd | None]],
        patience_s: Callable[[], float],
    ) -> None:
        """`patience_s` is for how long those are waited for who may have more, and are away."""
        self._node_id = node_id
        self._quorum = quorum
        self._peers = peers
        self._clock = clock
        self._own_ends = own_ends
        self._patience_s = patience_s
        self._since_s: dict[LogId, float] = {}
        """When somebody was first here who could lead."""
        self._wanted = asyncio.Event()

    def look_soon(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._look()
            except Refusal as refusal:  # another node is the controller by now, and compares as well
                if refusal.code is not ErrorCode.NOT_CONTROLLER:
                    raise

    async def _look(self) -> None:
        image = self._quorum.image
        waiting = {
            log_id: asked for log_id in image.sorted_leaderless() if (asked := replicas_to_compare(image, log_id))
        }
        now_s = self._clock.monotonic_s()
        self._since_s = {log_id: self._since_s.get(log_id, now_s) for log_id in waiting}
        left = iter(waiting.items())
        while some := dict(islice(left, LOGS_MAX)):
            await self._compare(some)

    async def _compare(self, asked: dict[LogId, tuple[NodeId, ...]]) -> None:
        nodes = sorted({node_id for those in asked.values() for node_id in those})
        ends: dict[LogId, LogEnds] = {log_id: {} for log_id in asked}
        answers = await asyncio.gather(
            *(self._ends_at(node_id, [log_id for log_id in asked if node_id in asked[log_id]]) for node_id in nodes)
        )
        for node_id, answer in zip(nodes, answers, strict=True):
            for log_id, end in answer.items():
                if log_id in ends:  # who answers may say more than was asked
                    ends[log_id][node_id] = end
        overdue_before_s = self._clock.monotonic_s() - self._patience_s()
        overdue = {log_id for log_id in asked if self._since_s[log_id] <= overdue_before_s}
        for elected in await self._quorum.submit(lambda image: elect_longest(image, ends, overdue)):
            self._tell(elected, len(asked[elected.log_id]))

    async def _ends_at(self, node_id: NodeId, log_ids: Sequence[LogId]) -> dict[LogId, LogEnd | None]:
        """Nothing if it does not answer."""
        if node_id == self._node_id:
            return self._own_ends(log_ids)
        request = DescribeLogEndsRequest([AskedLog(*log_id) for log_id in log_ids])
        try:
            answer = await self._peers.ask(node_id, request, DescribeLogEndsResponse, lane=LANE, timeout_s=ANSWER_S)
        except (ClientError, Refusal) as trouble:
            log.debug("node %d does not say where its logs end: %s", node_id, trouble)
            return {}
        return {
            LogId(it.topic_id, it.partition_index): LogEnd(Epoch(it.epoch), Offset(it.end), it.was_in_sync)
            if it.may_lead
            else None
            for it in answer.logs
        }

    def _tell(self, elected: Elected, asked_count: int) -> None:
        name = self._quorum.image.name_of(elected.log_id)
        if elected.shorter:
            log.warning(
                "%s is led by node %d, whose log is the longest; %s of %d that are back lack some of it, and fetch it",
                name,
                elected.leader,
                ", ".join(f"node {node_id}" for node_id in elected.shorter),
                asked_count,
            )
        else:
            log.info("%s is led by node %d after its logs were compared", name, elected.leader)
