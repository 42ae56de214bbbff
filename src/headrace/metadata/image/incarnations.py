"""Which life of a node somebody is in, and whether that is over.

A life is one run of a node's process on its disk. The disk counts them. So whoever comes with a number that the cluster
has heard of before, and is not the process that it was heard of from, has started on an older copy of that disk: what
was promised since then, votes and records alike, is not on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import Node


class Life(NamedTuple):
    number: int
    """How often the disk was started, this time included. 0: not said, by an earlier version."""
    incarnation: bytes
    """Chosen anew on each start: two copies of a disk count alike."""


UNSAID = Life(0, b"")


def is_over(known: Node | None, directory: bytes, life: Life) -> bool:
    """Whether the cluster knows a later life of this disk, or another of the same number. `known` is what it knows of
    the node."""
    return (
        known is not None
        and known.directory == directory
        and life.number > 0
        and life.number <= known.life
        and life.incarnation != known.incarnation
    )
