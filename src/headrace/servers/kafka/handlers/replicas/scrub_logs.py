"""ScrubLogs (key 20021, ours): check this node's files now, without waiting for their turn; or tell how far that is.

An operator asks for it, and a follower that twice got bytes from here which do not match their CRC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation
from headrace.model.errors import ErrorCode
from headrace.servers.kafka.rights import Choice, Rights, on_cluster, words_of
from headrace.wire.messages.scrub_logs import DamagedPlace, ScrubLogsRequest, ScrubLogsResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.replicas.scrub import Scrub
    from headrace.servers.kafka.interfaces import Request


BEGIN: Final = on_cluster(Operation.ALTER)
LOOK: Final = on_cluster(Operation.DESCRIBE)
RIGHTS = Rights(
    whole=(Choice((BEGIN, LOOK), lambda message, _, __: (LOOK if message.is_question else BEGIN,)),),
    refused=words_of(ScrubLogsResponse),
)


def handle(message: ScrubLogsRequest, request: Request, view: MetadataView, scrub: Scrub) -> ScrubLogsResponse:
    if message.topic is not None and view.image.topic_named(message.topic) is None:
        return ScrubLogsResponse(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {message.topic[:200]!r} here"
        )
    if not message.is_question:
        scrub.begin(message.topic, message.partition, message.offset)
    progress = scrub.progress
    return ScrubLogsResponse(
        is_running=progress.is_running,
        checked_bytes=progress.checked_bytes,
        total_bytes=progress.total_bytes,
        damaged=[
            DamagedPlace(name.topic, name.partition, found.first_offset, found.end_offset, found.problem)
            for name, found in progress.damaged
        ],
    )
