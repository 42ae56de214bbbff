# Generated from schemas/allocate_producer_ids.schema by tools/generate_messages.py; do not edit.
"""AllocateProducerIds: a node asks the controller for a block of producer ids."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ihqi = Struct(">ihqi")
_iq = Struct(">iq")


@dataclass(slots=True)
class AllocateProducerIdsRequest:
    API_KEY: ClassVar[int] = 67
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0
    broker_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        broker_id, broker_epoch = reader.unpack(_iq)
        reader.skip_tagged_fields()
        return cls(broker_id, broker_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iq, self.broker_id, self.broker_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AllocateProducerIdsResponse:
    API_KEY: ClassVar[int] = 67
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code, producer_id_start, producer_id_len = reader.unpack(_ihqi)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, producer_id_start, producer_id_len)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ihqi, self.throttle_time_ms, self.error_code, self.producer_id_start, self.producer_id_len)
        writer.no_tagged_fields()
