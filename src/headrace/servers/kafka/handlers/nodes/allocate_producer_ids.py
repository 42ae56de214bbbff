"""AllocateProducerIds (key 67): a block of producer ids for one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.node_commands import reserve_producer_ids
from headrace.model.errors import Refusal
from headrace.model.names import NodeId
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.servers.kafka.interfaces import Request


async def handle(message: AllocateProducerIdsRequest, request: Request, quorum: Quorum) -> AllocateProducerIdsResponse:
    try:
        block = await quorum.submit(lambda image: reserve_producer_ids(image, NodeId(message.broker_id)))
    except Refusal as refusal:
        return AllocateProducerIdsResponse(error_code=refusal.code)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.next - block.first)
