"""Transactional ids that somebody invents take a bounded part of the memory, and make way for others."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.coordinators.effects import Caller, Now
from headrace.coordinators.transactions import transaction_table
from headrace.coordinators.transactions.coordinator import TransactionCoordinator
from headrace.coordinators.transactions.settings import TransactionSettings
from headrace.coordinators.transactions.transaction_table import CROWDED_IDLE_MS, ID_BYTES
from headrace.model.errors import ErrorCode
from headrace.model.names import Millis, ProducerId
from headrace.wire.messages.init_producer_id import InitProducerIdRequest

START_MS = 1_700_000_000_000
COUNT = 10


class Coordinator:
    def __init__(self) -> None:
        self.mind = TransactionCoordinator(TransactionSettings(), 0)
        self.wall_ms = START_MS

    def init(self, name: str) -> ErrorCode:
        now = Now(self.wall_ms, Millis(self.wall_ms))
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        effects: Any = self.mind.init_producer_id(request, Caller("", "host", 5, ""), object(), now, ProducerId(7))
        for record in effects.records:
            self.mind.apply(record)
        return ErrorCode(effects.replies[0].response.error_code)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    monkeypatch.setattr(transaction_table, "IDS_BYTES_MAX", COUNT * (ID_BYTES + 4))
    it = Coordinator()
    for number in range(COUNT):
        assert it.init(f"id-{number}") is ErrorCode.NONE
        it.wall_ms += 1
    return it


def test_one_more_is_told_to_come_back(full: Coordinator) -> None:
    assert full.init("id-x") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert full.init("id-3") is ErrorCode.NONE, "those that are known go on"


def test_who_was_idle_for_long_makes_way(full: Coordinator) -> None:
    full.wall_ms += CROWDED_IDLE_MS - 5
    assert full.init("id-x") is ErrorCode.NONE
    assert "id-0" not in full.mind._transactions.by_id
    assert "id-1" in full.mind._transactions.by_id
    assert len(full.mind._transactions.by_id) == COUNT


def test_what_is_counted_is_what_is_there(full: Coordinator) -> None:
    full.wall_ms += CROWDED_IDLE_MS * 2
    for number in range(50):
        assert full.init(f"id{number % 20:02}") is ErrorCode.NONE
        full.wall_ms += CROWDED_IDLE_MS
    held = sum(ID_BYTES + len(name) for name in full.mind._transactions.by_id)
    assert full.mind._transactions._ids_bytes == held <= COUNT * (ID_BYTES + 4)
