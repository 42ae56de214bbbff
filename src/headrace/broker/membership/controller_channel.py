"""The way to the controller, wherever it is: asked with patience, as long as there is hope that somebody answers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.client.errors import ClientError
from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.wire.messages.forward import ForwardRequest, ForwardResponse
from headrace.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers
    from headrace.broker.membership.registration import Registration
    from headrace.broker.metadata.quorum import Quorum
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock
    from headrace.wire.api import Message

Answer = TypeVar("Answer", bound="Message")

log = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0  # with a controller that is slow, or comes and goes
LEADERLESS_S: Final = 5.0  # an election takes two seconds, and may have to be held again; after that, nobody comes soon
RETRY_S: Final = 0.05
LANE: Final = "controller"


class ControllerChannel:
    def __init__(self, node_id: NodeId, quorum: Quorum, peers: Peers, registration: Registration, clock: Clock) -> None:
        self.node_id = node_id
        self._quorum = quorum
        self._peers = peers
        self._registration = registration
        self._clock = clock

    @property
    def broker_epoch(self) -> int:
        """Which life of this node the cluster knows: what it asks for is signed with that."""
        return self._registration.broker_epoch

    @property
    def is_controller(self) -> bool:
        """Whether this node is the controller itself."""
        return self._quorum.is_leader

    async def ask(self, message: Message, answer: type[Answer]) -> Answer:
        """Raises Refusal NOT_CONTROLLER or ClientError if nobody answers in time."""
        began_s = self._clock.monotonic_s()
        while True:
            try:
                controller = self._quorum.get_leader()
                if controller is None:
                    raise self._quorum.no_controller()
                return await self._peers.ask(controller, message, answer, lane=LANE)
            except (ClientError, Refusal):
                if self._is_hopeless(began_s):
                    raise
                await asyncio.sleep(RETRY_S)

    def _is_hopeless(self, began_s: float) -> bool:
        """Where a majority of the voters is away, whoever asks hears it at once, and not after all our patience. So it
        is where no voter is known: this node waits to be let in itself."""
        if not self._quorum.raft.membership.voters:
            return True
        waited_s = self._clock.monotonic_s() - began_s
        return waited_s >= PATIENCE_S or self._registration.unheard_s() >= LEADERLESS_S

    async def forward(
        self, message: Message, version: int, answer: type[Answer], *, client_id: str = "", client_host: str = ""
    ) -> Answer:
        """Let the controller handle a request. Its answer, once this node's image holds what it tells of."""
        writer = Writer()
        message.encode(writer, version)
        request = ForwardRequest(self.node_id, message.API_KEY, version, client_id, client_host, bytes(writer.buffer))
        began_s = self._clock.monotonic_s()
        while True:
            forwarded = await self.ask(request, ForwardResponse)
            code = ErrorCode(forwarded.error_code)
            if code is ErrorCode.NONE:
                await self._applied_if_possible(Offset(forwarded.end))
                return answer.decode(Reader(forwarded.body or b""), version)
            if code is not ErrorCode.NOT_CONTROLLER or self._is_hopeless(began_s):
                raise Refusal(code, "the controller has not taken the request")
            await asyncio.sleep(RETRY_S)

    async def _applied_if_possible(self, end: Offset) -> None:
        """What the controller has decided stands, also if this node's log has failed, and the node ends."""
        try:
            await self._quorum.applied_up_to(end)
        except (Refusal, DiskFailure) as failure:
            log.debug("an answer of the controller is passed on by a node that fails: %s", failure)
