"""Identifiers. Different numbers have different types, so that mypy keeps an offset out of an epoch's place."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
"""A record's place in a partition. `last_offset` is inclusive, `next_offset` exclusive."""

Epoch = NewType("Epoch", int)
"""A leader epoch: which leadership of a partition wrote a batch."""

NodeId = NewType("NodeId", int)
Millis = NewType("Millis", int)
"""Wall-clock milliseconds since 1970; for records and retention, never for safety."""

ProducerId = NewType("ProducerId", int)
TopicId = NewType("TopicId", bytes)
"""Sixteen bytes, as on the wire."""

NO_OFFSET = Offset(-1)
NO_EPOCH = Epoch(-1)
NO_NODE = NodeId(-1)
NODE_ID_MAX = 2**31 - 1  # the field's size
PORT_MAX = 65_535
ID_BYTES_MAX = 1 << 10
"""Of a group, a member or a transaction: a coordinator writes hundreds of them in one batch."""
NO_TIMESTAMP = Millis(-1)
TIMESTAMP_MAX_MS = Millis(1 << 62)  # what we write: a batch notes differences to its first, and they have 64 bits
NO_PRODUCER = ProducerId(-1)
NO_TOPIC_ID = TopicId(bytes(16))

TOPIC_NAME_MAX = 249  # Kafka's limit: a directory name of 255 must also hold a partition number
_TOPIC_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogId(NamedTuple):
    """A partition's log, named by topic id: a topic deleted and made again is another log."""

    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        return f"{topic_id_text(self.topic_id)}-{self.partition}"


def topic_id_text(topic_id: TopicId) -> str:
    """Kafka's way to print a topic id: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_from_text(text: str) -> TopicId:
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"a topic id has 16 bytes, {text!r} has {len(raw)}")
    return TopicId(raw)


def topic_name_problem(name: str) -> str | None:
    """Why `name` cannot be a topic's name, or None if it can."""
    if not name:
        return "a topic name cannot be empty"
    if name in {".", ".."}:
        return "a topic cannot be named '.' or '..'"
    if len(name) > TOPIC_NAME_MAX:
        return f"a topic name has at most {TOPIC_NAME_MAX} characters, this one has {len(name)}"
    if not _TOPIC_NAME_CHARACTERS.issuperset(name):
        return f"the topic name {name!r} may hold only ASCII letters, digits, '.', '_' and '-'"
    return None
