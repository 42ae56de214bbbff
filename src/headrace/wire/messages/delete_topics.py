# Generated from schemas/delete_topics.schema by tools/generate_messages.py; do not edit.
"""DeleteTopics: remove topics and all that they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, required, unsayable


@dataclass(slots=True)
class DeleteTopicState:
    name: str | None = None
    topic_id: TopicId = NO_TOPIC_ID

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.nullable_string(True)
        topic_id = reader.uuid()
        reader.skip_tagged_fields()
        return cls(name, topic_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.nullable_string(self.name, True)
        writer.uuid(self.topic_id)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteTopicsRequest:
    API_KEY: ClassVar[int] = 20
    VERSIONS: ClassVar[tuple[int, int]] = (1, 6)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    topics: list[DeleteTopicState] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    timeout_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        topics = reader.array(DeleteTopicState.decode, version, compact, 18) if version >= 6 else []
        topic_names = reader.strings(compact) if version <= 5 else []
        timeout_ms = reader.int32()
        if compact:
            reader.skip_tagged_fields()
        return cls(topics, topic_names, timeout_ms)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        if version >= 6:
            writer.array(self.topics, version, compact)
        elif self.topics:
            raise unsayable("DeleteTopicsRequest.topics", version)
        if version <= 5:
            writer.strings(self.topic_names, compact)
        writer.int32(self.timeout_ms)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeletableTopicResult:
    name: str | None = ""
    topic_id: TopicId = NO_TOPIC_ID
    error_code: int = 0
    error_message: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        name = reader.nullable_string(compact) if version >= 6 else reader.string(compact)
        topic_id = reader.uuid() if version >= 6 else NO_TOPIC_ID
        error_code = reader.int16()
        error_message = reader.nullable_string(compact) if version >= 5 else None
        if compact:
            reader.skip_tagged_fields()
        return cls(name, topic_id, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        if version >= 6:
            writer.nullable_string(self.name, compact)
        else:
            writer.string(required(self.name, "DeletableTopicResult.name", version), compact)
        if version >= 6:
            writer.uuid(self.topic_id)
        writer.int16(self.error_code)
        if version >= 5:
            writer.nullable_string(self.error_message, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteTopicsResponse:
    API_KEY: ClassVar[int] = 20
    VERSIONS: ClassVar[tuple[int, int]] = (1, 6)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        throttle_time_ms = reader.int32()
        responses = reader.array(DeletableTopicResult.decode, version, compact, 4)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, responses)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.int32(self.throttle_time_ms)
        writer.array(self.responses, version, compact)
        if compact:
            writer.no_tagged_fields()
