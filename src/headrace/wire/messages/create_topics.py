# Generated from schemas/create_topics.schema by tools/generate_messages.py; do not edit.
"""CreateTopics: new topics, with their number of partitions and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_tbt = Struct(">?b?")
_it = Struct(">i?")
_ih = Struct(">ih")


@dataclass(slots=True)
class CreatableReplicaAssignment:
    partition_index: int = 0
    broker_ids: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        partition_index = reader.int32()
        broker_ids = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, broker_ids)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.int32(self.partition_index)
        writer.numbers("i", self.broker_ids, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreatableTopicConfig:
    name: str = ""
    value: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        name = reader.string(compact)
        value = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, value)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.string(self.name, compact)
        writer.nullable_string(self.value, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreatableTopic:
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    # empty unless replicas are placed by hand
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        name = reader.string(compact)
        num_partitions, replication_factor = reader.unpack(_ih)
        assignments = reader.array(CreatableReplicaAssignment.decode, version, compact, 6)
        configs = reader.array(CreatableTopicConfig.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, num_partitions, replication_factor, assignments, configs)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.string(self.name, compact)
        writer.pack(_ih, self.num_partitions, self.replication_factor)
        writer.array(self.assignments, version, compact)
        writer.array(self.configs, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreateTopicsRequest:
    API_KEY: ClassVar[int] = 19
    VERSIONS: ClassVar[tuple[int, int]] = (2, 7)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        topics = reader.array(CreatableTopic.decode, version, compact, 10)
        timeout_ms, validate_only = reader.unpack(_it)
        if compact:
            reader.skip_tagged_fields()
        return cls(topics, timeout_ms, validate_only)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.array(self.topics, version, compact)
        writer.pack(_it, self.timeout_ms, self.validate_only)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreatableTopicConfigs:
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        value = reader.nullable_string(True)
        read_only, config_source, is_sensitive = reader.unpack(_tbt)
        reader.skip_tagged_fields()
        return cls(name, value, read_only, config_source, is_sensitive)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.nullable_string(self.value, True)
        writer.pack(_tbt, self.read_only, self.config_source, self.is_sensitive)
        writer.no_tagged_fields()


@dataclass(slots=True)
class CreatableTopicResult:
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0  # why configs are missing
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        name = reader.string(compact)
        topic_id = reader.uuid() if version >= 7 else NO_TOPIC_ID
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        num_partitions, replication_factor = reader.unpack(_ih) if version >= 5 else (-1, -1)
        configs = reader.nullable_array(CreatableTopicConfigs.decode, version, compact, 6) if version >= 5 else []
        topic_config_error_code: int = 0
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0:
                    topic_config_error_code = reader.int16()
        return cls(
            name, topic_id, error_code, error_message, topic_config_error_code, num_partitions, replication_factor,
            configs,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.string(self.name, compact)
        if version >= 7:
            writer.uuid(self.topic_id)
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        if version >= 5:
            writer.pack(_ih, self.num_partitions, self.replication_factor)
        if version >= 5:
            writer.nullable_array(self.configs, version, compact)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if self.topic_config_error_code != 0:
                value = Writer()
                value.int16(self.topic_config_error_code)
                tagged.append((0, value))
            writer.tagged_fields(tagged)


@dataclass(slots=True)
class CreateTopicsResponse:
    API_KEY: ClassVar[int] = 19
    VERSIONS: ClassVar[tuple[int, int]] = (2, 7)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        throttle_time_ms = reader.int32()
        topics = reader.array(CreatableTopicResult.decode, version, compact, 6)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()
