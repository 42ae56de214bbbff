"""Which start of a node's disk somebody comes from, and whether there has been a later one.

The disk counts its starts. So whoever comes with a number that the cluster has heard of before, and is not the process
that it was heard of from, has started on an older copy of that disk: what was promised since then, votes and records
alike, is not on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import Node


class Incarnation(NamedTuple):
    """One run of a node's process on its disk."""

    start_count: int
    """How often the disk was started, this time included. 0: not said, by an earlier version."""
    incarnation_id: bytes
    """Chosen anew on each start: two copies of a disk count alike."""


UNKNOWN_INCARNATION = Incarnation(0, b"")


def is_superseded(known: Node | None, directory: bytes, incarnation: Incarnation) -> bool:
    """Whether the cluster knows a later start of this disk, or another process with the same count. `known` is what it
    knows of the node."""
    return (
        known is not None
        and known.directory == directory
        and 0 < incarnation.start_count <= known.start_count
        and incarnation.incarnation_id != known.incarnation
    )
