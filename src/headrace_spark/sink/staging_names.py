"""What the exactly-once sink calls its things in a cluster. Nothing here needs Spark."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from headrace.model.names import TOPIC_NAME_MAX, TopicPartition

ID_PREFIX: Final = "spark-sink-"
TOPIC_PREFIX: Final = "__spark-staging-"
DIGEST_CHARACTERS: Final = 16  # enough that no two ids meet
MEMORY: Final = TopicPartition(TOPIC_PREFIX + "offsets", 0)
"""What the groups of all sinks have their offset on. It stays empty: tools that compute lag find nothing there to be
behind of. No id begins so, and it outlives every staging topic: they can go without anything being forgotten.
"""
OWN_OFFSETS_PARTITION: Final = 0  # of a staging topic: where versions before had the offset. Batches leave it alone.


def application_id(topic: str | None, application: str) -> str:
    """The transactional id of batch writes by name. Two topics are two writes, even of one application."""
    # No topic has a colon in its name, so no two pairs of topic and application have the same id.
    return f"{ID_PREFIX}{topic or ''}:{application}"


def staging_topic(transactional_id: str) -> str:
    """A topic name for any id: its own characters as far as they are allowed, or a digest."""
    name = TOPIC_PREFIX + transactional_id
    if len(name) <= TOPIC_NAME_MAX and re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        return name
    digest = hashlib.sha256(transactional_id.encode()).hexdigest()[:DIGEST_CHARACTERS]
    readable = re.sub(r"[^a-zA-Z0-9._-]", "-", transactional_id)[: TOPIC_NAME_MAX - len(TOPIC_PREFIX) - len(digest) - 1]
    return f"{TOPIC_PREFIX}{readable}-{digest}"


def own_offsets_of(transactional_id: str) -> TopicPartition:
    """Where versions before kept the offset of this id's group."""
    return TopicPartition(staging_topic(transactional_id), OWN_OFFSETS_PARTITION)
