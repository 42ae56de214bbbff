"""A change of very many partitions, cut into decisions that each are a moment's work.

When a node is gone, every partition that it had changes. To decide all of that at once would hold up the controller for
seconds, and then every node that applies it. So it is decided in slices. Each slice is decided on the image as it is by
then, so that it respects what else was decided in between, and each leaves a safe state, so that nothing is wrong if
the next one never comes. The next controller finds what is left undone, because each partition by itself shows what it
needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.metadata.image.cluster_image import ClusterImage, Partition
from headrace.metadata.image.records import PartitionChanged
from headrace.model.names import TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable

PartitionChange = Callable[[ClusterImage, TopicId, Partition], PartitionChanged | None]
"""What is to become of a partition, in this image. None: it stays as it is."""

CHANGED_MAX: Final = 200  # records of a slice: to decide and write them takes some 5 ms, to apply them as much
LOOKED_AT_MAX: Final = 2000  # partitions of a slice, most of which stay as they are


class SlicedChange:
    """One walk over all partitions. Call `next_slice` until it `is_over`."""

    def __init__(self, image: ClusterImage, change: PartitionChange) -> None:
        """Partitions that come later are not visited: whoever creates them knows who is there."""
        self._change = change
        self._topic_ids = [topic.topic_id for topic in image.sorted_topics()]
        self._topic_ids.reverse()
        self._next_partition = 0

    @property
    def is_over(self) -> bool:
        return not self._topic_ids

    def next_slice(self, image: ClusterImage, changed_max: int | None = None) -> list[PartitionChanged]:
        """What is to change in the partitions that follow, as `image` has them now."""
        changed_max = CHANGED_MAX if changed_max is None else changed_max
        records: list[PartitionChanged] = []
        left = LOOKED_AT_MAX
        while self._topic_ids and left > 0 and len(records) < changed_max:
            topic_id, first = self._topic_ids[-1], self._next_partition
            topic = image.topic(topic_id)  # it may be deleted by now
            end = 0 if topic is None else min(topic.partition_count, first + left)
            for number in range(first, end):
                assert topic is not None
                record = self._change(image, topic_id, topic.partitions[number])
                if record is not None:
                    records.append(record)
                    if len(records) == changed_max:
                        end = number + 1
                        break
            left -= max(end - first, 0) + 1  # a topic without partitions is looked at, too
            self._next_partition = end
            if topic is None or end == topic.partition_count:
                self._topic_ids.pop()
                self._next_partition = 0
        return records


class FirstSlice(NamedTuple):
    records: list[PartitionChanged]
    is_all: bool


def first_slice(image: ClusterImage, changes: Iterable[PartitionChange]) -> FirstSlice:
    """As much as fits into the decision that makes the changes necessary: in a small cluster, all. No two of the
    changes concern the same partition."""
    records: list[PartitionChanged] = []
    for change in changes:
        sliced = SlicedChange(image, change)
        records += sliced.next_slice(image, CHANGED_MAX - len(records))
        if not sliced.is_over:
            return FirstSlice(records, is_all=False)
    return FirstSlice(records, is_all=True)
