"""The letters of Raft (keys 20001 to 20006). Each is answered at once and with nothing: replies are letters too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.api import response_class

if TYPE_CHECKING:
    from headrace.broker.raft_letters import RaftRequest
    from headrace.servers.kafka.apis import Request
    from headrace.wire.api import Message


def handle(message: RaftRequest, request: Request) -> Message:
    code = request.node.assembly.receive(message)
    return response_class(message.API_KEY)(code)  # type: ignore[call-arg]  # all of them have just this field
