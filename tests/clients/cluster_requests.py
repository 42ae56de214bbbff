"""Requests about the cluster as a whole, for tests that ask every API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.api import ApiKey
from headrace.wire.messages import (
    alter_partition_reassignments,
    describe_quorum,
    drain_node,
    elect_leaders,
    list_partition_reassignments,
    plan_rebalance,
    scrub_logs,
    unregister_broker,
)

if TYPE_CHECKING:
    from headrace.wire.api import Message

ABSENT_NODE = 99


def cluster_request_of(key: ApiKey, version: int, topic: str, missing: str) -> Message | None:
    """About a topic that exists and one that does not; None for all other APIs. A node alone is not harmed by any."""
    match key:
        case ApiKey.ELECT_LEADERS:
            named = [elect_leaders.TopicPartitions(name, [0]) for name in (topic, missing)]
            return elect_leaders.ElectLeadersRequest(1 if version >= 1 else 0, named, 1000)
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            part = alter_partition_reassignments.ReassignablePartition(0, [1])
            topics = [alter_partition_reassignments.ReassignableTopic(name, [part]) for name in (topic, missing)]
            return alter_partition_reassignments.AlterPartitionReassignmentsRequest(1000, version < 1, topics)
        case ApiKey.LIST_PARTITION_REASSIGNMENTS:
            wanted = [
                list_partition_reassignments.ListPartitionReassignmentsTopics(name, [0]) for name in (topic, missing)
            ]
            return list_partition_reassignments.ListPartitionReassignmentsRequest(1000, wanted)
        case ApiKey.DESCRIBE_QUORUM:
            parts = [describe_quorum.PartitionData(0)]
            names = ("__cluster_metadata", missing)
            return describe_quorum.DescribeQuorumRequest([describe_quorum.TopicData(name, parts) for name in names])
        case ApiKey.UNREGISTER_BROKER:
            return unregister_broker.UnregisterBrokerRequest(ABSENT_NODE)
        case ApiKey.DRAIN_NODE:
            return drain_node.DrainNodeRequest(ABSENT_NODE)
        case ApiKey.PLAN_REBALANCE:
            return plan_rebalance.PlanRebalanceRequest()
        case ApiKey.SCRUB_LOGS:
            return scrub_logs.ScrubLogsRequest(topic=topic)
        case _:
            return None
