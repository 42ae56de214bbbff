"""Two instances of a producer fight over one transactional id, on a network that loses, repeats and reorders.

Requests stay on the wire for long: each may arrive any number of times, in any order, with or without its answer.
Meanwhile time passes, markers are written late and the coordinator moves to another node. The ledger knows nothing of
how the coordinator decides. It follows what was answered, and holds the coordinator to that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinators.effects import Caller
from headrace.coordinators.transactions.coordinator import AddPartitions
from headrace.coordinators.transactions.settings import TransactionSettings
from headrace.coordinators.transactions.state import EPOCH_MAX, Status
from headrace.model.errors import ErrorCode
from headrace.model.names import ProducerId, TopicPartition
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from tests.unit.coordinators.transactions_at_work import APP, NEW_FLOW, OLD_FLOW, TIMEOUT_MS, Desk

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.coordinators.transactions.effects import TransactionEffects

Identity = tuple[int, int]

EXPIRATION_MS: Final = 1_000_000
WIRE_MAX: Final = 12  # requests that may still arrive: few enough that repeats are common
STATUS_AT: Final = 2 + 8 + 2 + 4  # in a record's value: after its version, the producer id, the epoch and the timeout
PARTITIONS: Final = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
TURNED_AWAY: Final = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
STEPS: Final = {
    Status.EMPTY: {Status.EMPTY, Status.ONGOING, Status.COMPLETE_ABORT},
    Status.ONGOING: {Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT},
    Status.PREPARE_COMMIT: {Status.COMPLETE_COMMIT},
    Status.PREPARE_ABORT: {Status.COMPLETE_ABORT},
    Status.COMPLETE_COMMIT: {Status.EMPTY, Status.ONGOING, Status.COMPLETE_ABORT},
    Status.COMPLETE_ABORT: {Status.EMPTY, Status.ONGOING, Status.COMPLETE_ABORT},
}


class Init(NamedTuple):
    expected: Identity | None


class Add(NamedTuple):
    identity: Identity
    partitions: tuple[TopicPartition, ...]
    flow: int


class End(NamedTuple):
    identity: Identity
    commit: bool
    flow: int


Request = Init | Add | End


@dataclass
class Instance:
    """A producer. It believes what it was told last, and acts on that at any time, sensibly or not."""

    flow: int
    identity: Identity | None = None
    waits_for: int = 0


@dataclass
class Ledger:
    """What the coordinator has promised so far."""

    given: set[Identity] = field(default_factory=set)
    living: set[Identity] = field(default_factory=set)
    """Who may still do something: the holder, and the identity it had before, as long as it may not know better."""
    opened_by: Identity | None = None
    opened_ms: int = 0
    partitions: set[TopicPartition] = field(default_factory=set)
    outcomes: dict[Identity, bool] = field(default_factory=dict)
    """Of the last transaction of an identity; True is a commit."""

    def is_dead(self, identity: Identity) -> bool:
        return identity in self.given and identity not in self.living

    def give(self, identity: Identity, to_new_holder: bool) -> None:
        assert 0 <= identity[1] < EPOCH_MAX, "that one is for markers alone"
        assert not self.is_dead(identity), f"{identity} has come back from the dead"
        assert not (to_new_holder and identity in self.given), f"{identity} was given out twice"
        self.given.add(identity)

    def open(self, identity: Identity, now_ms: int) -> None:
        self.opened_by, self.opened_ms, self.partitions = identity, now_ms, set()

    def close(self, commit: bool) -> None:
        assert self.opened_by is not None
        self.outcomes[self.opened_by] = commit
        self.opened_by = None


class Fight:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.desk = Desk(TransactionSettings(id_expiration_ms=EXPIRATION_MS))
        self.instances = [Instance(chance.choice([NEW_FLOW, NEW_FLOW, OLD_FLOW])) for _ in range(2)]
        self.wire: dict[int, tuple[Instance, Request]] = {}
        self.sent = 0
        self.ledger = Ledger()
        self.logged: list[Status | None] = []
        self.story: list[str] = []
        """For whoever has to understand a failure."""
        # The first instance holds the id; the second has yet to come.
        producer_id, epoch = self.desk.start_at_the_last_epoch(chance.choice([0, 1, 2, 5, 1_000]))
        self.instances[0].identity = (producer_id, epoch)
        self.ledger.give((producer_id, epoch), to_new_holder=True)
        self.ledger.living = {(producer_id, epoch)}
        self._look_at_the_log()

    def go_on(self, steps: int) -> None:
        actions: list[Callable[[], None]] = [self.ask_for_an_identity, self.add, self.add, self.end, self.end]
        actions += [self.something_arrives_late_or_again] * 3
        actions += [self.markers_are_written] * 3
        actions += [self.time_passes, self.another_node_takes_over]
        rare_actions = [self.a_long_silence, self.change_the_flow]
        for _ in range(steps):
            action = self.chance.choice(rare_actions if self.chance.randrange(50) == 0 else actions)
            self.story.append(action.__name__)
            action()
            self._what_is_open_has_a_deadline()

    def finish(self) -> None:
        """Whatever happened, a new instance gets to work."""
        self.desk.write_markers()
        identity = self.desk.start()
        for commit in (True, False):
            identity = self.desk.transaction(identity, commit)
        assert self.desk.state == "CompleteAbort"

    # The world

    def time_passes(self) -> None:
        ledger, desk = self.ledger, self.desk
        desk.pass_ms(TIMEOUT_MS * self.chance.choice([1, 6, 10]) // 10)
        is_due = ledger.opened_by is not None and desk.now.wall_ms - ledger.opened_ms >= TIMEOUT_MS
        effects = desk.mind.tick(desk.now)
        assert bool(effects.records) == is_due
        assert not effects.replies
        if is_due:
            self._ended(effects, commit=False)
        self._perform(effects)

    def markers_are_written(self) -> None:
        self.desk.write_markers()
        self._look_at_the_log()

    def another_node_takes_over(self) -> None:
        desk = self.desk
        transactions, orders, deadline_ms = (
            dict(desk.mind._transactions.by_id),
            desk.orders,
            desk.mind.next_deadline_ms(),
        )
        left_ms = None if deadline_ms is None else max(0, deadline_ms - desk.now.steady_ms)
        desk.reload()
        assert desk.mind._transactions.by_id == transactions
        assert desk.orders == [order._replace(coordinator_epoch=desk.coordinator_epoch) for order in orders]
        assert desk.mind.next_deadline_ms() == left_ms

    def a_long_silence(self) -> None:
        ledger, desk = self.ledger, self.desk
        is_busy = ledger.opened_by is not None or bool(desk.orders)
        desk.pass_ms(EXPIRATION_MS)
        effects = desk.mind.expire(desk.now)
        assert not (is_busy and effects.records)
        if effects.records:
            ledger.living = set()
        self._perform(effects)

    # Producers

    def ask_for_an_identity(self) -> None:
        instance = self._somebody()
        self._send(instance, Init(self.chance.choice([instance.identity, None])))

    def add(self) -> None:
        instance = self._somebody()
        if instance.identity is not None:
            partitions = self.chance.sample(PARTITIONS, self.chance.choice([1, 1, 2]))
            self._send(instance, Add(instance.identity, tuple(partitions), instance.flow))

    def end(self) -> None:
        instance = self._somebody()
        if instance.identity is not None:
            self._send(instance, End(instance.identity, self.chance.choice([True, False]), instance.flow))

    def change_the_flow(self) -> None:
        instance = self._somebody()
        instance.flow = OLD_FLOW + NEW_FLOW - instance.flow

    def something_arrives_late_or_again(self) -> None:
        if self.wire:
            self._arrive(self.chance.choice(list(self.wire)), is_answered=self.chance.choice([True, False]))

    def _somebody(self) -> Instance:
        """One does more than the other, so that it gets somewhere."""
        return self.chance.choice([self.instances[0], *self.instances])

    def _send(self, instance: Instance, request: Request) -> None:
        self.sent += 1
        self.wire[self.sent] = (instance, request)
        instance.waits_for = self.sent
        if len(self.wire) > WIRE_MAX:
            del self.wire[min(self.wire)]
        fate = self.chance.choice(["answered", "answered", "answered", "answer lost", "late"])
        if fate != "late":
            self._arrive(self.sent, is_answered=fate == "answered")

    def _arrive(self, number: int, is_answered: bool) -> None:
        instance, request = self.wire[number]
        match request:
            case Init():
                identity = self._arrive_init(request)
            case Add():
                identity = self._arrive_add(request)
            case End():
                identity = self._arrive_end(request)
        self.story.append(f"  {request} -> {identity}, {self.desk.state}")
        if is_answered and instance.waits_for == number:
            instance.identity = identity or instance.identity

    # The coordinator

    def _arrive_init(self, request: Init) -> Identity | None:
        desk, ledger = self.desk, self.ledger
        is_takeover = request.expected is None or desk.described().error_code != 0
        message = InitProducerIdRequest(APP, TIMEOUT_MS, *(request.expected or (-1, -1)))
        effects = desk.mind.init_producer_id(message, caller(5), self, desk.now, desk.fresh_id())
        response = self._only_reply(effects)
        identity = (response.producer_id, response.producer_epoch)
        if not is_takeover and ledger.is_dead(request.expected):
            self._turned_away(effects, response.error_code)
        elif response.error_code == 0:
            ledger.give(identity, to_new_holder=is_takeover)
            ledger.living = {identity} if is_takeover else {identity, request.expected}
        elif effects.records:
            assert response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            self._ended(effects, commit=False)
            if is_takeover:
                ledger.living = set()
        else:
            self._turned_away(effects, response.error_code)
        self._perform(effects)
        return identity if response.error_code == 0 else None

    def _arrive_add(self, request: Add) -> Identity | None:
        desk, ledger = self.desk, self.ledger
        producer_id, epoch = request.identity
        version = 2 if request.flow == NEW_FLOW else 0
        message = AddPartitions(APP, ProducerId(producer_id), epoch, request.partitions, version)
        effects = desk.mind.add_partitions(message, self, desk.now)
        codes = self._only_reply(effects)
        assert list(codes) == list(request.partitions)
        (code,) = set(codes.values())
        if code != ErrorCode.NONE:
            self._turned_away(effects, code)
            return None
        assert not ledger.is_dead(request.identity)
        if ledger.opened_by is None:
            ledger.open(request.identity, desk.now.wall_ms)
        assert ledger.opened_by == request.identity
        ledger.partitions.update(request.partitions)
        ledger.living = {request.identity}
        self._perform(effects)
        return request.identity

    def _arrive_end(self, request: End) -> Identity | None:
        desk, ledger = self.desk, self.ledger
        message = EndTxnRequest(APP, *request.identity, request.commit)
        effects = desk.mind.end(message, caller(request.flow), self, desk.now, desk.fresh_id())
        response = self._only_reply(effects)
        if response.error_code == ErrorCode.INVALID_TXN_STATE:
            assert not ledger.is_dead(request.identity)
            assert not effects.records
            return None
        if response.error_code:
            self._turned_away(effects, response.error_code)
            return None
        assert not ledger.is_dead(request.identity)
        if effects.records and ledger.opened_by is not None:
            assert ledger.opened_by == request.identity
            self._ended(effects, request.commit)
        elif effects.records:  # nothing was open, and nothing but the identity has changed
            assert not request.commit
            assert not effects.markers
            ledger.outcomes[request.identity] = False
        # By the older flow, an identity that has ended nothing yet may be told of the transaction before.
        so_far = ledger.outcomes.get(request.identity, request.commit if request.flow == OLD_FLOW else None)
        assert so_far == request.commit, "told of an outcome that is not so"
        new = (response.producer_id, response.producer_epoch) if request.flow == NEW_FLOW else request.identity
        ledger.give(new, to_new_holder=False)
        ledger.living = {new, request.identity} if effects.records else ledger.living | {new}
        self._perform(effects)
        return new

    def _ended(self, effects: TransactionEffects, commit: bool) -> None:
        (order,) = effects.markers
        assert order.is_commit == commit
        assert order.partitions == tuple(sorted(self.ledger.partitions))
        self.ledger.close(commit)

    def _only_reply(self, effects: TransactionEffects) -> Any:
        (reply,) = effects.replies
        assert reply.token is self
        return reply.response

    def _turned_away(self, effects: TransactionEffects, code: int) -> None:
        assert code in TURNED_AWAY
        assert not effects.records
        assert not effects.markers

    def _perform(self, effects: TransactionEffects) -> None:
        self.desk.perform(effects)
        self._look_at_the_log()

    def _look_at_the_log(self) -> None:
        """Each transaction ends at most one way, and what is decided stays decided."""
        for _, value in self.desk.log[len(self.logged) :]:
            before = self.logged[-1] if self.logged else None
            status = None if value is None else Status(value[STATUS_AT])
            if status is None:
                assert before in {Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT}
            elif before is None:
                assert status is Status.EMPTY
            else:
                assert status in STEPS[before], f"from {before.text} to {status.text}"
            self.logged.append(status)

    def _what_is_open_has_a_deadline(self) -> None:
        is_open = self.ledger.opened_by is not None
        assert (self.desk.state == "Ongoing") == is_open
        assert (self.desk.mind.next_deadline_ms() is not None) == is_open


def caller(version: int) -> Caller:
    return Caller("client", "127.0.0.1", version)


def fight(chance: Random, steps: int) -> None:
    fighters = Fight(chance)
    try:
        fighters.go_on(steps)
        fighters.finish()
    except AssertionError as broken:
        broken.add_note("\n".join(fighters.story[-60:]))
        raise


@pytest.mark.parametrize("seed", range(100))
def test_nobody_gets_what_is_not_his_in_a_long_fight(seed: int) -> None:
    fight(Random(seed), steps=400)


@settings(max_examples=30, deadline=None)
@given(chance=st.randoms(use_true_random=False), steps=st.integers(1, 15))
def test_nobody_gets_what_is_not_his_in_a_short_fight(chance: Random, steps: int) -> None:
    """Finds less, but tells it shorter."""
    fight(chance, steps)
