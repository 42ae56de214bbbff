# Generated from schemas/broker_heartbeat.schema by tools/generate_messages.py; do not edit.
"""BrokerHeartbeat: a node tells the controller that it is there, and hears whether it may serve."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_ihttt = Struct(">ih???")
_iqqtt = Struct(">iqq??")


@dataclass(slots=True)
class BrokerHeartbeatRequest:
    API_KEY: ClassVar[int] = 63
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[TopicId] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down = reader.unpack(_iqqtt)
        offline_log_dirs: list[TopicId] = []
        for tag in reader.tagged_fields():
            if tag == 0 and version >= 1:
                offline_log_dirs = reader.uuids(True)
        return cls(broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down, offline_log_dirs)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(
            _iqqtt, self.broker_id, self.broker_epoch, self.current_metadata_offset, self.want_fence,
            self.want_shut_down,
        )
        tagged: list[tuple[int, Writer]] = []
        if version >= 1 and self.offline_log_dirs:
            value = Writer()
            value.uuids(self.offline_log_dirs, True)
            tagged.append((0, value))
        writer.tagged_fields(tagged)
        if version < 1 and self.offline_log_dirs:
            raise unsayable("BrokerHeartbeatRequest.offline_log_dirs", version)


@dataclass(slots=True)
class BrokerHeartbeatResponse:
    API_KEY: ClassVar[int] = 63
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down = reader.unpack(_ihttt)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(
            _ihttt, self.throttle_time_ms, self.error_code, self.is_caught_up, self.is_fenced, self.should_shut_down,
        )
        writer.no_tagged_fields()
