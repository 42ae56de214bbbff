"""Offsets of many partitions as the official Kafka connector writes them: `{"topic":{"0":23,"1":-2}}`.

Options, checkpoints and progress reports all have this form, so they can be carried from one connector to the other.

What a stream keeps tells besides the ids of the topics, `{"topic":{"0":23},"topic:<id>":{}}`: offsets mean nothing in
another topic that got the same name. The official connector reads past what has no partitions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.model.names import TopicPartition, topic_id_from_text, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.model.names import TopicId

    TopicIds = dict[str, TopicId]
    """By name, of those topics whose cluster says it."""

EARLIEST: Final = -2
LATEST: Final = -1
"""As the start of a streaming query's first batch: that batch reads nothing, and its end says what the latest was."""

Offsets = dict[TopicPartition, int]
Document = dict[str, dict[str, int]]
"""What Spark keeps of our offsets: values that JSON knows."""

_BEFORE_ID: Final = ":"  # no topic has it in its name


def to_document(offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, TopicId] | None = None) -> Document:
    """Always in the same order: Spark compares offsets by their text."""
    document: Document = {}
    for name in sorted(offsets):
        document.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    known = {} if topic_ids is None else topic_ids
    ids = [f"{topic}{_BEFORE_ID}{topic_id_text(known[topic])}" for topic in document if topic in known]
    return {**document, **{name: {} for name in ids}}


def from_document(document: object) -> Offsets:
    """Raises ValueError if it has another form."""
    return {
        TopicPartition(topic, _partition(partition)): _number(offset)
        for topic, partitions in _topics(document)
        for partition, offset in _items(partitions)
    }


def topic_ids_in(document: object) -> TopicIds:
    """Those that it tells: what the official connector wrote has none. ValueError if they have another form."""
    named = [name.partition(_BEFORE_ID) for name, _ in _topics(document)]
    return {topic: topic_id_from_text(topic_id) for topic, mark, topic_id in named if mark}


def made_anew(before: Mapping[str, TopicId], now: Mapping[str, TopicId]) -> set[str]:
    """Topics that have another id than before. Of one that is not there, or was not known, nothing can be said."""
    return {topic for topic, topic_id in now.items() if before.get(topic, topic_id) != topic_id}


def without_topics(offsets: Mapping[TopicPartition, int], topics: Collection[str]) -> Offsets:
    """The offsets of all other topics."""
    return {name: offset for name, offset in offsets.items() if name.topic not in topics}


def parse_offsets(text: str) -> Offsets:
    """Raises ValueError if it is no JSON, or has another form."""
    return from_document(json.loads(text))


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Partitions without offsets: `{"topicA":[0,1],"topicB":[2]}`."""
    document = json.loads(text)
    if not isinstance(document, dict) or not all(isinstance(indexes, list) for indexes in document.values()):
        raise ValueError("not an object of lists")
    return tuple(
        sorted({TopicPartition(topic, _number(index)) for topic, indexes in document.items() for index in indexes})
    )


def _topics(document: object) -> list[tuple[str, object]]:
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004 - the text is wrong, not the program
    return list(document.items())


def _items(partitions: object) -> list[tuple[str, object]]:
    if not isinstance(partitions, dict):
        raise ValueError("partitions and offsets of a topic are an object")  # noqa: TRY004
    return list(partitions.items())


def _partition(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a partition")
    return int(text)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")  # noqa: TRY004
    return value
