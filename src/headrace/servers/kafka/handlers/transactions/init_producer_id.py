"""InitProducerId (key 22): a number for an idempotent producer, or for the next owner of a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.rights import ANY_OF_ITS_KIND, Choice, Right, Rights, Scene, error_of
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.coordination.producer_ids import ProducerIds
    from headrace.servers.kafka.interfaces import Request


NAMED: Final = Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
NAMELESS: Final = Right(Operation.WRITE, ResourceType.TOPIC, ANY_OF_ITS_KIND, or_on_cluster=Operation.IDEMPOTENT_WRITE)
"""A number that nobody could write with would be a waste."""


def _taken(message: InitProducerIdRequest, _: InitProducerIdRequest, __: Scene) -> tuple[Right, ...]:
    return (NAMELESS if message.transactional_id is None else NAMED,)


RIGHTS = Rights(whole=(Choice((NAMED, NAMELESS), _taken),), refused=error_of(InitProducerIdResponse))


async def handle(
    message: InitProducerIdRequest, request: Request, coordinators: Coordinators, producer_ids: ProducerIds
) -> InitProducerIdResponse:
    try:
        fresh = await producer_ids.take()
        if message.transactional_id is None:
            # A producer that asks again, whatever it was called before, is a new one: nothing ties it to its past.
            return InitProducerIdResponse(producer_id=fresh, producer_epoch=0)
        caller = caller_of(request)
        shard = coordinators.transactions_of(message.transactional_id)
        response: InitProducerIdResponse = await shard.ask(
            lambda mind, token, now: mind.init_producer_id(message, caller, token, now, fresh)
        )
    except Refusal as refusal:
        return InitProducerIdResponse(error_code=refusal.code)
    return response
