# Generated from schemas/init_producer_id.schema by tools/generate_messages.py; do not edit.
"""InitProducerId: an id and epoch for an idempotent or transactional producer."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ihqh = Struct(">ihqh")
_qh = Struct(">qh")


@dataclass(slots=True)
class InitProducerIdRequest:
    API_KEY: ClassVar[int] = 22
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        transactional_id = reader.nullable_string(compact)
        transaction_timeout_ms = reader.int32()
        producer_id, producer_epoch = reader.unpack(_qh) if version >= 3 else (-1, -1)
        if compact:
            reader.skip_tagged_fields()
        return cls(transactional_id, transaction_timeout_ms, producer_id, producer_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.nullable_string(self.transactional_id, compact)
        writer.int32(self.transaction_timeout_ms)
        if version >= 3:
            writer.pack(_qh, self.producer_id, self.producer_epoch)
        elif self.producer_id != -1:
            raise unsayable("InitProducerIdRequest.producer_id", version)
        elif self.producer_epoch != -1:
            raise unsayable("InitProducerIdRequest.producer_epoch", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class InitProducerIdResponse:
    API_KEY: ClassVar[int] = 22
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms, error_code, producer_id, producer_epoch = reader.unpack(_ihqh)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, producer_id, producer_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.pack(_ihqh, self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch)
        if compact:
            writer.no_tagged_fields()
