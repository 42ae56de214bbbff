"""AlterPartition (key 56): a leader asks for another in-sync set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.partition_commands import InSyncMember, IsrChange, change_in_sync
from headrace.model.errors import Refusal
from headrace.model.names import Epoch, LogId, NodeId
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionState,
    TopicState,
)

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.metadata.decisions.decision import Outcome
    from headrace.metadata.image.cluster_image import Partition
    from headrace.servers.kafka.interfaces import Request

NOT_CHECKED = -1
EPOCHS_FROM = 3


async def handle(message: AlterPartitionRequest, request: Request, quorum: Quorum) -> AlterPartitionResponse:
    wanted = [
        IsrChange(
            LogId(topic.topic_id, part.partition_index),
            Epoch(part.leader_epoch),
            part.partition_epoch,
            tuple(InSyncMember(NodeId(it.broker_id), it.broker_epoch) for it in part.new_isr_with_epochs)
            if request.version >= EPOCHS_FROM
            else tuple(InSyncMember(NodeId(node_id), NOT_CHECKED) for node_id in part.new_isr),
        )
        for topic in message.topics
        for part in topic.partitions
    ]
    try:
        outcomes = await quorum.submit(
            lambda image: change_in_sync(image, NodeId(message.broker_id), message.broker_epoch, wanted)
        )
    except Refusal as refusal:
        return AlterPartitionResponse(error_code=refusal.code)
    return AlterPartitionResponse(
        topics=[
            TopicState(change.log_id.topic_id, [_state(change, outcome)])
            for change, outcome in zip(wanted, outcomes, strict=True)
        ]
    )


def _state(change: IsrChange, outcome: Outcome[Partition]) -> PartitionState:
    partition = outcome.result
    if isinstance(partition, Refusal):
        return PartitionState(partition_index=change.log_id.partition, error_code=partition.code)
    return PartitionState(
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
    )
