"""Topics as groups know them, from the committed metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.coordinators.groups.topics import KnownTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.metadata.image.cluster_image import ClusterImage, Topic
    from headrace.model.names import TopicId


class ImageTopics:
    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def named(self, name: str) -> KnownTopic | None:
        return _known(self._image().topic_named(name))

    def with_id(self, topic_id: TopicId) -> KnownTopic | None:
        return _known(self._image().topic(topic_id))

    def names(self) -> Iterable[str]:
        return (topic.name for topic in self._image().sorted_topics())


def _known(topic: Topic | None) -> KnownTopic | None:
    return None if topic is None else KnownTopic(topic.topic_id, topic.name, topic.partition_count)
