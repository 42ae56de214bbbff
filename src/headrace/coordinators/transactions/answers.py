"""What transactional producers are told, and the words of each API version for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.coordinators.effects import Reply
from headrace.coordinators.transactions.effects import TransactionEffects
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.end_txn import EndTxnResponse
from headrace.wire.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from headrace.coordinators.effects import Token
    from headrace.coordinators.transactions.state import Identity, Transaction

INIT_KNOWS_FENCED: Final = 4  # InitProducerId from this version on may answer PRODUCER_FENCED
END_KNOWS_FENCED: Final = 2
ADD_KNOWS_FENCED: Final = 2  # AddPartitionsToTxn and AddOffsetsToTxn


def known_error(code: ErrorCode, version: int, knows_fenced_from: int) -> ErrorCode:
    """Clients of old versions know only INVALID_PRODUCER_EPOCH for a producer that was replaced."""
    if code is ErrorCode.PRODUCER_FENCED and version < knows_fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def answered(token: Token, response: Any) -> TransactionEffects:
    return TransactionEffects(replies=[Reply(token, response)])


def initialised(holder: Identity) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=holder.producer_id, producer_epoch=holder.epoch)


def not_initialised(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


def ended(holder: Identity) -> EndTxnResponse:
    """By the newer flow, which tells the holder of its new identity."""
    return EndTxnResponse(producer_id=holder.producer_id, producer_epoch=holder.epoch)


def still_ending(current: Transaction) -> Refusal:
    return Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction is in {current.status.text}; try again")


def fenced(asking: Identity, current: Transaction) -> Refusal:
    return Refusal(ErrorCode.PRODUCER_FENCED, f"{asking} is not the present holder, {current.identity}")


def nothing_to_end(current: Transaction, is_commit: bool) -> Refusal:
    wish = "commit" if is_commit else "abort"
    return Refusal(ErrorCode.INVALID_TXN_STATE, f"nothing to {wish}: the transaction is in {current.status.text}")
