# Generated from schemas/add_raft_voter.schema by tools/generate_messages.py; do not edit.
"""AddRaftVoter: let one more node vote on the metadata log."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")
_iiu = Struct(">ii16s")


@dataclass(slots=True)
class Listener:
    name: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        host = reader.string(True)
        port = reader.uint16()
        reader.skip_tagged_fields()
        return cls(name, host, port)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.string(self.host, True)
        writer.uint16(self.port)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AddRaftVoterRequest:
    API_KEY: ClassVar[int] = 80
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str | None = ""
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: TopicId = NO_TOPIC_ID
    listeners: list[Listener] = field(default_factory=list)
    ack_when_committed: bool = True

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        cluster_id = reader.nullable_string(True)
        timeout_ms, voter_id, voter_directory_id = reader.unpack(_iiu)
        listeners = reader.array(Listener.decode, version, True, 5)
        ack_when_committed = reader.boolean() if version >= 1 else True
        reader.skip_tagged_fields()
        return cls(cluster_id, timeout_ms, voter_id, voter_directory_id, listeners, ack_when_committed)

    def encode(self, writer: Writer, version: int) -> None:
        writer.nullable_string(self.cluster_id, True)
        writer.pack(_iiu, self.timeout_ms, self.voter_id, self.voter_directory_id)
        writer.array(self.listeners, version, True)
        if version >= 1:
            writer.boolean(self.ack_when_committed)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AddRaftVoterResponse:
    API_KEY: ClassVar[int] = 80
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()
