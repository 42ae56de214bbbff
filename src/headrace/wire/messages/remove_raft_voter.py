# Generated from schemas/remove_raft_voter.schema by tools/generate_messages.py; do not edit.
"""RemoveRaftVoter: a node no longer votes on the metadata log."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_iu = Struct(">i16s")
_ih = Struct(">ih")


@dataclass(slots=True)
class RemoveRaftVoterRequest:
    API_KEY: ClassVar[int] = 81
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str | None = ""
    voter_id: int = 0
    voter_directory_id: TopicId = NO_TOPIC_ID

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        cluster_id = reader.nullable_string(True)
        voter_id, voter_directory_id = reader.unpack(_iu)
        reader.skip_tagged_fields()
        return cls(cluster_id, voter_id, voter_directory_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.nullable_string(self.cluster_id, True)
        writer.pack(_iu, self.voter_id, self.voter_directory_id)
        writer.no_tagged_fields()


@dataclass(slots=True)
class RemoveRaftVoterResponse:
    API_KEY: ClassVar[int] = 81
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
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
