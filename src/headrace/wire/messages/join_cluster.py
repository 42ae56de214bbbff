# Generated from schemas/join_cluster.schema by tools/generate_messages.py; do not edit.
"""JoinCluster: a node that is not part of the cluster, or has lost its disk, asks to be let in. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_uu = Struct(">16s16s")


@dataclass(slots=True)
class JoiningEndpoint:
    listener: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        listener = reader.string(True)
        host = reader.string(True)
        port = reader.int32()
        reader.skip_tagged_fields()
        return cls(listener, host, port)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.listener, True)
        writer.string(self.host, True)
        writer.int32(self.port)
        writer.no_tagged_fields()


@dataclass(slots=True)
class JoinClusterRequest:
    API_KEY: ClassVar[int] = 20011
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0
    cluster_id: str = ""  # empty: any
    incarnation_id: TopicId = NO_TOPIC_ID
    directory_id: TopicId = NO_TOPIC_ID
    rack: str | None = None
    session_ms: int = 2000
    life: int = 0  # how often this disk was started
    endpoints: list[JoiningEndpoint] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        cluster_id = reader.string(True)
        incarnation_id, directory_id = reader.unpack(_uu)
        rack = reader.nullable_string(True)
        session_ms = reader.int32()
        endpoints = reader.array(JoiningEndpoint.decode, version, True, 7)
        life: int = 0
        for tag in reader.tagged_fields():
            if tag == 0:
                life = reader.int64()
        return cls(node_id, cluster_id, incarnation_id, directory_id, rack, session_ms, life, endpoints)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.string(self.cluster_id, True)
        writer.pack(_uu, self.incarnation_id, self.directory_id)
        writer.nullable_string(self.rack, True)
        writer.int32(self.session_ms)
        writer.array(self.endpoints, version, True)
        tagged: list[tuple[int, Writer]] = []
        if self.life != 0:
            value = Writer()
            value.int64(self.life)
            tagged.append((0, value))
        writer.tagged_fields(tagged)


@dataclass(slots=True)
class MemberAddress:
    node_id: int = 0
    host: str = ""
    port: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        host = reader.string(True)
        port = reader.int32()
        reader.skip_tagged_fields()
        return cls(node_id, host, port)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.string(self.host, True)
        writer.int32(self.port)
        writer.no_tagged_fields()


@dataclass(slots=True)
class JoinClusterResponse:
    API_KEY: ClassVar[int] = 20011
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = None
    cluster_id: str = ""
    nodes: list[MemberAddress] = field(default_factory=list)  # where the others listen for each other

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        cluster_id = reader.string(True)
        nodes = reader.array(MemberAddress.decode, version, True, 10)
        reader.skip_tagged_fields()
        return cls(error_code, error_message, cluster_id, nodes)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.string(self.cluster_id, True)
        writer.array(self.nodes, version, True)
        writer.no_tagged_fields()
