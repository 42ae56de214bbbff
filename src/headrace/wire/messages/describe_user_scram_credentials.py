# Generated from schemas/describe_user_scram_credentials.schema by tools/generate_messages.py; do not edit.
"""DescribeUserScramCredentials: which users have SCRAM passwords, without the passwords."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_bi = Struct(">bi")
_ih = Struct(">ih")


@dataclass(slots=True)
class UserName:
    name: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        reader.skip_tagged_fields()
        return cls(name)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest:
    API_KEY: ClassVar[int] = 50
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    users: list[UserName] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        users = reader.nullable_array(UserName.decode, version, True, 2)
        reader.skip_tagged_fields()
        return cls(users)

    def encode(self, writer: Writer, version: int) -> None:
        writer.nullable_array(self.users, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class CredentialInfo:
    mechanism: int = 0
    iterations: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        mechanism, iterations = reader.unpack(_bi)
        reader.skip_tagged_fields()
        return cls(mechanism, iterations)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_bi, self.mechanism, self.iterations)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeUserScramCredentialsResult:
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        user = reader.string(True)
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        credential_infos = reader.array(CredentialInfo.decode, version, True, 6)
        reader.skip_tagged_fields()
        return cls(user, error_code, error_message, credential_infos)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.user, True)
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.array(self.credential_infos, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse:
    API_KEY: ClassVar[int] = 50
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        results = reader.array(DescribeUserScramCredentialsResult.decode, version, True, 6)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, error_message, results)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.array(self.results, version, True)
        writer.no_tagged_fields()
