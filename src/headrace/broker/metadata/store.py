"""What Raft must never forget, on disk: term and vote, the entries, the last snapshot.

The entries are the metadata log, a log as any other. The snapshot is a file that is replaced whole, term and vote have
a file of their own. Nothing here decides anything; the quorum says what to save, and waits for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.broker.metadata.entries import batch_of, entry_of
from headrace.broker.metadata.snapshots import decode_snapshot, encode_snapshot
from headrace.broker.metadata.votes import FILE as VOTE_FILE
from headrace.broker.metadata.votes import FORGOTTEN, VoteFile
from headrace.model.errors import DiskFailure, DiskFull, ErrorCode, Refusal
from headrace.model.names import LogId, Offset, TopicId, TopicPartition
from headrace.raft.log import NO_TERM, Entry, RaftLog, Snapshot
from headrace.raft.ready import HardState
from headrace.runtime.disk import ReadFault
from headrace.storage.files.damage import DamagedLog, MissingFile
from headrace.storage.files.disk_errors import replace_if_room
from headrace.storage.files.read_faults import damage_by, reads_log
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import CorruptBatch, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.raft.membership import Membership
    from headrace.raft.ready import Saving
    from headrace.runtime.disk import Disk
    from headrace.runtime.world import World
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.store.log_store import LogStore

METADATA_TOPIC: Final = TopicPartition("__cluster_metadata", 0)
METADATA_LOG: Final = LogId(TopicId(bytes(15) + b"\x01"), 0)  # the id that Kafka gives to this topic
METADATA_SETTINGS: Final = LogSettings(retention_ms=None)
SNAPSHOT_FILE: Final = "metadata-snapshot"
FLUSH_LANE: Final = "metadata-flush"  # a decision must not queue behind the data's flushes
RESERVE_BYTES: Final = 64 << 10  # hundreds of decisions: a full disk must not keep us from starting or deleting topics
READ_BYTES: Final = 1 << 20
RESTORE_METADATA: Final = (
    "This is the metadata log: it says which topics there are and whose the other logs are; do not remove it. If other "
    "nodes of the cluster run, start this one with an empty data directory, and it fetches everything from them. If it "
    "is alone, restore the metadata log from a backup"
)


def damage_of_metadata(damage: DamagedLog) -> DamagedLog:
    """The same, with what to do about it where no other log's advice fits."""
    return DamagedLog(damage.path, damage.position, damage.offset, damage.problem, advice=RESTORE_METADATA)


class MetadataStore:
    def __init__(self, world: World, store: LogStore, log: PartitionLog) -> None:
        self.log = log
        self._world = world
        self._store = store
        self._votes = VoteFile(world.disk)
        self._believed_end = Offset(log.next_offset)
        """Where the log as found ends, without what contradicts the snapshot."""

    def close(self) -> None:
        self._votes.close()

    @property
    def life(self) -> int:
        """How often this disk was started, as of `load_hard_state`."""
        return self._votes.life

    # ---- at start; these block

    def load(self, first_voters: Membership) -> RaftLog:
        """`first_voters` count until the log says something else. DamagedLog if it cannot be read: nobody is asked for
        another copy of what this node has promised to know."""
        found = read_raft_log(self._world.disk, self.log, first_voters)
        self._believed_end = found.end
        self.log.reserve(RESERVE_BYTES)
        return found

    async def repair(self) -> None:
        """A crash may have come between a snapshot that was installed and the log that begins after it. What `load` did
        not believe must go, or the next entry would not follow the last."""
        if self.log.next_offset != self._believed_end:
            await self._restart_log(self._believed_end)

    def load_hard_state(self, found: RaftLog, *, is_alone: bool) -> HardState:
        """For the log as it was found. Whoever has heard of a term has saved its vote before anything else of that
        term; so if there is none it is lost, and it cannot be told whom this node voted for. Alone it votes for itself.
        """
        try:
            hard_state = self._votes.load()
        except ReadFault as fault:
            raise DamagedLog(VOTE_FILE, 0, 0, damage_by(fault).problem, advice=FORGOTTEN) from fault
        except OSError as error:
            raise DiskFailure(f"the vote of this node cannot be written again: {error}") from error
        if hard_state is None and found.last_term > NO_TERM and not is_alone:
            raise MissingFile(VOTE_FILE, "it says whom this node voted for", advice=FORGOTTEN)
        return hard_state or HardState(found.last_term)

    # ---- while it runs

    async def save(self, saving: Saving) -> None:
        """Write and flush. A disk that fails ends the node: what it holds is unknown from then on. So does one that is
        full when the reserve is used up: what a leader has sent cannot be taken back."""
        try:
            await self._save(saving)
        except DamagedLog as damage:
            raise DiskFailure(f"the metadata log cannot be cut: {damage.finding}") from damage
        except Refusal as refusal:
            problem = "the disk is full, and so is what was kept free on it for the metadata log; free some space, then"
            raise DiskFull(f"{problem} start the node again") from refusal

    async def _save(self, saving: Saving) -> None:
        if saving.hard_state is not None:
            await self._flush(partial(self._votes.save, saving.hard_state))
        if saving.snapshot is not None:
            await self._store_snapshot(saving.snapshot)
            await self._restart_log(saving.snapshot.end)
        if saving.truncate_to is not None:
            await self._store.truncation.truncate(self.log, saving.truncate_to)
        if saving.entries:
            await self._append(saving.entries)

    async def compact(self, snapshot: Snapshot, keep_from: Offset) -> None:
        """Store a snapshot; what it stands for may go, but for what is kept for those who lag. Refusal, and nothing has
        changed, while the disk has no room for it."""
        await self._flush(partial(_store_if_room, self._world.disk, encode_snapshot(snapshot)))
        self.log.high_watermark = snapshot.end  # only what is agreed on is in it, and only that may be deleted
        self.log.retention.advance_start(keep_from)
        self.log.retention.delete_expired(self._world.clock.wall_ms())
        await self._store.checkpoints.remove_garbage()

    async def _store_snapshot(self, snapshot: Snapshot) -> None:
        await self._flush(partial(self._world.disk.replace_file, SNAPSHOT_FILE, encode_snapshot(snapshot)))

    async def _restart_log(self, offset: Offset) -> None:
        self.log = await self._store.begin_anew(METADATA_LOG, METADATA_TOPIC, self.log.settings, offset)
        self.log.reserve(RESERVE_BYTES)

    async def _append(self, entries: tuple[Entry, ...]) -> None:
        batches = [batch_of(entry) for entry in entries]
        self.log.append(batches, [read_header(batch) for batch in batches])
        ticket = self.log.flushing.begin()
        assert ticket is not None
        await self._flush(partial(ticket.sync, self.log.disk))
        self.log.flushing.finish(ticket)
        self.log.reserve(RESERVE_BYTES)

    async def _flush(self, call: partial[None]) -> None:
        try:
            await self._world.threads.run(call, lane=FLUSH_LANE)
        except OSError as error:
            raise DiskFailure(f"the metadata log cannot be flushed: {error}") from error


def _store_if_room(disk: Disk, snapshot: bytes) -> None:
    if not replace_if_room(disk, SNAPSHOT_FILE, snapshot):
        problem = f"the disk has no room for a snapshot of {len(snapshot)} bytes; free some space"
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, problem)


def read_raft_log(disk: Disk, log: PartitionLog, first_voters: Membership) -> RaftLog:
    """The last snapshot, and the entries since. Blocks; DamagedLog if they cannot be read."""
    try:
        return reads_log(_read_raft_log)(disk, log, first_voters)
    except DamagedLog as damage:
        raise damage_of_metadata(damage) from damage


def _read_raft_log(disk: Disk, log: PartitionLog, first_voters: Membership) -> RaftLog:
    snapshot = _load_snapshot(disk) or Snapshot(Offset(0), NO_TERM, first_voters, b"")
    if snapshot.end < log.start_offset < log.next_offset:
        problem = f"it ends at offset {snapshot.end} or is missing; the metadata log begins at {log.start_offset}"
        raise DamagedLog(SNAPSHOT_FILE, 0, snapshot.end, problem)
    return RaftLog(snapshot, list(_entries(log)))  # also those before its end: they tell whether the rest fits


def _load_snapshot(disk: Disk) -> Snapshot | None:
    if not disk.exists(SNAPSHOT_FILE):
        return None
    try:
        return decode_snapshot(disk.read_file(SNAPSHOT_FILE))
    except CorruptBatch as damage:
        raise DamagedLog(SNAPSHOT_FILE, 0, 0, str(damage)) from damage


def _entries(log: PartitionLog) -> Iterator[Entry]:
    offset = log.start_offset
    while offset < log.next_offset:
        piece = log.read(offset, READ_BYTES, log.next_offset, at_least_one=True)
        assert piece is not None, f"the metadata log ends at {offset}, not at {log.next_offset}"
        try:
            raw, start = memoryview(piece.read()), piece.position
        finally:
            piece.release()
        position = 0
        while position < len(raw):
            header = read_header(raw, position)
            try:
                yield entry_of(raw[position : position + header.size])
            except CorruptBatch as error:  # a start verifies only what is above the recovery point
                raise DamagedLog(log.directory, start + position, offset, str(error)) from error
            position += header.size
            offset = header.next_offset
