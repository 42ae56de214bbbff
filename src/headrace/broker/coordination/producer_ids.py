"""Ids that no producer ever had. The controller gives them out by the block, so few producers wait for its disk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.errors import ClientError
from headrace.metadata.commands.node_commands import reserve_producer_ids
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ProducerId
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from headrace.broker.membership.controller_channel import ControllerChannel
    from headrace.broker.metadata.quorum import Quorum


class ProducerIds:
    def __init__(self, quorum: Quorum, channel: ControllerChannel) -> None:
        self._quorum = quorum
        self._channel = channel
        self._next, self._end = 0, 0
        self._reserving = asyncio.Lock()

    async def take(self) -> ProducerId:
        """Raises Refusal if none can be had now."""
        async with self._reserving:
            if self._next == self._end:
                self._next, self._end = await self._reserved()
            self._next += 1
            return ProducerId(self._next - 1)

    async def _reserved(self) -> tuple[int, int]:
        """A producer asks any node, so "not the controller" would puzzle it: older clients take that for the end.
        Kafka says this instead, which every client rides out."""
        try:
            return await self._reserve()
        except (Refusal, ClientError) as trouble:
            raise Refusal(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids to give out: {trouble}"
            ) from trouble

    async def _reserve(self) -> tuple[int, int]:
        node_id, broker_epoch = self._channel.node_id, self._channel.broker_epoch
        if self._channel.is_controller:
            return await self._quorum.submit(lambda image: reserve_producer_ids(image, node_id))
        answer = await self._channel.ask(AllocateProducerIdsRequest(node_id, broker_epoch), AllocateProducerIdsResponse)
        if answer.error_code:
            raise Refusal(ErrorCode(answer.error_code), "the controller gives out no producer ids now")
        return answer.producer_id_start, answer.producer_id_start + answer.producer_id_len
