"""BrokerHeartbeat (key 63): a node is there, and hears whether it may serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.model.names import NodeId, Offset
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.controller import Controller
    from headrace.servers.kafka.interfaces import Request


async def handle(message: BrokerHeartbeatRequest, request: Request, controller: Controller) -> BrokerHeartbeatResponse:
    try:
        is_served = await controller.heartbeat(
            NodeId(message.broker_id),
            message.broker_epoch,
            Offset(message.current_metadata_offset),
            wants_fence=message.want_fence,
            wants_stop=message.want_shut_down,
        )
    except Refusal as refusal:
        return BrokerHeartbeatResponse(error_code=refusal.code)
    return BrokerHeartbeatResponse(
        is_caught_up=is_served, is_fenced=not is_served, should_shut_down=message.want_shut_down
    )
