"""What the exactly-once sink calls its things in a cluster. Nothing here needs Spark."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from headrace.model.names import TOPIC_NAME_MAX, TopicPartition

ID_PREFIX: Final = "spark-sink-"
TOPIC_PREFIX: Final = "__spark-staging-"
DIGEST_CHARACTERS: Final = 16  # enough that no two ids meet
OFFSETS_PARTITION: Final = TopicPartition(TOPIC_PREFIX + "offsets", 0)
"""The partition for which the groups of all sinks commit their offset: the next batch id.

It stays empty, so that tools which compute lag find none. It outlives every staging topic: those may be deleted, and
no sink forgets what it has published. No transactional id gives a staging topic of this name.
"""
RESERVED_PARTITION: Final = 0  # of a staging topic: earlier versions committed their offset for it. It has no batches.


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


def former_offsets_partition(transactional_id: str) -> TopicPartition:
    """The partition for which earlier versions committed the offset of this id's group."""
    return TopicPartition(staging_topic(transactional_id), RESERVED_PARTITION)
