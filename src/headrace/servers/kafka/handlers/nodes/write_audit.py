"""WriteAudit (key 20024, ours, between nodes): what was noted elsewhere, for a partition of `__audit` led here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.access.audit_topic import AuditRecord
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.write_audit import WriteAuditRequest, WriteAuditResponse

if TYPE_CHECKING:
    from headrace.broker.access.audit import Audit
    from headrace.servers.kafka.interfaces import Request


async def handle(message: WriteAuditRequest, request: Request, audit: Audit) -> WriteAuditResponse:
    records = [AuditRecord(it.timestamp_ms, it.key, it.value) for it in message.records]
    try:
        await audit.topic.append_here(message.partition_index, records)
    except Refusal as refusal:
        return WriteAuditResponse(refusal.code, refusal.message)
    return WriteAuditResponse(ErrorCode.NONE)
