"""A node asks to be let out of a partition's in-sync set; if it leads there, another one does from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.partition_commands import give_up_replica
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.give_up_replica import GiveUpReplicaRequest, GiveUpReplicaResponse

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.broker.membership.controller_channel import ControllerChannel
    from headrace.model.names import LogId


class GivingUp:
    def __init__(self, commands: Commands, channel: ControllerChannel) -> None:
        self._commands = commands
        self._channel = channel

    async def leave_in_sync_set(self, log_id: LogId, *, is_lost: bool, serves_nothing: bool = False) -> None:
        """Raises Refusal if nobody else is in sync, or the controller does not want it; ClientError if it is not heard.

        `is_lost`: this node's copy lacks what it once had, or will be thrown away. A whole one may still be elected
        later. `serves_nothing`: not even what is whole of it, so nothing is gained by leading on until another can.
        """
        node_id, broker_epoch = self._channel.node_id, self._channel.broker_epoch
        if self._channel.is_controller:
            await self._commands.submit(
                lambda image: give_up_replica(
                    image, node_id, broker_epoch, log_id, is_lost=is_lost, serves_nothing=serves_nothing
                )
            )
            return
        answer = await self._channel.ask(
            GiveUpReplicaRequest(node_id, broker_epoch, log_id.topic_id, log_id.partition, is_lost, serves_nothing),
            GiveUpReplicaResponse,
        )
        if answer.error_code:
            raise Refusal(ErrorCode(answer.error_code), answer.error_message or "")
