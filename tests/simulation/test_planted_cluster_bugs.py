"""Bugs planted in what makes a cluster of nodes, and a few seeds that must find each of them.

Some of them were really there once; their names say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.membership.registration import Registration
from headrace.broker.metadata.controller import NEAR, Controller
from headrace.broker.metadata.entries import batch_of
from headrace.broker.metadata.store import MetadataStore
from headrace.broker.partitions import deletion
from headrace.broker.partitions.partition import Partition
from headrace.broker.replicas.opening import LogOpening
from headrace.metadata.commands import upkeep
from headrace.metadata.elections import eligible_replicas as eligible
from headrace.metadata.elections import partition_leaders as elections
from headrace.model.names import NO_NODE, Offset
from headrace.replication.remote_replicas import RemoteReplicas
from headrace.replication.replica import _UNBOUNDED, Replica
from headrace.simulation.faults.lost_disks import LOST_DISK
from headrace.simulation.history.history import Kind
from headrace.simulation.scenario import run_scenario
from headrace.wire.batches.header import read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.records import PartitionChanged
    from headrace.model.names import NodeId, TopicId
    from headrace.raft.log import Entry

NODES = 3
SEEDS_MAX = 6
SEEDS_MAX_LONG = 40
QUICK = 4  # of the cases: the first seeds find them
TROUBLE_S = 10.0
WRITERS = ("batches", "pipelines")
LOSS = {Kind.LOST, Kind.GONE, Kind.TWO_VALUES, Kind.FORKED, Kind.BEHIND}


def commit_what_only_the_leader_has(patch: pytest.MonkeyPatch) -> None:
    honest = Replica._review_in_sync

    def review(replica: Replica) -> None:
        honest(replica)
        replica._others_reached = _UNBOUNDED

    patch.setattr(Replica, "_review_in_sync", review)


def count_what_followers_have_only_written(patch: pytest.MonkeyPatch) -> None:
    honest = RemoteReplicas.reached
    patch.setattr(RemoteReplicas, "reached", lambda them, node_id, **_: honest(them, node_id, counts_written=True))


def elect_anybody(patch: pytest.MonkeyPatch) -> None:
    def elected(image: ClusterImage, partition: Any, isr: Any, *, but: int = -1) -> tuple[int, Any]:
        anybody = next((it for it in partition.replicas if it != but and image.is_here(it)), -1)
        return anybody, isr if anybody == -1 else (anybody,)

    patch.setattr(elections, "elected", elected)


def keep_the_absent_in_sync(patch: pytest.MonkeyPatch) -> None:
    honest = elections.taken_from

    def taken_from(
        image: ClusterImage, topic_id: TopicId, partition: Any, node_id: NodeId, **options: Any
    ) -> PartitionChanged | None:
        change = honest(image, topic_id, partition, node_id, **options)
        return None if change is None or partition.leader != node_id else replace(change, isr=partition.isr)

    for module in (elections, upkeep):
        patch.setattr(module, "taken_from", taken_from)


def lead_on_in_the_last_lifes_epoch(patch: pytest.MonkeyPatch) -> None:
    """Was there: a node that came back took its roles from an image that did not know its new life yet.

    Alone it does no harm any more: without a lease it does not act on those roles, and the controller lets it in only
    when it has read of its fence, and of who leads since then. So that is missing here as well.
    """

    async def at_once(_: Registration) -> None: ...

    def is_near(controller: Controller, _: NodeId, applied_end: Offset) -> bool:
        return controller._quorum.raft.log.commit_end - applied_end < NEAR

    patch.setattr(Registration, "_applied", at_once)
    patch.setattr(Controller, "_knows_enough", is_near)


def delete_records_on_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """Was there: the next leader still had what was confirmed to be deleted."""

    async def at_once(*_: Any) -> None: ...

    patch.setattr(deletion, "deleted_everywhere", at_once)


def commit_without_whom_it_proposes(patch: pytest.MonkeyPatch) -> None:
    """The controller may have agreed already, and elect the newcomer, before the leader knows."""
    patch.setattr(Replica, "_members", property(lambda replica: set(replica.in_sync)))


def take_in_who_knows_an_old_watermark(patch: pytest.MonkeyPatch) -> None:
    """Was there: a restarted leader let in whoever had reached its own old high watermark."""
    honest = Replica.become_leader

    def become_leader(replica: Replica, *arguments: Any) -> Any:
        advanced = honest(replica, *arguments)
        replica._epoch_start = Offset(0)
        return advanced

    patch.setattr(Replica, "become_leader", become_leader)


def never_cut_by_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "divergence", lambda *_: None)


def count_entries_that_are_only_written(patch: pytest.MonkeyPatch) -> None:
    """A voter acknowledges what a power cut can take from it."""

    async def append(store: MetadataStore, entries: tuple[Entry, ...]) -> None:
        batches = [batch_of(entry) for entry in entries]
        store.log.append(batches, [read_header(batch) for batch in batches])
        ticket = store.log.flushing.begin()
        assert ticket is not None
        store.log.flushing.finish(ticket)

    patch.setattr(MetadataStore, "_append", append)


def keep_eligible_who_was_left_behind(patch: pytest.MonkeyPatch) -> None:
    """The set is large enough again, and its leader commits without those who left."""
    patch.setattr(eligible, "_is_large_enough", lambda *_: False)
    patch.setattr(Replica, "eligible", property(lambda _: (), lambda *_: None))


def trust_a_new_disk(patch: pytest.MonkeyPatch) -> None:
    """Alone it does no harm: a node that is counted on notices that it has no log. It begins no empty one in its place,
    and gives it up before it is let in. So that is missing here as well.
    """
    honest = eligible._eligible
    patch.setattr(eligible, "_eligible", lambda before, record, needed, _: honest(before, record, needed, NO_NODE))
    patch.setattr(LogOpening, "note_missing", lambda *_: None)


def lead_on_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    honest = Replica.set_leased
    patch.setattr(Replica, "set_leased", lambda replica, _: honest(replica, True))


@dataclass(frozen=True)
class Case:
    plant: Callable[[pytest.MonkeyPatch], None]
    faults: tuple[str, ...]
    found_as: set[Kind]
    workloads: tuple[str, ...] = WRITERS


TWO_HEADS = {Kind.TWO_VOTES, Kind.TWO_LEADERS, Kind.METADATA_FORKED}
"""`tests/properties/test_raft_planted_bugs.py` removes Raft's own rules; here it is what nodes add to them."""
ONE_AFTER_THE_OTHER = ("crash of the controller", "crash", "power cut")

CASES = [
    Case(keep_eligible_who_was_left_behind, ("crash",), {Kind.UNCOUNTED, *LOSS}),
    Case(lead_on_without_a_lease, ("cut off from the others", "halves"), {Kind.FENCED_LEADER}),
    Case(commit_without_whom_it_proposes, ("crash", "pause"), {Kind.UNCOUNTED, *LOSS}),
    Case(never_cut_by_epoch, ("crash", "cut off from the others", "halves"), {Kind.BUG, *LOSS}),
    Case(commit_what_only_the_leader_has, ("crash",), LOSS),
    Case(count_what_followers_have_only_written, ("power cut of several",), LOSS),
    Case(elect_anybody, ("crash", "cut off from the others"), LOSS),
    Case(keep_the_absent_in_sync, ("crash", "power cut"), {Kind.FENCED_IN_SYNC, Kind.STUCK, *LOSS}),
    Case(lead_on_in_the_last_lifes_epoch, ("crash of several",), {Kind.WATERMARK_FELL, Kind.TWO_LEADERS, *LOSS}),
    Case(
        delete_records_on_the_leader_alone,
        ("crash of the controller", "crash"),
        {Kind.UNDELETED},
        ("trimming", *WRITERS),
    ),
    Case(take_in_who_knows_an_old_watermark, ONE_AFTER_THE_OTHER, LOSS),
    Case(trust_a_new_disk, (LOST_DISK, "crash"), LOSS),
    Case(count_entries_that_are_only_written, ("power cut of several",), {*TWO_HEADS, Kind.METADATA, Kind.BUG, *LOSS}),
]


def is_found(case: Case, seed: int) -> bool:
    report = run_scenario(seed, case.faults, case.workloads, node_count=NODES, trouble_s=TROUBLE_S)
    return not case.found_as.isdisjoint(violation.kind for violation in report.violations)


@pytest.mark.parametrize("case", CASES[:QUICK], ids=lambda case: case.plant.__name__)
def test_a_planted_bug_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.plant(monkeypatch)
    assert any(is_found(case, seed) for seed in range(SEEDS_MAX)), f"{SEEDS_MAX} seeds did not find it"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.plant.__name__)
def test_a_planted_bug_is_found_and_nothing_else(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.plant(monkeypatch)
    seed = next((seed for seed in range(SEEDS_MAX_LONG) if is_found(case, seed)), None)
    assert seed is not None, f"{SEEDS_MAX_LONG} seeds did not find it"
    monkeypatch.undo()
    assert run_scenario(seed, case.faults, case.workloads, node_count=NODES, trouble_s=TROUBLE_S).violations == []
