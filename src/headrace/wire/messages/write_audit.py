# Generated from schemas/write_audit.schema by tools/generate_messages.py; do not edit.
"""WriteAudit: what a node has to tell of what people did there, for a partition of __audit that another one leads. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class AuditRecord:
    timestamp_ms: int = 0
    key: bytes = b""
    value: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        timestamp_ms = reader.int64()
        key = reader.blob(True)
        value = reader.blob(True)
        reader.skip_tagged_fields()
        return cls(timestamp_ms, key, value)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int64(self.timestamp_ms)
        writer.blob(self.key, True)
        writer.blob(self.value, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class WriteAuditRequest:
    API_KEY: ClassVar[int] = 20024
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    partition_index: int = 0
    records: list[AuditRecord] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index = reader.int32()
        records = reader.array(AuditRecord.decode, version, True, 11)
        reader.skip_tagged_fields()
        return cls(partition_index, records)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.partition_index)
        writer.array(self.records, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class WriteAuditResponse:
    API_KEY: ClassVar[int] = 20024
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()
