"""Messages of Raft (keys 20001 to 20006). Each is answered at once and with nothing, as what Raft replies is a
message of its own. Only a snapshot is checked first, which takes a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.wire.api import response_class

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from headrace.broker.membership.raft_messages import RaftRequest
    from headrace.broker.membership.raft_receiver import RaftReceiver
    from headrace.servers.kafka.interfaces import Request
    from headrace.wire.api import Message


def handle(message: RaftRequest, request: Request, raft: RaftReceiver) -> Message | Awaitable[Message]:
    code = raft.receive(message)
    return _answer(message, code) if isinstance(code, ErrorCode) else _answer_later(message, code)


async def _answer_later(message: RaftRequest, code: Awaitable[ErrorCode]) -> Message:
    return _answer(message, await code)


def _answer(message: RaftRequest, code: ErrorCode) -> Message:
    return response_class(message.API_KEY)(code)  # type: ignore[call-arg]  # all of them have just this field
