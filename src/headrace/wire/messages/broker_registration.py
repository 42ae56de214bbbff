# Generated from schemas/broker_registration.schema by tools/generate_messages.py; do not edit.
"""BrokerRegistration: a node starts and makes itself known to the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_Hh = Struct(">Hh")
_hh = Struct(">hh")
_ihq = Struct(">ihq")


@dataclass(slots=True)
class RegisteredListener:
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        host = reader.string(True)
        port, security_protocol = reader.unpack(_Hh)
        reader.skip_tagged_fields()
        return cls(name, host, port, security_protocol)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.string(self.host, True)
        writer.pack(_Hh, self.port, self.security_protocol)
        writer.no_tagged_fields()


@dataclass(slots=True)
class RegisteredFeature:
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        min_supported_version, max_supported_version = reader.unpack(_hh)
        reader.skip_tagged_fields()
        return cls(name, min_supported_version, max_supported_version)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.pack(_hh, self.min_supported_version, self.max_supported_version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class BrokerRegistrationRequest:
    API_KEY: ClassVar[int] = 62
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: TopicId = NO_TOPIC_ID
    listeners: list[RegisteredListener] = field(default_factory=list)
    features: list[RegisteredFeature] = field(default_factory=list)
    rack: str | None = ""
    is_migrating_zk_broker: bool = False
    log_dirs: list[TopicId] = field(default_factory=list)
    previous_broker_epoch: int = -1
    session_ms: int = 2000  # ours: for so long the node may be silent
    life: int = 0  # ours: how often this disk was started

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        broker_id = reader.int32()
        cluster_id = reader.string(True)
        incarnation_id = reader.uuid()
        listeners = reader.array(RegisteredListener.decode, version, True, 7)
        features = reader.array(RegisteredFeature.decode, version, True, 6)
        rack = reader.nullable_string(True)
        is_migrating_zk_broker = reader.boolean() if version >= 1 else False
        log_dirs = reader.uuids(True) if version >= 2 else []
        previous_broker_epoch = reader.int64() if version >= 3 else -1
        session_ms: int = 2000
        life: int = 0
        for tag in reader.tagged_fields():
            if tag == 10000:
                session_ms = reader.int32()
            elif tag == 10001:
                life = reader.int64()
        return cls(
            broker_id, cluster_id, incarnation_id, listeners, features, rack, is_migrating_zk_broker, log_dirs,
            previous_broker_epoch, session_ms, life,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.broker_id)
        writer.string(self.cluster_id, True)
        writer.uuid(self.incarnation_id)
        writer.array(self.listeners, version, True)
        writer.array(self.features, version, True)
        writer.nullable_string(self.rack, True)
        if version >= 1:
            writer.boolean(self.is_migrating_zk_broker)
        elif self.is_migrating_zk_broker:
            raise unsayable("BrokerRegistrationRequest.is_migrating_zk_broker", version)
        if version >= 2:
            writer.uuids(self.log_dirs, True)
        elif self.log_dirs:
            raise unsayable("BrokerRegistrationRequest.log_dirs", version)
        if version >= 3:
            writer.int64(self.previous_broker_epoch)
        elif self.previous_broker_epoch != -1:
            raise unsayable("BrokerRegistrationRequest.previous_broker_epoch", version)
        tagged: list[tuple[int, Writer]] = []
        if self.session_ms != 2000:
            value = Writer()
            value.int32(self.session_ms)
            tagged.append((10000, value))
        if self.life != 0:
            value = Writer()
            value.int64(self.life)
            tagged.append((10001, value))
        writer.tagged_fields(tagged)


@dataclass(slots=True)
class BrokerRegistrationResponse:
    API_KEY: ClassVar[int] = 62
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code, broker_epoch = reader.unpack(_ihq)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, broker_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ihq, self.throttle_time_ms, self.error_code, self.broker_epoch)
        writer.no_tagged_fields()
