"""Who waits for a partition to change: followers for whatever is written, readers for what is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.broker.partitions.milestones import Milestones

if TYPE_CHECKING:
    from headrace.broker.partitions.milestones import ByteWait
    from headrace.broker.partitions.partition import Partition
    from headrace.model.names import Offset


class Watcher(Protocol):
    """Somebody who waits for a partition to change: more to read, a new start, or its end."""

    def partition_changed(self, partition: Partition) -> None: ...

    def partition_readable(self, partition: Partition, *, is_stable: bool) -> None:
        """Readers may see more of it; `is_stable` if that is true of readers of committed records. Told to those who
        have armed themselves, once."""
        ...

    def partition_advanced(self, partition: Partition) -> None:
        """More of it is safe. That is to be told with the next answer, and need not hasten one."""
        ...


class Watchers:
    """One partition's."""

    __slots__ = ("_armed", "_armed_for_stable", "_partition", "byte_waits", "followers", "readers")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.readers: dict[Watcher, None] = {}
        self.followers: dict[Watcher, None] = {}
        self._armed: dict[Watcher, None] = {}
        self._armed_for_stable: dict[Watcher, None] = {}
        self.byte_waits: tuple[Milestones, Milestones] | None = None
        """At the high watermark and at the last stable offset; None until somebody waits for bytes."""

    def add(self, watcher: Watcher, *, is_follower: bool = False) -> None:
        """A follower hears of everything that is written; others of what is safe."""
        (self.followers if is_follower else self.readers)[watcher] = None

    def arm(self, watcher: Watcher, *, is_committed_only: bool) -> None:
        """Tell a reader, once, when it may see more than now. So one that has nothing to do costs nothing."""
        self._armed[watcher] = None
        if is_committed_only:
            self._armed_for_stable[watcher] = None

    def await_bytes(self, more: int, waiting: ByteWait, *, is_committed_only: bool) -> None:
        """Wake somebody once readers may see so many more bytes."""
        if self.byte_waits is None:
            self.byte_waits = Milestones(), Milestones()
        boundary = self._partition.readable_end(is_committed_only=is_committed_only)
        log = self._partition.log
        self.byte_waits[is_committed_only].wait(more, waiting, boundary, log.next_offset, log.bytes_appended)

    def remove(self, watcher: Watcher) -> None:
        self._armed.pop(watcher, None)
        self._armed_for_stable.pop(watcher, None)
        self.readers.pop(watcher, None)
        self.followers.pop(watcher, None)
        if not self.readers:
            self.byte_waits = None

    # ---- what they are told

    def count_bytes(self, first_offset: Offset, written: int) -> None:
        """What begins there was written; so many bytes ever were."""
        if self.byte_waits is not None:
            for milestones in self.byte_waits:
                milestones.wrote(first_offset, written)

    def recount_bytes(self) -> None:
        """The log may be cut, and what was counted be somewhere else."""
        self.byte_waits = None

    def written(self) -> None:
        """More is written; whether it is safe is not known."""
        for follower in list(self.followers):
            follower.partition_changed(self._partition)

    def advanced(self, *, is_stable_too: bool) -> None:
        """The high watermark has moved, and perhaps the last stable offset."""
        for follower in self.followers:
            follower.partition_advanced(self._partition)
        if self.readers:
            self._tell_readers(is_stable_too=is_stable_too)

    def changed(self) -> None:
        """Something else than growth: everybody has to look."""
        for follower in self.followers:
            follower.partition_advanced(self._partition)
        for reader in list(self.readers):
            reader.partition_changed(self._partition)

    def _tell_readers(self, *, is_stable_too: bool) -> None:
        partition = self._partition
        if self._armed:
            armed, self._armed = self._armed, {}
            for reader in armed:
                reader.partition_readable(partition, is_stable=False)
        if self._armed_for_stable and is_stable_too:
            armed, self._armed_for_stable = self._armed_for_stable, {}
            for reader in armed:
                reader.partition_readable(partition, is_stable=True)
        if self.byte_waits is not None:
            at_watermark, at_stable = self.byte_waits
            at_watermark.moved_to(partition.high_watermark)
            at_stable.moved_to(partition.last_stable_offset)
            if not at_watermark and not at_stable:
                self.byte_waits = None
