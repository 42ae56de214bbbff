# Generated from schemas/describe_cluster.schema by tools/generate_messages.py; do not edit.
"""DescribeCluster: the cluster's id, controller and brokers."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")


@dataclass(slots=True)
class DescribeClusterRequest:
    API_KEY: ClassVar[int] = 60
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        include_cluster_authorized_operations = reader.boolean()
        endpoint_type = reader.int8() if version >= 1 else 1
        include_fenced_brokers = reader.boolean() if version >= 2 else False
        reader.skip_tagged_fields()
        return cls(include_cluster_authorized_operations, endpoint_type, include_fenced_brokers)

    def encode(self, writer: Writer, version: int) -> None:
        writer.boolean(self.include_cluster_authorized_operations)
        if version >= 1:
            writer.int8(self.endpoint_type)
        elif self.endpoint_type != 1:
            raise unsayable("DescribeClusterRequest.endpoint_type", version)
        if version >= 2:
            writer.boolean(self.include_fenced_brokers)
        elif self.include_fenced_brokers:
            raise unsayable("DescribeClusterRequest.include_fenced_brokers", version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeClusterBroker:
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False
    is_draining: bool = False  # ours: it gives up what it has

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        broker_id = reader.int32()
        host = reader.string(True)
        port = reader.int32()
        rack = reader.nullable_string(True)
        is_fenced = reader.boolean() if version >= 2 else False
        is_draining: bool = False
        for tag in reader.tagged_fields():
            if tag == 10000:
                is_draining = reader.boolean()
        return cls(broker_id, host, port, rack, is_fenced, is_draining)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.broker_id)
        writer.string(self.host, True)
        writer.int32(self.port)
        writer.nullable_string(self.rack, True)
        if version >= 2:
            writer.boolean(self.is_fenced)
        elif self.is_fenced:
            raise unsayable("DescribeClusterBroker.is_fenced", version)
        tagged: list[tuple[int, Writer]] = []
        if self.is_draining:
            value = Writer()
            value.boolean(self.is_draining)
            tagged.append((10000, value))
        writer.tagged_fields(tagged)


@dataclass(slots=True)
class DescribeClusterResponse:
    API_KEY: ClassVar[int] = 60
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        endpoint_type = reader.int8() if version >= 1 else 1
        cluster_id = reader.string(True)
        controller_id = reader.int32()
        brokers = reader.array(DescribeClusterBroker.decode, version, True, 11)
        cluster_authorized_operations = reader.int32()
        reader.skip_tagged_fields()
        return cls(
            throttle_time_ms, error_code, error_message, endpoint_type, cluster_id, controller_id, brokers,
            cluster_authorized_operations,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        if version >= 1:
            writer.int8(self.endpoint_type)
        elif self.endpoint_type != 1:
            raise unsayable("DescribeClusterResponse.endpoint_type", version)
        writer.string(self.cluster_id, True)
        writer.int32(self.controller_id)
        writer.array(self.brokers, version, True)
        writer.int32(self.cluster_authorized_operations)
        writer.no_tagged_fields()
