# Generated from schemas/alter_user_scram_credentials.schema by tools/generate_messages.py; do not edit.
"""AlterUserScramCredentials: set and remove SCRAM passwords, salted by the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_bi = Struct(">bi")


@dataclass(slots=True)
class ScramCredentialDeletion:
    name: str = ""
    mechanism: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        mechanism = reader.int8()
        reader.skip_tagged_fields()
        return cls(name, mechanism)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.int8(self.mechanism)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ScramCredentialUpsertion:
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        mechanism, iterations = reader.unpack(_bi)
        salt = reader.blob(True)
        salted_password = reader.blob(True)
        reader.skip_tagged_fields()
        return cls(name, mechanism, iterations, salt, salted_password)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.pack(_bi, self.mechanism, self.iterations)
        writer.blob(self.salt, True)
        writer.blob(self.salted_password, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AlterUserScramCredentialsRequest:
    API_KEY: ClassVar[int] = 51
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        deletions = reader.array(ScramCredentialDeletion.decode, version, True, 3)
        upsertions = reader.array(ScramCredentialUpsertion.decode, version, True, 9)
        reader.skip_tagged_fields()
        return cls(deletions, upsertions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.deletions, version, True)
        writer.array(self.upsertions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AlterUserScramCredentialsResult:
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        user = reader.string(True)
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(user, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.user, True)
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AlterUserScramCredentialsResponse:
    API_KEY: ClassVar[int] = 51
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32()
        results = reader.array(AlterUserScramCredentialsResult.decode, version, True, 5)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, results)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.array(self.results, version, True)
        writer.no_tagged_fields()
