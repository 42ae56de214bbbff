# Generated from schemas/end_txn.schema by tools/generate_messages.py; do not edit.
"""EndTxn: commit or abort."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")
_qh = Struct(">qh")
_qht = Struct(">qh?")


@dataclass(slots=True)
class EndTxnRequest:
    API_KEY: ClassVar[int] = 26
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False  # true to commit, false to abort

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        transactional_id = reader.string(compact)
        producer_id, producer_epoch, committed = reader.unpack(_qht)
        if compact:
            reader.skip_tagged_fields()
        return cls(transactional_id, producer_id, producer_epoch, committed)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.transactional_id, compact)
        writer.pack(_qht, self.producer_id, self.producer_epoch, self.committed)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class EndTxnResponse:
    API_KEY: ClassVar[int] = 26
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        throttle_time_ms, error_code = reader.unpack(_ih)
        producer_id, producer_epoch = reader.unpack(_qh) if version >= 5 else (-1, -1)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, producer_id, producer_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        if version >= 5:
            writer.pack(_qh, self.producer_id, self.producer_epoch)
        if compact:
            writer.no_tagged_fields()
