"""Bugs planted in groups and transactions, and a few seeds that must find each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.coordination.markers import MarkerWriter
from headrace.broker.coordination.shard import Shard
from headrace.broker.partitions.partition import Partition
from headrace.coordinators.groups.classic.classic_group import ClassicGroup
from headrace.coordinators.groups.classic.rebalance import RebalanceCycle
from headrace.coordinators.groups.coordinator import GroupCoordinator
from headrace.coordinators.groups.modern import modern_group as modern
from headrace.coordinators.groups.modern import reconciliation as modern_reconciliation
from headrace.coordinators.groups.modern.modern_group import ModernGroup
from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffsets
from headrace.coordinators.transactions.coordinator import TransactionCoordinator
from headrace.coordinators.transactions.effects import TransactionEffects
from headrace.coordinators.transactions.state import Identity, Transaction
from headrace.model.names import NO_PRODUCER
from headrace.servers.kafka.handlers.records.produced_batches import ProducedBatches
from headrace.simulation.groups_and_transactions import CLASSIC, MODERN, TRANSACTIONS, TRANSFORMATION
from headrace.simulation.history.history import Kind, Violation
from headrace.simulation.scenario import run_scenario
from headrace.storage.log.transaction_indexes import TransactionIndexes
from headrace.storage.recovery.aborted import RecoveredAborts

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.coordinators.transactions.effects import MarkerOrder

pytestmark = pytest.mark.xdist_group("planted-coordination-bugs")  # one process, which remembers honest runs

SEEDS_MAX = 40
UNDECIDED = {Kind.EARLY_READ, Kind.PASSED_OPEN, Kind.ABORTED_READ}


# What is planted.


def reply_before_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "_when_settled", lambda _, then: then(None))


def skip_a_marker(patch: pytest.MonkeyPatch) -> None:
    honest = MarkerWriter.write

    def write(writer: MarkerWriter, shard: Any, order: MarkerOrder) -> None:
        honest(writer, shard, order._replace(partitions=order.partitions[1:]))

    patch.setattr(MarkerWriter, "write", write)


def show_one_beyond_the_stable(patch: pytest.MonkeyPatch) -> None:
    def readable_end(partition: Partition, *, is_committed_only: bool) -> int:
        stable_end = min(partition.last_stable_offset + 1, partition.high_watermark)
        return stable_end if is_committed_only else partition.high_watermark

    patch.setattr(Partition, "readable_end", readable_end)


def name_no_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionIndexes, "aborted_between", lambda *_: [])


def show_what_is_undecided(patch: pytest.MonkeyPatch) -> None:
    def review_stability(partition: Partition) -> None:
        partition.log.producers.transactions.settle(partition.high_watermark)
        partition.last_stable_offset = partition.high_watermark

    patch.setattr(Partition, "review_stability", review_stability)


def forget_aborted_transactions_at_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecoveredAborts, "note", lambda *_: None)


def write_without_asking_the_coordinator(patch: pytest.MonkeyPatch) -> None:
    async def ask_for_grants(*_: object) -> dict[object, object]:
        return {}

    patch.setattr(ProducedBatches, "_ask_for_grants", ask_for_grants)


def end_without_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-890: a late EndTxn ends the next transaction."""
    patch.setattr(
        Transaction,
        "ending_with_bump",
        lambda transaction, is_commit, now_ms, _=NO_PRODUCER: transaction.ending_in_place(is_commit, now_ms),
    )


def hand_the_id_over_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Identity, "next", lambda identity, _: identity)


def count_aborted_offsets(patch: pytest.MonkeyPatch) -> None:
    honest = CommittedOffsets.end_transaction

    def end_transaction(offsets: CommittedOffsets, producer_id: Any, *, is_commit: bool) -> None:
        honest(offsets, producer_id, is_commit=True)

    patch.setattr(CommittedOffsets, "end_transaction", end_transaction)


def count_offsets_before_their_transaction_ends(patch: pytest.MonkeyPatch) -> None:
    def commit_in_transaction(offsets: CommittedOffsets, key: Any, value: Any, _: object) -> None:
        offsets.commit(key, value)

    patch.setattr(CommittedOffsets, "commit_in_transaction", commit_in_transaction)


def tell_offsets_that_a_transaction_may_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommittedOffsets, "is_unstable", lambda *_: False)


def leave_offsets_without_their_marker(patch: pytest.MonkeyPatch) -> None:
    def write_marker(shard: Shard[Any], producer_id: Any, epoch: int, **options: Any) -> Any:
        return shard.partition.writer.write_marker(producer_id, epoch, **options)

    patch.setattr(Shard, "write_marker", write_marker)


def lose_offsets_on_load(patch: pytest.MonkeyPatch) -> None:
    def loaded(mind: Any, now: Any) -> Any:
        mind._offsets = CommittedOffsets()
        return honest(mind, now)

    honest = GroupCoordinator.loaded
    patch.setattr(GroupCoordinator, "loaded", loaded)


def load_no_timeouts(patch: pytest.MonkeyPatch) -> None:
    def loaded(mind: TransactionCoordinator, now: Any) -> TransactionEffects:
        effects = honest(mind, now)
        for transactional_id in mind._transactions.by_id:
            mind._deadlines.cancel(transactional_id)
        return effects

    honest = TransactionCoordinator.loaded
    patch.setattr(TransactionCoordinator, "loaded", loaded)


def load_no_unwritten_markers(patch: pytest.MonkeyPatch) -> None:
    def loaded(mind: TransactionCoordinator, now: Any) -> TransactionEffects:
        honest(mind, now)
        return TransactionEffects()

    honest = TransactionCoordinator.loaded
    patch.setattr(TransactionCoordinator, "loaded", loaded)


def wait_for_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RebalanceCycle, "_watch_session", lambda *_: None)


def wait_for_the_dead_of_newer_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModernGroup, "_renew_session", lambda *_: None)


def give_away_before_it_is_given_up(patch: pytest.MonkeyPatch) -> None:
    honest = modern_reconciliation.reconcile

    def reconcile(*args: Any, **options: Any) -> Any:
        return honest(*args, **{**options, "is_occupied": lambda _: False})

    patch.setattr(modern, "reconcile", reconcile)


def share_out_twice(patch: pytest.MonkeyPatch) -> None:
    """Every member of a classic group is given what its leader was given."""
    honest = RebalanceCycle.hand_out

    def hand_out(cycle: RebalanceCycle, assignments: Any, now: Any) -> Any:
        whole = assignments.get(cycle.roster.leader_id, b"")
        return honest(cycle, dict.fromkeys(assignments, whole), now)

    patch.setattr(RebalanceCycle, "hand_out", hand_out)


def take_commits_of_old_generations(patch: pytest.MonkeyPatch) -> None:
    def member_of_generation(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> Any:
        return group._cycle.roster.find(member_id, instance_id)

    patch.setattr(ClassicGroup, "_member_of_generation", member_of_generation)


def take_commits_of_old_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(modern, "check_not_stale", lambda *_: None)


@dataclass(frozen=True)
class Case:
    plant: Callable[[pytest.MonkeyPatch], None]
    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    found_as: set[Kind]
    first_seed: int = 0  # where the search begins: none before it finds the bug


CASES = [
    Case(
        reply_before_commit, (MODERN, TRANSFORMATION), ("power cut", "slow disk"), {Kind.WRONG_OFFSET, Kind.TWO_OWNERS}
    ),
    Case(skip_a_marker, (TRANSACTIONS,), (), {Kind.HANGING}),
    Case(show_one_beyond_the_stable, (TRANSACTIONS,), (), UNDECIDED),
    Case(name_no_aborted_transactions, (TRANSACTIONS,), (), {Kind.ABORTED_READ, Kind.EARLY_READ}),
    Case(show_what_is_undecided, (TRANSACTIONS,), (), UNDECIDED),
    Case(forget_aborted_transactions_at_start, (TRANSACTIONS,), ("crash",), {Kind.ABORTED_READ, Kind.MISREAD}),
    Case(write_without_asking_the_coordinator, (TRANSACTIONS,), (), {Kind.HANGING}),
    Case(end_without_a_new_epoch, (TRANSACTIONS,), (), {Kind.LOST, Kind.TORN, *UNDECIDED}, first_seed=1),
    Case(hand_the_id_over_without_a_fence, (TRANSACTIONS,), (), {Kind.LOST, Kind.TORN, *UNDECIDED}),
    Case(count_aborted_offsets, (TRANSFORMATION,), (), {Kind.UNPROCESSED, Kind.WRONG_OFFSET}),
    Case(count_offsets_before_their_transaction_ends, (TRANSFORMATION,), (), {Kind.UNPROCESSED, Kind.WRONG_OFFSET}),
    Case(tell_offsets_that_a_transaction_may_change, (TRANSFORMATION,), (), {Kind.UNPROCESSED}, first_seed=2),
    Case(leave_offsets_without_their_marker, (TRANSFORMATION,), (), {Kind.WRONG_OFFSET, Kind.STUCK}),
    Case(lose_offsets_on_load, (CLASSIC, "batches"), ("crash",), {Kind.WRONG_OFFSET}),
    Case(load_no_timeouts, (TRANSACTIONS,), ("crash",), {Kind.HANGING}),
    Case(load_no_unwritten_markers, (TRANSACTIONS,), ("crash", "slow disk"), {Kind.HANGING}, first_seed=1),
    Case(wait_for_the_dead, (CLASSIC,), (), {Kind.ORPHANED}),
    Case(wait_for_the_dead_of_newer_groups, (MODERN,), (), {Kind.ORPHANED}),
    Case(give_away_before_it_is_given_up, (MODERN,), (), {Kind.TWO_OWNERS}),
    Case(share_out_twice, (CLASSIC,), (), {Kind.TWO_OWNERS}),
    Case(take_commits_of_old_generations, (CLASSIC, "batches"), (), {Kind.STALE_COMMIT, Kind.WRONG_OFFSET}),
    Case(take_commits_of_old_epochs, (MODERN,), (), {Kind.STALE_COMMIT}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.plant.__name__)
def test_a_planted_bug_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.plant(monkeypatch)
    seeds = range(case.first_seed, case.first_seed + SEEDS_MAX)
    seed = next((seed for seed in seeds if is_found(case, seed)), None)
    assert seed is not None, f"{SEEDS_MAX} seeds did not find it"
    monkeypatch.undo()
    assert violations_without_it(seed, case.faults, case.workloads) == []  # it was the planted bug that was found


@cache
def violations_without_it(seed: int, faults: tuple[str, ...], workloads: tuple[str, ...]) -> list[Violation]:
    """Many cases have the same seed and the same troubles."""
    return run_scenario(seed, faults, workloads).violations


def is_found(case: Case, seed: int) -> bool:
    violations = run_scenario(seed, case.faults, case.workloads).violations
    return not case.found_as.isdisjoint(violation.kind for violation in violations)
