"""BrokerRegistration (key 62): a node begins a life, and is known from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.node_commands import register_node
from headrace.metadata.image.records import Endpoint
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.controller import Controller
    from headrace.broker.metadata.quorum import Quorum
    from headrace.servers.kafka.interfaces import Request


async def handle(
    message: BrokerRegistrationRequest, request: Request, quorum: Quorum, controller: Controller
) -> BrokerRegistrationResponse:
    try:
        cluster_id = quorum.image.cluster_id
        if message.cluster_id and message.cluster_id != cluster_id:
            raise Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is the cluster {cluster_id}")
        node_id = NodeId(message.broker_id)
        broker_epoch = await controller.register(
            node_id,
            lambda image: register_node(
                image,
                node_id,
                message.incarnation_id,
                tuple(Endpoint(it.name, it.host, it.port) for it in message.listeners),
                message.rack,
                directory=message.log_dirs[0] if message.log_dirs else b"",
                session_ms=message.session_ms,
                start_count=message.life,
                is_heard=controller.is_heard(NodeId(message.broker_id)),
            ),
        )
    except Refusal as refusal:
        return BrokerRegistrationResponse(error_code=refusal.code)
    return BrokerRegistrationResponse(broker_epoch=broker_epoch)
