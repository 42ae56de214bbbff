"""Offsets of many partitions as the official Kafka connector writes them: `{"topic":{"0":23,"1":-2}}`.

Options, checkpoints and progress reports all have this form, so they can be carried from one connector to the other.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLIEST: Final = -2
LATEST: Final = -1
"""As the start of a streaming query's first batch: that batch reads nothing, and its end says what the latest was."""

Offsets = dict[TopicPartition, int]
Document = dict[str, dict[str, int]]
"""What Spark keeps of our offsets: values that JSON knows."""


def to_document(offsets: Mapping[TopicPartition, int]) -> Document:
    """Always in the same order: Spark compares offsets by their text."""
    document: Document = {}
    for name in sorted(offsets):
        document.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return document


def from_document(document: object) -> Offsets:
    """Raises ValueError if it has another form."""
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004 - the text is wrong, not the program
    return {
        TopicPartition(topic, _partition(partition)): _number(offset)
        for topic, partitions in document.items()
        for partition, offset in _items(partitions)
    }


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
