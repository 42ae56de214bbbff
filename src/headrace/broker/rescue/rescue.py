"""Make a survivor's data directory the first of a new cluster. A crash at any step leaves the old one or a promise:

    1. Beside the rest, `rescue-…/` is written: `before/` with what will be replaced, `after/` with what replaces it,
       and a report. Nothing else has changed.                                       A crash: as if nothing was.
    2. `unfinished-rescue` names that directory. No node starts from here on.         A crash: it is gone on with.
    3. Each file of `after/` takes its place, the metadata log begins anew where its snapshot ends.
    4. `unfinished-rescue` goes. `rescue-…/` stays for the operator.

Logs of topics are not touched. The new cluster has another id, by which nodes of the old one are refused.
Everything here blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.membership.identity import IDENTITY_FILE, RESCUE_FILE, Identity, Origin
from headrace.broker.metadata.snapshots import encode_snapshot, image_payload
from headrace.broker.metadata.store import METADATA_LOG, METADATA_SETTINGS, METADATA_TOPIC, SNAPSHOT_FILE
from headrace.broker.metadata.votes import FILE as VOTE_FILE
from headrace.broker.metadata.votes import encode_hard_state
from headrace.raft.log import Snapshot
from headrace.raft.membership import Membership, Voter
from headrace.raft.ready import HardState
from headrace.storage.files import checkpoints, layout
from headrace.storage.recovery.opening import create_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.store.stored_offsets import read_starts

if TYPE_CHECKING:
    from headrace.broker.rescue.survivor import Agreed
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.model.names import LogId
    from headrace.runtime.disk import Disk

PREFIX: Final = "rescue-"
BEFORE: Final = "before"
AFTER: Final = "after"
REPORT: Final = "report.json"
REPLACED: Final = (  # besides the metadata log
    IDENTITY_FILE,
    VOTE_FILE,
    SNAPSHOT_FILE,
    checkpoints.RECOVERY_POINTS,
    checkpoints.START_OFFSETS,
)


def unfinished(disk: Disk) -> str | None:
    """The directory of a rescue that was promised and is not done."""
    return disk.read_file(RESCUE_FILE).decode() if disk.exists(RESCUE_FILE) else None


def stage(disk: Disk, name: str, agreed: Agreed, identity: Identity, image: ClusterImage, report: bytes) -> str:
    """Step 1: everything that the new cluster is made of, under `rescue-{name}`, which is returned. `identity` is the
    new one."""
    for left in disk.list(""):
        if left.startswith(PREFIX) and left.endswith(layout.DRAFT):
            disk.remove_directory(left)
    directory = PREFIX + name
    draft = directory + layout.DRAFT
    _copy_old(disk, f"{draft}/{BEFORE}")
    disk.make_directory(f"{draft}/{AFTER}")
    for path, content in _new_files(disk, agreed, identity, image).items():
        disk.write_file(f"{draft}/{AFTER}/{path}", content)
    disk.write_file(f"{draft}/{REPORT}", report)
    disk.sync_everything()
    disk.rename(draft, directory)
    disk.sync_directory("")
    return directory


def promise(disk: Disk, directory: str) -> None:
    """Step 2."""
    disk.replace_file(RESCUE_FILE, directory.encode())


def install(disk: Disk, directory: str) -> None:
    """Steps 3 and 4, also after a crash in the middle of them."""
    _keep_damaged_copies(disk)
    for path in disk.list(f"{directory}/{AFTER}"):
        disk.replace_file(path, disk.read_file(f"{directory}/{AFTER}/{path}"))
    end = checkpoints.read_offsets(disk, checkpoints.START_OFFSETS)[METADATA_LOG]
    disk.remove_directory(layout.directory_of(METADATA_LOG))
    create_log(METADATA_LOG, METADATA_TOPIC.topic, SegmentCache(disk), METADATA_SETTINGS, start_offset=end)
    disk.sync_everything()
    disk.remove(RESCUE_FILE)
    disk.sync_directory("")


def read_report(disk: Disk, directory: str) -> bytes:
    return disk.read_file(f"{directory}/{REPORT}")


def _copy_old(disk: Disk, target: str) -> None:
    """In the same places, so that whoever wants it back copies it back."""
    metadata_log = layout.directory_of(METADATA_LOG)
    disk.make_directory(f"{target}/{metadata_log}")
    for path in (*REPLACED, *(f"{metadata_log}/{name}" for name in disk.list(metadata_log))):
        if disk.exists(path):
            disk.write_file(f"{target}/{path}", disk.read_file(path))


def _new_files(disk: Disk, agreed: Agreed, identity: Identity, image: ClusterImage) -> dict[str, bytes]:
    assert identity.origin is Origin.ALONE, identity
    alone = Membership((Voter(identity.node_id, identity.directory),))
    snapshot = Snapshot(agreed.end, agreed.term, alone, image_payload(image))
    points = checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS)
    points.pop(METADATA_LOG, None)
    return {
        IDENTITY_FILE: identity.encode(),
        VOTE_FILE: encode_hard_state(HardState(agreed.term), agreed.life),
        SNAPSHOT_FILE: encode_snapshot(snapshot),
        checkpoints.RECOVERY_POINTS: checkpoints.encode_offsets(points),
        checkpoints.START_OFFSETS: checkpoints.encode_offsets({**_starts(disk), METADATA_LOG: agreed.end}),
    }


def _starts(disk: Disk) -> dict[LogId, int]:
    """Written down as a node would see it, for it will find the file whole and believe it."""
    found = [log_id for name in disk.list(layout.TOPICS) if (log_id := layout.log_id_of(name)) is not None]
    return read_starts(disk, found)


def _keep_damaged_copies(disk: Disk) -> None:
    """They are kept until their successors are in sync. But in the new cluster this node is in sync with what it has,
    however little: what was set aside may be more, and is the operator's now."""
    for name in disk.list(layout.TOPICS):
        if name.endswith(layout.DAMAGED):
            path = f"{layout.TOPICS}/{name}"
            disk.rename(path, path + layout.STRAY)
