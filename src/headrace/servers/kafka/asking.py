"""What handlers of groups and transactions share: who asks, and which topics are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from headrace.coordinators.effects import Caller
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_TOPIC_ID, topic_id_text
from headrace.model.names import TopicId as TopicIdOf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.metadata.image.cluster_image import ClusterImage, Topic
    from headrace.model.names import TopicId
    from headrace.runtime.entropy import Entropy
    from headrace.servers.kafka.interfaces import Request

TopicT = TypeVar("TopicT", str, tuple[str, TopicIdOf])
"""By name, or also by id."""

CLIENT_ID_MAX: Final = 256  # characters that are kept of it, with each member of a group
NAME_IN_MEMBER_ID_MAX: Final = 200  # characters; a member id is a string in records, whose length is limited


def caller_of(request: Request) -> Caller:
    return Caller(request.client_id[:CLIENT_ID_MAX], f"/{request.connection.link.peer.host}", request.version)


def joining_caller_of(request: Request, entropy: Entropy) -> Caller:
    """For requests that may need a new member id: the client's name in front, so that people recognise it."""
    token = TopicIdOf(entropy.token(16))
    name = request.client_id[:NAME_IN_MEMBER_ID_MAX]
    return caller_of(request)._replace(fresh_member_id=f"{name}-{topic_id_text(token)}")


def distinct(asked: Iterable[tuple[TopicT, Iterable[int]]]) -> dict[TopicT, dict[int, None]]:
    """Each topic once with each of its partitions once, in the order of the request.

    One that is asked for a thousand times would be work, and an answer, many times as large as the request.
    """
    found: dict[TopicT, dict[int, None]] = {}
    for topic, partitions in asked:
        found.setdefault(topic, {}).update(dict.fromkeys(partitions))
    return found


def find_topic(image: ClusterImage, name: str, topic_id: TopicId) -> tuple[Topic | None, ErrorCode]:
    """The topic of this name or, if there is one, of this id; and the error to answer with if there is none."""
    if topic_id != NO_TOPIC_ID:
        return image.topic(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return image.topic_named(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
