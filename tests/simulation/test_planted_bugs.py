"""The judge is worth something only if it finds bugs. Here each is planted in the node, and a few seeds must find it.

Some of them were really there once; their names say so, and the test keeps them from coming back unseen.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.coordination.producer_ids import ProducerIds
from headrace.broker.membership.commands import Commands
from headrace.broker.metadata import quorum
from headrace.broker.metadata import store as metadata_store
from headrace.broker.metadata.store import METADATA_LOG
from headrace.broker.node import Node
from headrace.broker.partitions import partition
from headrace.broker.partitions.partition import LogReadInfo
from headrace.model.errors import DiskFailure
from headrace.replication.producers import ProducerStates
from headrace.replication.replica import Replica
from headrace.runtime.disk import Trust
from headrace.servers.kafka.handlers.records.fetch import PendingFetch
from headrace.servers.kafka.handlers.records.produce import PendingProduce
from headrace.simulation.environment.disk import SimulatedFile
from headrace.simulation.history.history import Kind, Violation
from headrace.simulation.scenario import PLAIN_WORKLOADS, run_scenario
from headrace.storage.files import layout
from headrace.storage.integrity import verify
from headrace.storage.log.flushing import FlushTicket
from headrace.storage.log.log_segments import LogSegments
from headrace.storage.recovery import opening, verification
from headrace.storage.segments.producer_snapshots import Replayed
from headrace.storage.store import flusher
from headrace.storage.store.checkpointing import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage.integrity.verify import BadBatch, Checked

pytestmark = pytest.mark.xdist_group("planted-bugs")  # one process, which remembers honest runs

SEEDS_MAX = 30
LOSS = {Kind.LOST, Kind.GONE, Kind.TWO_VALUES, Kind.WATERMARK_FELL}


# What is planted.


def flush_without_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flusher, "_sync", lambda disk, tickets: None)


def flush_without_directories(patch: pytest.MonkeyPatch) -> None:
    """Of data: a node that has lost its metadata does not start, and loses nothing more."""
    honest = FlushTicket.sync
    metadata_directory = layout.directory_of(METADATA_LOG)

    def sync(ticket: FlushTicket, disk: Any) -> None:
        if metadata_directory in ticket.directories:
            honest(ticket, disk)
            return
        for _, file, _ in ticket.files:
            file.sync()

    patch.setattr(FlushTicket, "sync", sync)
    patch.setattr(flusher, "SINGLE_SYNCS_MAX", 1 << 30)


def try_a_failed_sync_again(patch: pytest.MonkeyPatch) -> None:
    sync_after_a_failed_sync(patch)
    honest = flusher._sync

    def sync(disk: Any, tickets: Any) -> None:
        try:
            honest(disk, tickets)
        except DiskFailure:
            honest(disk, tickets)

    patch.setattr(flusher, "_sync", sync)


def ignore_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    sync_after_a_failed_sync(patch)
    honest = flusher._sync

    def sync(disk: Any, tickets: Any) -> None:
        with suppress(DiskFailure):
            honest(disk, tickets)

    patch.setattr(flusher, "_sync", sync)


def ack_what_is_only_written(patch: pytest.MonkeyPatch) -> None:
    """`acks=all` is answered like `acks=1`."""
    honest = PendingProduce.finish

    def finish(pending: PendingProduce, connection: Any) -> None:
        if pending.acks == -1:
            pending.acks = 1
        honest(pending, connection)

    patch.setattr(PendingProduce, "finish", finish)


def show_what_is_only_written(patch: pytest.MonkeyPatch) -> None:
    def read(served: Any, offset: int, max_bytes: int, *, at_least_one: bool, **_: Any) -> LogReadInfo:
        log = served.log
        end = log.next_offset
        records = log.read(offset, max_bytes, end, at_least_one=at_least_one) if offset < end else None
        return LogReadInfo(records, end, end, log.start_offset)

    patch.setattr(partition.Partition, "read", read)


def count_what_is_only_written(patch: pytest.MonkeyPatch) -> None:
    honest = Replica.set_policy

    def set_policy(replica: Replica, *, durability: str, min_insync: int) -> int:
        return honest(replica, durability="written", min_insync=min_insync)

    patch.setattr(Replica, "set_policy", set_policy)


def forget_producers_at_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opening, "replay_producers", lambda *_: Replayed(ProducerStates(), -1, []))


def recover_one_batch_less(patch: pytest.MonkeyPatch) -> None:
    honest = verification.checked_batches

    def checked_batches(file: SimulatedFile, *args: Any, **options: Any) -> Any:
        found: list[Checked | BadBatch] = list(honest(file, *args, **options))
        is_metadata = str(METADATA_LOG) in file.path
        if found and isinstance(found[-1], verify.Checked) and not is_metadata:
            position, header = found[-1]
            found[-1] = verify.BadBatch(position, header.base_offset, "planted", is_cut_short=True)
        return iter(found)

    patch.setattr(verification, "checked_batches", checked_batches)


def recover_without_crc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verify, "crc_matches", lambda *_: True)


def commit_metadata_without_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_store, "partial", lambda *_: lambda: None)


def count_producer_ids_in_memory(patch: pytest.MonkeyPatch) -> None:
    async def take(ids: ProducerIds) -> int:
        ids._next += 1
        return ids._next

    patch.setattr(ProducerIds, "take", take)


def delete_records_in_memory(patch: pytest.MonkeyPatch) -> None:
    async def write_start_offsets(_: Checkpoints) -> None: ...

    patch.setattr(Checkpoints, "write_start_offsets", write_start_offsets)


def leave_half_a_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogSegments, "_take_back", lambda *_: None)


def sync_after_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    """Was there: what waited in the lane behind a sync that failed was synced, and counted as safe."""
    patch.setattr(Trust, "sync", lambda _, sync, **__: sync())


def stop_cleanly_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    """Was there: a node whose sync had failed flushed again while it stopped, and left the mark that all is well."""
    sync_after_a_failed_sync(patch)

    async def stop(node: Node) -> None:
        await node.tasks.close()
        await node.store.close()

    patch.setattr(Node, "stop", stop)


def recover_from_memory(patch: pytest.MonkeyPatch) -> None:
    """Was there: after a failed sync and a restart, memory still showed bytes that had never reached the device."""
    patch.setattr(SimulatedFile, "forget_cached", lambda _: None)


def start_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Was there: a node whose metadata could not be flushed at its start waited for it for ever."""
    patch.setattr(quorum.Quorum, "give_up", lambda *_: None)
    patch.setattr(Node, "start", Node._start)


def look_again_without_news(patch: pytest.MonkeyPatch) -> None:
    """Was there: a long poll that had once looked in vain looked again and again, as fast as it could."""

    def end_rest(fetch: PendingFetch) -> None:
        fetch._rest = None
        fetch._look()

    patch.setattr(PendingFetch, "_end_rest", end_rest)


def take_a_full_disk_for_a_bug(patch: pytest.MonkeyPatch) -> None:
    """Was there: changes of topics on a full disk closed the connection, as if the node had a bug."""

    async def submit_each(commands: Commands, names: Any, decide: Any, *, needs_room: bool = False) -> Any:
        if needs_room:
            commands._check_room()
        return await commands.submit(decide)

    patch.setattr(Commands, "submit_each", submit_each)


@dataclass(frozen=True)
class Case:
    plant: Callable[[pytest.MonkeyPatch], None]
    faults: tuple[str, ...]
    found_as: set[Kind]
    workloads: tuple[str, ...] = PLAIN_WORKLOADS
    first_seed: int = 0  # where the search begins: none before it finds the bug


CASES = [
    Case(flush_without_sync, ("power cut",), LOSS),
    Case(flush_without_directories, ("power cut",), LOSS),
    Case(try_a_failed_sync_again, ("failed sync", "power cut"), LOSS),
    Case(ignore_a_failed_sync, ("failed sync",), {Kind.CARRIED_ON}),
    Case(ack_what_is_only_written, ("power cut in the middle",), LOSS),
    Case(show_what_is_only_written, ("power cut",), LOSS, first_seed=8),
    Case(count_what_is_only_written, (), {Kind.DISORDER}),
    Case(forget_producers_at_start, ("crash",), {Kind.REPEATED}),
    Case(recover_one_batch_less, ("crash",), {Kind.BUG, *LOSS}),
    Case(recover_without_crc, ("power cut in the middle", "power cut"), {Kind.BUG, Kind.STUCK}, first_seed=61),
    Case(commit_metadata_without_sync, ("power cut",), {Kind.METADATA, Kind.TWO_PRODUCERS}),
    Case(count_producer_ids_in_memory, ("crash",), {Kind.TWO_PRODUCERS}),
    Case(delete_records_in_memory, ("crash",), {Kind.UNDELETED}, first_seed=1),
    Case(leave_half_a_write, ("full disk", "crash"), {Kind.BUG, *LOSS}, first_seed=1),
    Case(sync_after_a_failed_sync, ("failed sync",), LOSS, ("trimming", "batches", "pipelines"), first_seed=5),
    Case(stop_cleanly_after_a_failure, ("failed sync",), {Kind.BUG, *LOSS}, first_seed=1),
    Case(recover_from_memory, ("failed sync", "power cut"), LOSS),
    Case(start_for_ever, ("failed sync", "crash"), {Kind.STUCK}, first_seed=1),
    Case(look_again_without_news, (), {Kind.STUCK}, first_seed=1),
    Case(take_a_full_disk_for_a_bug, ("full disk",), {Kind.BUG}),
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
