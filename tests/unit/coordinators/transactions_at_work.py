"""A transaction coordinator with what a node puts around it: a log of bytes, clocks, somebody who writes markers."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from headrace.coordinators.effects import Caller, Now
from headrace.coordinators.records import TRANSACTION_KINDS, decode, encode
from headrace.coordinators.transactions.coordinator import AddPartitions, TransactionCoordinator
from headrace.coordinators.transactions.effects import TransactionEffects
from headrace.coordinators.transactions.settings import TransactionSettings
from headrace.coordinators.transactions.state import EPOCH_GIVEN_MAX, Status, Transaction, record_of
from headrace.model.names import Millis, ProducerId, TopicPartition
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.coordinators.transactions.effects import MarkerOrder
    from headrace.model.errors import ErrorCode
    from headrace.wire.messages.describe_transactions import TransactionState

APP = "app"
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TIMEOUT_MS = 60_000
NEW_FLOW = 5  # the version of EndTxn
OLD_FLOW = 4
FRESH = 1_000
"""Producer ids are given out from here on."""


class Desk:
    """Does at once what the coordinator wants, but for markers: those wait in `orders`."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.now = Now(5_000, Millis(1_700_000_000_000))
        self.log: list[tuple[bytes, bytes | None]] = []
        self.orders: list[MarkerOrder] = []
        self.coordinator_epoch = 7
        self.mind = TransactionCoordinator(self.settings, self.coordinator_epoch)
        self._fresh = count(FRESH)

    # Time and trouble

    def pass_ms(self, steady_ms: int, wall_ms: int | None = None) -> None:
        self.now = Now(
            self.now.steady_ms + steady_ms, Millis(self.now.wall_ms + (steady_ms if wall_ms is None else wall_ms))
        )

    def reload(self, steady_ms: int = 0) -> None:
        """Another node takes over: its steady clock knows nothing of ours, and what we ordered may be lost."""
        self.now = Now(steady_ms, self.now.wall_ms)
        self.orders = []
        self.coordinator_epoch += 1
        self.mind = TransactionCoordinator(self.settings, self.coordinator_epoch)
        for key, value in self.log:
            self.mind.apply(decode(TRANSACTION_KINDS, key, value))
        self.perform(self.mind.loaded(self.now))

    def perform(self, effects: TransactionEffects) -> list[Any]:
        for record in effects.records:
            written = encode(record)
            self.log.append(written)
            self.mind.apply(decode(TRANSACTION_KINDS, *written))
        self.orders += effects.markers
        return [reply.response for reply in effects.replies]

    def asked(self, effects: TransactionEffects) -> Any:
        (response,) = self.perform(effects)
        return response

    # What clients do

    def init(
        self,
        expected: tuple[int, int] = (-1, -1),
        version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
        transactional_id: str | None = APP,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id, timeout_ms, *expected)
        effects = self.mind.init_producer_id(request, self._caller(version), self, self.now, self.fresh_id())
        response: InitProducerIdResponse = self.asked(effects)
        return response

    def start(self, **named: Any) -> tuple[int, int]:
        """An identity, whatever it takes."""
        response = self.init(**named)
        if response.error_code:
            self.write_markers()
            response = self.init(**named)
        assert response.error_code == 0
        return response.producer_id, response.producer_epoch

    def start_at_the_last_epoch(self, steps_before: int = 0) -> tuple[int, int]:
        """As after tens of thousands of transactions."""
        epoch = EPOCH_GIVEN_MAX - steps_before
        holder = Transaction(self.fresh_id(), epoch, TIMEOUT_MS, Status.EMPTY, self.now.wall_ms)
        self.perform(TransactionEffects(records=[record_of(APP, holder)]))
        return holder.identity

    def add(
        self, identity: tuple[int, int], *partitions: TopicPartition, version: int = 2, transactional_id: str = APP
    ) -> ErrorCode:
        codes = self.codes(identity, partitions, version=version, transactional_id=transactional_id)
        (code,) = set(codes.values())
        return code

    def verify(self, identity: tuple[int, int], *partitions: TopicPartition) -> dict[TopicPartition, ErrorCode]:
        return self.codes(identity, partitions, verify_only=True)

    def codes(
        self,
        identity: tuple[int, int],
        partitions: Sequence[TopicPartition],
        version: int = 2,
        transactional_id: str = APP,
        verify_only: bool = False,
    ) -> dict[TopicPartition, ErrorCode]:
        producer_id, epoch = identity
        request = AddPartitions(transactional_id, ProducerId(producer_id), epoch, partitions, version, verify_only)
        codes: dict[TopicPartition, ErrorCode] = self.asked(self.mind.add_partitions(request, self, self.now))
        return codes

    def end(
        self, identity: tuple[int, int], commit: bool = True, version: int = NEW_FLOW, transactional_id: str = APP
    ) -> EndTxnResponse:
        request = EndTxnRequest(transactional_id, *identity, commit)
        effects = self.mind.end(request, self._caller(version), self, self.now, self.fresh_id())
        response: EndTxnResponse = self.asked(effects)
        return response

    def transaction(self, identity: tuple[int, int], commit: bool = True) -> tuple[int, int]:
        """A whole one, by the newer flow; the identity after it."""
        assert self.add(identity, A0) == 0
        response = self.end(identity, commit)
        assert response.error_code == 0
        self.write_markers()
        return response.producer_id, response.producer_epoch

    # What the node does

    def write_markers(self) -> None:
        orders, self.orders = self.orders, []
        for order in orders:
            self.perform(
                self.mind.markers_written(order.transactional_id, order.producer_id, order.producer_epoch, self.now)
            )

    def tick(self) -> None:
        self.perform(self.mind.tick(self.now))

    def expire(self) -> int:
        before = len(self.log)
        self.perform(self.mind.expire(self.now))
        return len(self.log) - before

    def described(self, transactional_id: str = APP) -> TransactionState:
        (state,) = self.mind.describe([transactional_id])
        return state

    @property
    def state(self) -> str:
        return self.described().transaction_state

    def fresh_id(self) -> ProducerId:
        return ProducerId(next(self._fresh))

    @staticmethod
    def _caller(version: int) -> Caller:
        return Caller("client", "127.0.0.1", version)
