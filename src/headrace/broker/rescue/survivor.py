"""A data directory that no node runs on, as it lies there: whose it is, what its metadata says, which logs it holds.

The disk may be one that is only looked at (`OverlayDisk`): then nothing changes, though logs are opened as a start
does it. Everything here blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.broker.membership.identity import IDENTITY_FILE, Identity, WrongIdentity
from headrace.broker.metadata.entries import records_of
from headrace.broker.metadata.snapshots import image_of
from headrace.broker.metadata.store import METADATA_LOG, METADATA_SETTINGS, read_raft_log
from headrace.broker.metadata.votes import VoteFile
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.record_encoding import UnreadableRecord
from headrace.metadata.rescue import Copy
from headrace.model.names import NO_TIMESTAMP, LogId, Offset, TopicPartition, topic_name_problem
from headrace.raft.log import NO_TERM
from headrace.raft.membership import Membership
from headrace.raft.node import NO_OP
from headrace.runtime.disk import ReadFault
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.read_faults import damage_by
from headrace.storage.integrity.salvage import find_log, look_at_end, read_through
from headrace.storage.recovery.opening import open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.store.stored_offsets import read_starts
from headrace.wire.batches.header import CorruptBatch, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.raft.log import Entry, RaftLog, Term
    from headrace.runtime.disk import Disk
    from headrace.storage.integrity.salvage import FoundLog, Survey

BYTES_UNLIMITED: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Agreed:
    """What the metadata log says, to its last entry: some of the last may never have been agreed on, and nobody is left
    who could tell."""

    image: ClusterImage
    membership: Membership
    end: Offset
    term: Term
    """The highest that this node knows of."""
    decided_ms: int | None
    """When the last decision was made that it has heard of; None if the log does not tell."""
    life: int
    """How often this disk was started."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A copy that no node would serve: damaged and replaced, or of a topic that the metadata did not know."""

    directory: str
    name: TopicPartition | None
    log: FoundLog


@dataclass(frozen=True, slots=True)
class Survivor:
    identity: Identity
    agreed: Agreed | None
    metadata_trouble: str
    """Why the metadata cannot be read; empty if it can."""
    logs: dict[LogId, FoundLog] = field(default_factory=dict)
    names: dict[LogId, TopicPartition] = field(default_factory=dict)
    """As the metadata says, or, for logs that it does not know, the directories themselves."""
    set_aside: tuple[SetAside, ...] = ()

    @property
    def image(self) -> ClusterImage:
        return EMPTY_IMAGE if self.agreed is None else self.agreed.image


def look_at(disk: Disk) -> Survivor:
    """Raises WrongIdentity if it is no data directory, or one of another version."""
    if not disk.exists(IDENTITY_FILE):
        raise NoDataDirectory(f"{disk.location} is no data directory of a node: it has no {IDENTITY_FILE}")
    identity = Identity.decode(disk.read_file(IDENTITY_FILE))
    agreed, trouble = _try_agreed(disk)
    logs, set_aside = _find_logs(disk)
    image = EMPTY_IMAGE if agreed is None else agreed.image
    names = {log_id: _name(disk, image, log_id) for log_id in logs}
    return Survivor(identity, agreed, trouble, logs, names, set_aside)


class NoDataDirectory(WrongIdentity):
    """There is nothing to look at."""


def survey(
    disk: Disk, survivor: Survivor, *, is_thorough: bool, on_read: Callable[[int], None] = lambda _: None
) -> dict[LogId, Survey]:
    """What each log holds. Thorough: every byte is read and checked; else only where each begins and ends."""
    return {
        log_id: read_through(disk, log, on_read) if is_thorough else look_at_end(disk, log)
        for log_id, log in survivor.logs.items()
    }


def copies(surveys: Mapping[LogId, Survey]) -> dict[LogId, Copy]:
    return {log_id: Copy(found.start_offset, found.end_offset, found.last_epoch) for log_id, found in surveys.items()}


# ---- metadata


def _try_agreed(disk: Disk) -> tuple[Agreed | None, str]:
    if not disk.exists(layout.directory_of(METADATA_LOG)):
        return None, "the metadata log is missing"
    try:
        return _agreed(disk), ""
    except DamagedLog as damage:
        return None, damage.finding
    except ReadFault as fault:
        return None, damage_by(fault).finding
    except (CorruptBatch, UnreadableRecord) as damage:
        return None, str(damage)


def _agreed(disk: Disk) -> Agreed:
    raft_log = _raft_log(disk)
    image, decided_ms = image_of(raft_log.snapshot.payload), None
    for entry in raft_log.entries_from(raft_log.start, BYTES_UNLIMITED):
        image = image.apply_all(records_of(entry))
        decided_ms = _time_of(entry) or decided_ms
    voted_term, life = _voted_term(disk)
    return Agreed(image, raft_log.membership, raft_log.end, max(raft_log.last_term, voted_term), decided_ms, life)


def _voted_term(disk: Disk) -> tuple[Term, int]:
    """And in which life. Whom it voted for is of no use to anybody now, so it does no harm if that is lost."""
    box = VoteFile(disk)
    try:
        hard_state = box.load()
    except (DamagedLog, ReadFault):
        hard_state = None
    finally:
        box.close()
    return NO_TERM if hard_state is None else hard_state.term, box.life


def _raft_log(disk: Disk) -> RaftLog:
    log, _ = open_log(
        METADATA_LOG,
        SegmentCache(disk),
        METADATA_SETTINGS,
        recovery_point=checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS).get(METADATA_LOG, 0),
        start_offset=read_starts(disk, [METADATA_LOG]).get(METADATA_LOG, 0),
    )
    try:
        return read_raft_log(disk, log, Membership())
    finally:
        log.close(is_clean=False)


def _time_of(entry: Entry) -> int | None:
    if isinstance(entry.payload, Membership) or entry.payload == NO_OP:
        return None
    timestamp = read_header(entry.payload).max_timestamp
    return None if timestamp == NO_TIMESTAMP else timestamp


# ---- logs


def _find_logs(disk: Disk) -> tuple[dict[LogId, FoundLog], tuple[SetAside, ...]]:
    names = disk.list(layout.TOPICS)
    starts = read_starts(disk, [log_id for name in names if (log_id := layout.log_id_of(name)) is not None])
    points = checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS)
    logs, set_aside = {}, []
    for name in names:
        log_id, directory = layout.log_id_of(name), f"{layout.TOPICS}/{name}"
        if log_id == METADATA_LOG:
            continue
        if log_id is not None:
            logs[log_id] = find_log(disk, directory, starts.get(log_id, 0), points.get(log_id, 0))
        elif name.endswith((layout.DAMAGED, layout.STRAY)):
            set_aside.append(SetAside(directory, _own_name(disk, directory), find_log(disk, directory)))
    return logs, tuple(set_aside)


def _name(disk: Disk, image: ClusterImage, log_id: LogId) -> TopicPartition:
    topic = image.topic(log_id.topic_id)
    if topic is not None:
        return TopicPartition(topic.name, log_id.partition)
    own = _own_name(disk, layout.directory_of(log_id))
    return own or TopicPartition(str(log_id).rpartition("-")[0], log_id.partition)


def _own_name(disk: Disk, directory: str) -> TopicPartition | None:
    """What a log's directory says of itself: enough to read it without any metadata."""
    path = f"{directory}/{layout.NAME}"
    if not disk.exists(path):
        return None
    lines = disk.read_file(path).decode(errors="replace").splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    topic, partition = fields.get("topic", ""), fields.get("partition", "")
    if topic_name_problem(topic) is not None or not partition.isdecimal():
        return None
    return TopicPartition(topic, int(partition))
