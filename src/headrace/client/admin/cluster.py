"""What an operator asks of a cluster as a whole: who agrees, who leads, where replicas are and where they shall be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.errors import refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch, Millis, NodeId, Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.messages.describe_quorum import ReplicaState

METADATA_TOPIC = "__cluster_metadata"
PREFERRED, UNCLEAN = 0, 1
ALL_NODES = -1


class QuorumMember(NamedTuple):
    """A node that receives the metadata log. What the leader does not know is None."""

    node_id: NodeId
    log_end: Offset | None
    heard_ms: Millis | None
    """When it last answered the leader, on the leader's clock."""


class Quorum(NamedTuple):
    """Who agrees on the metadata: the leader is the controller, voters elect it, learners only follow."""

    leader: NodeId
    term: Epoch
    high_watermark: Offset
    voters: tuple[QuorumMember, ...]
    learners: tuple[QuorumMember, ...]


class Move(NamedTuple):
    """A partition whose replicas are being moved."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PlannedMove(NamedTuple):
    """A move that `plan_rebalance` proposes: from the replicas that a partition has to those of `target`."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def coming(self) -> tuple[int, ...]:
        """Nodes that would get a replica."""
        return tuple(node_id for node_id in self.target if node_id not in self.replicas)

    @property
    def going(self) -> tuple[int, ...]:
        """Nodes that would give their replica up."""
        return tuple(node_id for node_id in self.replicas if node_id not in self.target)


class RebalancePlan(NamedTuple):
    """Moves to hand to `reassign`, all or some. Nothing has moved yet."""

    moves: tuple[PlannedMove, ...]
    stuck_replicas: int
    """Replicas that have to go, and have no place to go to."""


class DamagedPlace(NamedTuple):
    """Bytes on a node that are not what was written."""

    partition: TopicPartition
    first_offset: Offset
    end_offset: Offset
    """Exclusive."""
    problem: str


class ScrubProgress(NamedTuple):
    """How far a node has checked its files, and what it found damaged."""

    is_running: bool
    checked_bytes: int
    total_bytes: int
    damaged: tuple[DamagedPlace, ...]


class ClusterAdmin:
    """The cluster as a whole: the metadata quorum, replicas and their leaders, nodes.

    As with `Admin`, Refusal is what a node says no to, and trouble that passes is waited out.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeout_ms = int(cluster.settings.request_timeout_s * 1000)

    async def describe_quorum(self) -> Quorum:
        """Who agrees on the metadata, and how far each of them is.

        Refusal NOT_LEADER_OR_FOLLOWER if nobody leads the metadata log, which means that there is no controller.
        """
        from headrace.wire.messages.describe_quorum import (  # noqa: PLC0415
            DescribeQuorumRequest,
            DescribeQuorumResponse,
            PartitionData,
            TopicData,
        )

        request = DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])])

        async def attempt() -> DescribeQuorumResponse:
            answer = await self._cluster.ask(request, DescribeQuorumResponse)
            refuse_unless_ok(answer.error_code, "DescribeQuorum", answer.error_message)
            return answer

        found = (await self._cluster.retry(attempt)).topics[0].partitions[0]
        refuse_unless_ok(found.error_code, "the metadata log", found.error_message)
        return Quorum(
            NodeId(found.leader_id),
            Epoch(found.leader_epoch),
            Offset(found.high_watermark),
            tuple(_member(state) for state in found.current_voters),
            tuple(_member(state) for state in found.observers),
        )

    # Where replicas are.

    async def reassign(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], *, may_resize: bool = False
    ) -> dict[TopicPartition, Refusal]:
        """Begin to move partitions to these nodes; None stops a move. Returns why, for those that are not moved.

        The first node of each list is the preferred leader. `may_resize`: whether a partition may get more or fewer
        replicas than it has. It returns when the moves have begun; `list_reassignments` says how they go on.
        """
        from headrace.wire.messages.alter_partition_reassignments import (  # noqa: PLC0415
            AlterPartitionReassignmentsRequest,
            AlterPartitionReassignmentsResponse,
            ReassignablePartition,
            ReassignableTopic,
        )

        topics = [
            ReassignableTopic(topic, [ReassignablePartition(name.partition, _listed(wanted[name])) for name in names])
            for topic, names in _by_topic(wanted).items()
        ]

        async def attempt() -> AlterPartitionReassignmentsResponse:
            connection = await self._cluster.any_connection()
            # An older cluster knows no such limit; asking for it is left out rather than refused.
            resize = may_resize or connection.version_for(AlterPartitionReassignmentsRequest) == 0
            request = AlterPartitionReassignmentsRequest(self._timeout_ms, resize, topics)
            answer = await connection.request(request, AlterPartitionReassignmentsResponse)
            refuse_unless_ok(answer.error_code, "AlterPartitionReassignments", answer.error_message)
            return answer

        answer = await self._cluster.retry(attempt)
        return {
            TopicPartition(topic.name, part.partition_index): _refusal(part.error_code, part.error_message)
            for topic in answer.responses
            for part in topic.partitions
            if part.error_code
        }

    async def list_reassignments(self, names: Collection[TopicPartition] | None = None) -> dict[TopicPartition, Move]:
        """The moves that are under way, of these partitions or of all."""
        from headrace.wire.messages.list_partition_reassignments import (  # noqa: PLC0415
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsResponse,
            ListPartitionReassignmentsTopics,
        )

        topics = None
        if names is not None:
            topics = [
                ListPartitionReassignmentsTopics(topic, [name.partition for name in some])
                for topic, some in _by_topic(names).items()
            ]

        async def attempt() -> ListPartitionReassignmentsResponse:
            request = ListPartitionReassignmentsRequest(self._timeout_ms, topics)
            answer = await self._cluster.ask(request, ListPartitionReassignmentsResponse)
            refuse_unless_ok(answer.error_code, "ListPartitionReassignments", answer.error_message)
            return answer

        return {
            TopicPartition(topic.name, part.partition_index): Move(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in (await self._cluster.retry(attempt)).topics
            for part in topic.partitions
        }

    async def plan_rebalance(self, away_from: int = ALL_NODES) -> RebalancePlan:
        """What would have to move so that each node has its share; or only what the node `away_from` has to give up.

        Nothing moves: hand the moves to `reassign`.
        """
        from headrace.wire.messages.plan_rebalance import (  # noqa: PLC0415
            PlanRebalanceRequest,
            PlanRebalanceResponse,
        )

        async def attempt() -> PlanRebalanceResponse:
            answer = await self._cluster.ask(PlanRebalanceRequest(away_from), PlanRebalanceResponse)
            refuse_unless_ok(answer.error_code, "PlanRebalance", answer.error_message)
            return answer

        answer = await self._cluster.retry(attempt)
        moves = tuple(
            PlannedMove(TopicPartition(topic.name, part.partition_index), tuple(part.replicas), tuple(part.target))
            for topic in answer.topics
            for part in topic.partitions
        )
        return RebalancePlan(moves, answer.stuck_replicas)

    # Who leads.

    async def elect_leaders(
        self, names: Collection[TopicPartition] | None = None, *, is_unclean: bool = False
    ) -> dict[TopicPartition, Refusal | None]:
        """Let preferred replicas lead again, of these partitions or of all. None: it was done.

        `is_unclean`: where nobody in sync is there, any other replica may lead, and what it lacks is lost.
        """
        from headrace.wire.messages.elect_leaders import (  # noqa: PLC0415
            ElectLeadersRequest,
            ElectLeadersResponse,
            TopicPartitions,
        )

        topics = None
        if names is not None:
            topics = [
                TopicPartitions(topic, [name.partition for name in some]) for topic, some in _by_topic(names).items()
            ]

        async def attempt() -> ElectLeadersResponse:
            request = ElectLeadersRequest(UNCLEAN if is_unclean else PREFERRED, topics, self._timeout_ms)
            answer = await self._cluster.ask(request, ElectLeadersResponse)
            results = [part for topic in answer.replica_election_results for part in topic.partition_result]
            words = next((part.error_message for part in results if part.error_message), None)
            refuse_unless_ok(answer.error_code, "ElectLeaders", words, right="ALTER on the cluster")
            return answer

        return {
            TopicPartition(topic.topic, part.partition_id): (
                _refusal(part.error_code, part.error_message) if part.error_code else None
            )
            for topic in (await self._cluster.retry(attempt)).replica_election_results
            for part in topic.partition_result
        }

    # Nodes.

    async def drain_node(self, node_id: int, *, is_draining: bool = True) -> None:
        """Let others lead what this node leads, and place nothing new there; or let it take its part again."""
        from headrace.wire.messages.drain_node import DrainNodeRequest, DrainNodeResponse  # noqa: PLC0415

        async def attempt() -> None:
            answer = await self._cluster.ask(DrainNodeRequest(node_id, is_draining), DrainNodeResponse)
            refuse_unless_ok(answer.error_code, f"node {node_id}", answer.error_message)

        await self._cluster.retry(attempt)

    async def scrub(self, node_id: int, topic: str | None = None, *, is_question: bool = False) -> ScrubProgress:
        """Let a node check its files against their CRCs; how far it is. A question begins nothing."""
        from headrace.wire.messages.scrub_logs import ScrubLogsRequest, ScrubLogsResponse  # noqa: PLC0415

        request = ScrubLogsRequest(is_question, topic)

        async def attempt() -> ScrubLogsResponse:
            connection = await self._cluster.node_connection(node_id)
            answer = await connection.request(request, ScrubLogsResponse)
            refuse_unless_ok(answer.error_code, f"node {node_id}", answer.error_message)
            return answer

        answer = await self._cluster.retry(attempt)
        damaged = tuple(
            DamagedPlace(
                TopicPartition(place.topic, place.partition_index),
                Offset(place.first_offset),
                Offset(place.end_offset),
                place.problem,
            )
            for place in answer.damaged
        )
        return ScrubProgress(answer.is_running, answer.checked_bytes, answer.total_bytes, damaged)

    async def unregister_node(self, node_id: int) -> None:
        """Forget a node that has stopped for good. Refusal if it is alive, or has a replica."""
        from headrace.wire.messages.unregister_broker import (  # noqa: PLC0415
            UnregisterBrokerRequest,
            UnregisterBrokerResponse,
        )

        async def attempt() -> None:
            answer = await self._cluster.ask(UnregisterBrokerRequest(node_id), UnregisterBrokerResponse)
            refuse_unless_ok(answer.error_code, f"node {node_id}", answer.error_message)

        await self._cluster.retry(attempt)


def _member(state: ReplicaState) -> QuorumMember:
    return QuorumMember(
        NodeId(state.replica_id),
        None if state.log_end_offset < 0 else Offset(state.log_end_offset),
        None if state.last_fetch_timestamp < 0 else Millis(state.last_fetch_timestamp),
    )


def _refusal(code: int, message: str | None) -> Refusal:
    named = ErrorCode(code)
    return Refusal(named, message or named.name.lower().replace("_", " "))


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _by_topic(names: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for name in names:
        topics.setdefault(name.topic, []).append(name)
    return topics
