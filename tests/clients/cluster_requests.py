"""Requests about the cluster as a whole, for tests that ask every API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import TopicId
from headrace.wire.api import ApiKey
from headrace.wire.messages import (
    add_raft_voter,
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_quorum,
    describe_user_scram_credentials,
    drain_node,
    elect_leaders,
    list_partition_reassignments,
    plan_rebalance,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    scrub_logs,
    unregister_broker,
    update_features,
)

if TYPE_CHECKING:
    from headrace.wire.api import Message

ABSENT_NODE = 99
DIRECTORY = TopicId(b"\x07" * 16)
ANY = 1  # in filters of access rules


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
        case ApiKey.UPDATE_FEATURES:
            return update_features.UpdateFeaturesRequest(1000, [update_features.FeatureUpdateKey("group.version", 1)])
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            moved = [alter_replica_log_dirs.AlterReplicaLogDirTopic(name, [0]) for name in (topic, missing)]
            return alter_replica_log_dirs.AlterReplicaLogDirsRequest(
                [alter_replica_log_dirs.AlterReplicaLogDir("/elsewhere", moved)]
            )
        case ApiKey.UNREGISTER_BROKER:
            return unregister_broker.UnregisterBrokerRequest(ABSENT_NODE)
        case ApiKey.DRAIN_NODE:
            return drain_node.DrainNodeRequest(ABSENT_NODE)
        case ApiKey.PLAN_REBALANCE:
            return plan_rebalance.PlanRebalanceRequest()
        case ApiKey.SCRUB_LOGS:
            return scrub_logs.ScrubLogsRequest(topic=topic)
        case _:
            return _access_request_of(key) or _refused_request_of(key, topic)


def _access_request_of(key: ApiKey) -> Message | None:
    """About users and quotas."""
    match key:
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return describe_client_quotas.DescribeClientQuotasRequest([])
        case ApiKey.ALTER_CLIENT_QUOTAS:
            entity = [alter_client_quotas.EntityData("client-id", "nobody")]
            operations = [alter_client_quotas.OpData("producer_byte_rate", 1e6)]
            return alter_client_quotas.AlterClientQuotasRequest(
                [alter_client_quotas.EntryData(entity, operations), alter_client_quotas.EntryData([], operations)]
            )
        case ApiKey.SASL_HANDSHAKE:
            return sasl_handshake.SaslHandshakeRequest("SCRAM-SHA-256")
        case ApiKey.SASL_AUTHENTICATE:
            return sasl_authenticate.SaslAuthenticateRequest(b"n,,n=somebody,r=fresh")
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
                [describe_user_scram_credentials.UserName("nobody")]
            )
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            wanted = [
                alter_user_scram_credentials.ScramCredentialUpsertion(name, 1, 4096, b"some salt", bytes(32))
                for name in ("somebody", "")
            ]
            return alter_user_scram_credentials.AlterUserScramCredentialsRequest([], wanted)
        case _:
            return None


def _refused_request_of(key: ApiKey, topic: str) -> Message | None:
    """What Kafka can and we do not."""
    match key:
        case ApiKey.ADD_RAFT_VOTER:
            place = [add_raft_voter.Listener("CONTROLLER", "127.0.0.1", 9)]
            return add_raft_voter.AddRaftVoterRequest(None, 1000, ABSENT_NODE, DIRECTORY, place)
        case ApiKey.REMOVE_RAFT_VOTER:
            return remove_raft_voter.RemoveRaftVoterRequest(None, ABSENT_NODE, DIRECTORY)
        case ApiKey.DESCRIBE_ACLS:
            return describe_acls.DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
        case ApiKey.CREATE_ACLS:
            return create_acls.CreateAclsRequest([create_acls.AclCreation(2, topic, 3, "User:anna", "*", 3, 3)])
        case ApiKey.DELETE_ACLS:
            return delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)])
        case _:
            return None
