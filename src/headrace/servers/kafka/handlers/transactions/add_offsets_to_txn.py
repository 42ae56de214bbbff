"""AddOffsetsToTxn (key 25): the transaction is about to commit offsets of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.coordinators.transactions.answers import ADD_KNOWS_FENCED, known_error
from headrace.coordinators.transactions.coordinator import AddPartitions
from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS
from headrace.model.errors import Refusal
from headrace.model.names import ProducerId
from headrace.servers.kafka.rights import Right, Rights, error_of
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(
    whole=(
        Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        Right(Operation.READ, ResourceType.GROUP, "group_id"),
    ),
    refused=error_of(AddOffsetsToTxnResponse),
)


async def handle(
    message: AddOffsetsToTxnRequest, request: Request, coordinators: Coordinators
) -> AddOffsetsToTxnResponse:
    try:
        await coordinators.prepare(CONSUMER_OFFSETS)
        name = coordinators.offsets_partition(message.group_id)
    except Refusal as refusal:
        return AddOffsetsToTxnResponse(error_code=refusal.code)
    asked = AddPartitions(message.transactional_id, ProducerId(message.producer_id), message.producer_epoch, (name,))
    codes = await coordinators.add_here(asked)
    return AddOffsetsToTxnResponse(error_code=known_error(codes[name], request.version, ADD_KNOWS_FENCED))
