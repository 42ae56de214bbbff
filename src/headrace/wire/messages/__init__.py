# Generated from wire/schemas by tools/generate_messages.py; do not edit.
"""The messages, one module per API. Import the module you need: all together cost start-up time."""

from __future__ import annotations

from enum import IntEnum


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    RAFT_REQUEST_VOTE = 20001
    RAFT_VOTE_ANSWER = 20002
    RAFT_APPEND_ENTRIES = 20003
    RAFT_APPEND_ANSWER = 20004
    RAFT_INSTALL_SNAPSHOT = 20005
    RAFT_TAKE_OVER = 20006
    FORWARD = 20007
    DRAIN_NODE = 20008
    PLAN_REBALANCE = 20009
    GREET = 20010
    JOIN_CLUSTER = 20011
    GIVE_UP_REPLICA = 20020
    SCRUB_LOGS = 20021
    LIVE_TRANSACTIONS = 20022
    DESCRIBE_LOG_ENDS = 20023
    WRITE_AUDIT = 20024


# Name, module, decoded versions (first, last), advertised versions (first, last), flexible from.
TABLE: dict[int, tuple[str, str, int, int, int, int, int | None]] = {
    0: ("Produce", "produce", 3, 13, 0, 13, 9),
    1: ("Fetch", "fetch", 4, 18, 4, 18, 12),
    2: ("ListOffsets", "list_offsets", 1, 11, 1, 11, 6),
    3: ("Metadata", "metadata", 0, 13, 0, 13, 9),
    8: ("OffsetCommit", "offset_commit", 2, 10, 2, 10, 8),
    9: ("OffsetFetch", "offset_fetch", 1, 10, 1, 10, 6),
    10: ("FindCoordinator", "find_coordinator", 0, 6, 0, 6, 3),
    11: ("JoinGroup", "join_group", 0, 9, 0, 9, 6),
    12: ("Heartbeat", "heartbeat", 0, 4, 0, 4, 4),
    13: ("LeaveGroup", "leave_group", 0, 5, 0, 5, 4),
    14: ("SyncGroup", "sync_group", 0, 5, 0, 5, 4),
    15: ("DescribeGroups", "describe_groups", 0, 6, 0, 6, 5),
    16: ("ListGroups", "list_groups", 0, 5, 0, 5, 3),
    17: ("SaslHandshake", "sasl_handshake", 0, 1, 0, 1, None),
    18: ("ApiVersions", "api_versions", 0, 4, 0, 4, 3),
    19: ("CreateTopics", "create_topics", 2, 7, 2, 7, 5),
    20: ("DeleteTopics", "delete_topics", 1, 6, 1, 6, 4),
    21: ("DeleteRecords", "delete_records", 0, 2, 0, 2, 2),
    22: ("InitProducerId", "init_producer_id", 0, 5, 0, 5, 2),
    23: ("OffsetForLeaderEpoch", "offset_for_leader_epoch", 2, 4, 2, 4, 4),
    24: ("AddPartitionsToTxn", "add_partitions_to_txn", 0, 5, 0, 5, 3),
    25: ("AddOffsetsToTxn", "add_offsets_to_txn", 0, 4, 0, 4, 3),
    26: ("EndTxn", "end_txn", 0, 5, 0, 5, 3),
    27: ("WriteTxnMarkers", "write_txn_markers", 1, 2, 1, 2, 1),
    28: ("TxnOffsetCommit", "txn_offset_commit", 0, 5, 0, 5, 3),
    29: ("DescribeAcls", "describe_acls", 1, 3, 1, 3, 2),
    30: ("CreateAcls", "create_acls", 1, 3, 1, 3, 2),
    31: ("DeleteAcls", "delete_acls", 1, 3, 1, 3, 2),
    32: ("DescribeConfigs", "describe_configs", 1, 4, 1, 4, 4),
    33: ("AlterConfigs", "alter_configs", 0, 2, 0, 2, 2),
    34: ("AlterReplicaLogDirs", "alter_replica_log_dirs", 1, 2, 1, 2, 2),
    35: ("DescribeLogDirs", "describe_log_dirs", 1, 5, 1, 5, 2),
    36: ("SaslAuthenticate", "sasl_authenticate", 0, 2, 0, 2, 2),
    37: ("CreatePartitions", "create_partitions", 0, 3, 0, 3, 2),
    42: ("DeleteGroups", "delete_groups", 0, 2, 0, 2, 2),
    43: ("ElectLeaders", "elect_leaders", 0, 2, 0, 2, 2),
    44: ("IncrementalAlterConfigs", "incremental_alter_configs", 0, 1, 0, 1, 1),
    45: ("AlterPartitionReassignments", "alter_partition_reassignments", 0, 1, 0, 1, 0),
    46: ("ListPartitionReassignments", "list_partition_reassignments", 0, 0, 0, 0, 0),
    47: ("OffsetDelete", "offset_delete", 0, 0, 0, 0, None),
    48: ("DescribeClientQuotas", "describe_client_quotas", 0, 1, 0, 1, 1),
    49: ("AlterClientQuotas", "alter_client_quotas", 0, 1, 0, 1, 1),
    50: ("DescribeUserScramCredentials", "describe_user_scram_credentials", 0, 0, 0, 0, 0),
    51: ("AlterUserScramCredentials", "alter_user_scram_credentials", 0, 0, 0, 0, 0),
    55: ("DescribeQuorum", "describe_quorum", 0, 2, 0, 2, 0),
    56: ("AlterPartition", "alter_partition", 2, 3, 2, 3, 0),
    57: ("UpdateFeatures", "update_features", 0, 2, 0, 2, 0),
    60: ("DescribeCluster", "describe_cluster", 0, 2, 0, 2, 0),
    61: ("DescribeProducers", "describe_producers", 0, 0, 0, 0, 0),
    62: ("BrokerRegistration", "broker_registration", 0, 4, 0, 4, 0),
    63: ("BrokerHeartbeat", "broker_heartbeat", 0, 1, 0, 1, 0),
    64: ("UnregisterBroker", "unregister_broker", 0, 0, 0, 0, 0),
    65: ("DescribeTransactions", "describe_transactions", 0, 0, 0, 0, 0),
    66: ("ListTransactions", "list_transactions", 0, 2, 0, 2, 0),
    67: ("AllocateProducerIds", "allocate_producer_ids", 0, 0, 0, 0, 0),
    68: ("ConsumerGroupHeartbeat", "consumer_group_heartbeat", 0, 1, 0, 1, 0),
    69: ("ConsumerGroupDescribe", "consumer_group_describe", 0, 1, 0, 1, 0),
    74: ("ListConfigResources", "list_config_resources", 0, 1, 0, 1, 0),
    75: ("DescribeTopicPartitions", "describe_topic_partitions", 0, 0, 0, 0, 0),
    80: ("AddRaftVoter", "add_raft_voter", 0, 1, 0, 1, 0),
    81: ("RemoveRaftVoter", "remove_raft_voter", 0, 0, 0, 0, 0),
    20001: ("RaftRequestVote", "raft_request_vote", 0, 0, 0, 0, 0),
    20002: ("RaftVoteAnswer", "raft_vote_answer", 0, 0, 0, 0, 0),
    20003: ("RaftAppendEntries", "raft_append_entries", 0, 0, 0, 0, 0),
    20004: ("RaftAppendAnswer", "raft_append_answer", 0, 0, 0, 0, 0),
    20005: ("RaftInstallSnapshot", "raft_install_snapshot", 0, 0, 0, 0, 0),
    20006: ("RaftTakeOver", "raft_take_over", 0, 0, 0, 0, 0),
    20007: ("Forward", "forward", 0, 0, 0, 0, 0),
    20008: ("DrainNode", "drain_node", 0, 0, 0, 0, 0),
    20009: ("PlanRebalance", "plan_rebalance", 0, 0, 0, 0, 0),
    20010: ("Greet", "greet", 0, 0, 0, 0, 0),
    20011: ("JoinCluster", "join_cluster", 0, 0, 0, 0, 0),
    20020: ("GiveUpReplica", "give_up_replica", 0, 0, 0, 0, 0),
    20021: ("ScrubLogs", "scrub_logs", 0, 0, 0, 0, 0),
    20022: ("LiveTransactions", "live_transactions", 0, 0, 0, 0, 0),
    20023: ("DescribeLogEnds", "describe_log_ends", 0, 0, 0, 0, 0),
    20024: ("WriteAudit", "write_audit", 0, 0, 0, 0, 0),
}
