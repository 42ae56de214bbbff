# Generated from schemas/add_offsets_to_txn.schema by tools/generate_messages.py; do not edit.
"""AddOffsetsToTxn: a transaction is about to commit offsets of a group."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")
_qh = Struct(">qh")


@dataclass(slots=True)
class AddOffsetsToTxnRequest:
    API_KEY: ClassVar[int] = 25
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        transactional_id = reader.string(compact)
        producer_id, producer_epoch = reader.unpack(_qh)
        group_id = reader.string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(transactional_id, producer_id, producer_epoch, group_id)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.transactional_id, compact)
        writer.pack(_qh, self.producer_id, self.producer_epoch)
        writer.string(self.group_id, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AddOffsetsToTxnResponse:
    API_KEY: ClassVar[int] = 25
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        throttle_time_ms, error_code = reader.unpack(_ih)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        if compact:
            writer.no_tagged_fields()
