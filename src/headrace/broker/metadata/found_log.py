"""The metadata log as a start finds it on the disk, before anybody has said what of it is agreed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.broker.metadata.entries import records_of
from headrace.broker.metadata.snapshots import image_of
from headrace.metadata.image.records import TopicDeleted

if TYPE_CHECKING:
    from headrace.broker.metadata.store import MetadataStore
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.model.names import NodeId, TopicId
    from headrace.raft.log import RaftLog
    from headrace.raft.membership import Membership
    from headrace.raft.ready import HardState

BYTES_UNLIMITED: Final = 1 << 62


class FoundLog(NamedTuple):
    raft_log: RaftLog
    hard_state: HardState
    agreed_image: ClusterImage
    """What the snapshot holds. The entries behind it may not be agreed on."""
    image: ClusterImage
    """With those entries: good enough to know where others listen."""
    deleted_topics: frozenset[TopicId]
    """Topics that the log says were deleted. Their data may be removed; no other may."""


def find_log(store: MetadataStore, node_id: NodeId, first: Membership) -> FoundLog:
    """Read the log; before the node starts, so it may block. DamagedLog if it cannot be read.

    `first` is who votes until the log says so.
    """
    raft_log = store.load(first)
    hard_state = store.load_hard_state(raft_log, is_alone=raft_log.membership.voter_ids == (node_id,))
    agreed_image = image = image_of(raft_log.snapshot.payload)
    deleted: set[TopicId] = set()
    for entry in raft_log.entries_from(raft_log.start, BYTES_UNLIMITED):
        records = list(records_of(entry))
        deleted.update(it.topic_id for it in records if isinstance(it, TopicDeleted))
        image = image.apply_all(records)
    return FoundLog(raft_log, hard_state, agreed_image, image, frozenset(deleted))
