"""What group coordinators may know about topics; the node answers from its metadata image."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.model.names import TopicId


class KnownTopic(NamedTuple):
    topic_id: TopicId
    name: str
    partition_count: int


class Topics(Protocol):
    def named(self, name: str) -> KnownTopic | None: ...

    def with_id(self, topic_id: TopicId) -> KnownTopic | None: ...

    def names(self) -> Iterable[str]:
        """Of all topics, sorted."""
        ...
