"""Forward (key 20007): a client's request that another node passes on, because this one decides."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.apis import DECIDED_BY_CONTROLLER
from headrace.wire.messages.forward import ForwardRequest, ForwardResponse
from headrace.wire.primitives import Malformed, Reader, Writer

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.servers.kafka.interfaces import Request

ELEMENTS_MAX = 50_000  # as for requests that come from clients themselves


async def handle(message: ForwardRequest, request: Request, quorum: Quorum) -> ForwardResponse:
    if not quorum.is_leader:
        return ForwardResponse(error_code=ErrorCode.NOT_CONTROLLER)
    is_ours = message.api_key in DECIDED_BY_CONTROLLER
    api = request.server.apis.find(message.api_key, message.api_version) if is_ours else None
    if api is None:
        return ForwardResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        body = api.request.decode(Reader(message.body, 0, len(message.body), ELEMENTS_MAX), message.api_version)
    except Malformed:
        return ForwardResponse(error_code=ErrorCode.INVALID_REQUEST)
    outcome = api.handle(body, request._replace(client_id=message.client_id, version=message.api_version))
    answer = await outcome if isawaitable(outcome) else outcome
    writer = Writer()
    answer.encode(writer, message.api_version)
    return ForwardResponse(end=quorum.raft.log.commit_end, body=bytes(writer.buffer))
