"""A request of each API of groups and transactions, with something in it: what is sent in every version, and fuzzed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.groups.consumer_protocol import encode_subscription
from headrace.wire.api import ApiKey
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_producers import DescribeProducersRequest
from headrace.wire.messages.describe_producers import TopicRequest as ProducersTopic
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from headrace.model.names import TopicId
    from headrace.wire.api import Message

SEVERAL_LEAVE_FROM = 3
SEVERAL_GROUPS_FROM = 8
SEVERAL_TRANSACTIONS_FROM = 4
SHORT_MS = 20  # where a member may be this silent, nobody waits longer than that for one that never speaks again

GROUP = "a-group"
MEMBER = "somebody-1"
TRANSACTION = "a-transaction"
PRODUCER_ID = 4711


def group_request_of(key: ApiKey, version: int, topic: str, member_id: str = MEMBER) -> Message | None:
    """None if this is no API of members."""
    match key:
        case ApiKey.JOIN_GROUP:
            offer = [JoinGroupRequestProtocol("range", encode_subscription([topic], [], -1, None))]
            instance_id = "an-instance" if version >= 5 and member_id else None
            return JoinGroupRequest(GROUP, SHORT_MS, SHORT_MS, member_id, instance_id, "consumer", offer)
        case ApiKey.SYNC_GROUP:
            share = [SyncGroupRequestAssignment(member_id, b"share")]
            return SyncGroupRequest(GROUP, 1, member_id, None, "consumer", "range", share)
        case ApiKey.HEARTBEAT:
            return HeartbeatRequest(GROUP, 1, member_id)
        case ApiKey.LEAVE_GROUP if version < SEVERAL_LEAVE_FROM:
            return LeaveGroupRequest(GROUP, member_id)
        case ApiKey.LEAVE_GROUP:
            return LeaveGroupRequest(GROUP, members=[MemberIdentity(member_id), MemberIdentity("", "an-instance")])
        case ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return ConsumerGroupHeartbeatRequest(
                f"{GROUP}-of-today",
                member_id,
                rebalance_timeout_ms=SHORT_MS,
                subscribed_topic_names=[topic],
                topic_partitions=[],
            )
        case ApiKey.DESCRIBE_GROUPS:
            return DescribeGroupsRequest(["another", GROUP], include_authorized_operations=version >= 3)
        case ApiKey.CONSUMER_GROUP_DESCRIBE:
            return ConsumerGroupDescribeRequest(["another", f"{GROUP}-of-today"])
        case ApiKey.LIST_GROUPS:
            return ListGroupsRequest(["Stable", "Empty"] if version >= 4 else [], ["classic"] if version >= 5 else [])
        case ApiKey.DELETE_GROUPS:
            return DeleteGroupsRequest(["a-group-to-delete", GROUP])
        case _:
            return None


def offsets_request_of(key: ApiKey, version: int, topics: dict[str, TopicId]) -> Message | None:
    """None if this is no API of committed offsets."""
    match key:
        case ApiKey.OFFSET_COMMIT:
            parts = [OffsetCommitRequestPartition(0, 1, 0 if version >= 6 else -1, "metadata")]
            return OffsetCommitRequest(
                f"{GROUP}-alone",
                topics=[OffsetCommitRequestTopic(name, topic_id, parts) for name, topic_id in topics.items()],
            )
        case ApiKey.OFFSET_FETCH if version < SEVERAL_GROUPS_FROM:
            return OffsetFetchRequest(f"{GROUP}-alone", [OffsetFetchRequestTopic(name, [0, 1]) for name in topics])
        case ApiKey.OFFSET_FETCH:
            wanted = [OffsetFetchRequestTopics(name, topic_id, [0, 1]) for name, topic_id in topics.items()]
            groups = [OffsetFetchRequestGroup(f"{GROUP}-alone", topics=wanted), OffsetFetchRequestGroup(GROUP)]
            return OffsetFetchRequest(groups=groups, require_stable=True)
        case ApiKey.OFFSET_DELETE:
            deleted = [OffsetDeleteRequestPartition(0)]
            return OffsetDeleteRequest(f"{GROUP}-alone", [OffsetDeleteRequestTopic(name, deleted) for name in topics])
        case _:
            return None


def transaction_request_of(key: ApiKey, version: int, topics: dict[str, TopicId]) -> Message | None:
    """None if this is no API of transactions."""
    match key:
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            added = [AddPartitionsToTxnTopic(name, [0]) for name in topics]
            if version < SEVERAL_TRANSACTIONS_FROM:
                return AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=TRANSACTION,
                    v3_and_below_producer_id=PRODUCER_ID,
                    v3_and_below_topics=added,
                )
            return AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(TRANSACTION, PRODUCER_ID, 0, True, added)])
        case ApiKey.ADD_OFFSETS_TO_TXN:
            return AddOffsetsToTxnRequest(TRANSACTION, PRODUCER_ID, 0, GROUP)
        case ApiKey.TXN_OFFSET_COMMIT:
            parts = [TxnOffsetCommitRequestPartition(0, 1, committed_metadata="metadata")]
            placed = [TxnOffsetCommitRequestTopic(name, parts) for name in topics]
            return TxnOffsetCommitRequest(TRANSACTION, GROUP, PRODUCER_ID, 0, topics=placed)
        case ApiKey.END_TXN:
            return EndTxnRequest(TRANSACTION, PRODUCER_ID, 0, committed=True)
        case ApiKey.WRITE_TXN_MARKERS:
            ended = [WritableTxnMarkerTopic(name, [0]) for name in topics]
            return WriteTxnMarkersRequest([WritableTxnMarker(PRODUCER_ID, 0, False, ended)])
        case ApiKey.DESCRIBE_PRODUCERS:
            return DescribeProducersRequest([ProducersTopic(name, [0]) for name in topics])
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return DescribeTransactionsRequest(["another", TRANSACTION])
        case ApiKey.LIST_TRANSACTIONS:
            pattern = "a-.*" if version >= 2 else None
            return ListTransactionsRequest(["Ongoing", "Nonsense"], [PRODUCER_ID], transactional_id_pattern=pattern)
        case _:
            return None
