"""UnregisterBroker (key 64): forget a node that will not come back. It must have stopped, and have no replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.controller import Controller
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=words_of(UnregisterBrokerResponse))


async def handle(
    message: UnregisterBrokerRequest, request: Request, controller: Controller
) -> UnregisterBrokerResponse:
    try:
        await controller.voters.remove(NodeId(message.broker_id))
    except Refusal as refusal:
        return UnregisterBrokerResponse(error_code=refusal.code, error_message=refusal.message)
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
