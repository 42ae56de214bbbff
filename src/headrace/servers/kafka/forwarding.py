"""The way of a request to the controller, from a node that is not it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.model.names import Offset
from headrace.wire.api import response_class
from headrace.wire.messages.forward import ForwardRequest
from headrace.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request
    from headrace.wire.api import Message


async def forward(message: Message, request: Request) -> Any:
    """The controller's answer, once this node serves what it tells of."""
    writer = Writer()
    message.encode(writer, request.version)
    answer = await request.node.forward(
        ForwardRequest(
            request.node.node_id,
            message.API_KEY,
            request.version,
            request.client_id,
            request.connection.link.peer.host,
            bytes(writer.buffer),
        )
    )
    await request.node.caught_up_to(Offset(answer.end))
    body = answer.body or b""
    return response_class(message.API_KEY).decode(Reader(body, 0, len(body)), request.version)
