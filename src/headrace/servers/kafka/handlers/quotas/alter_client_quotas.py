"""AlterClientQuotas (key 49): set and remove quotas, entity by entity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.access.quotas.entity import EntityPart
from headrace.metadata.commands.quota_commands import EntityEdits, QuotaEdit, alter_quotas
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import Each, Rights, on_cluster
from headrace.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityResult,
    EntryData,
    EntryResult,
)

if TYPE_CHECKING:
    from headrace.access.quotas.entity import QuotaEntity
    from headrace.broker.membership.commands import Commands
    from headrace.metadata.decisions.decision import Outcome
    from headrace.servers.kafka.interfaces import Request


def _refused(entry: EntryData, refusal: Refusal) -> EntryResult:
    entity = [EntityResult(part.entity_type, part.entity_name) for part in entry.entity]
    return EntryResult(refusal.code, refusal.message, entity)


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER_CONFIGS),), each=(Each("entries", "entries", _refused),))


async def handle(
    message: AlterClientQuotasRequest,
    request: Request,
    commands: Commands,
) -> AlterClientQuotasResponse:
    wanted = [_wanted(entry) for entry in message.entries]
    outcomes = await commands.submit_each(
        [""] * len(wanted), lambda image: alter_quotas(image, wanted, message.validate_only)
    )
    entries = [_result(*pair) for pair in zip(message.entries, outcomes, strict=True)]
    return AlterClientQuotasResponse(entries=entries)


def _wanted(entry: EntryData) -> EntityEdits:
    entity = tuple(EntityPart(part.entity_type, part.entity_name) for part in entry.entity)
    return EntityEdits(entity, tuple(QuotaEdit(op.key, None if op.remove else op.value) for op in entry.ops))


def _result(entry: EntryData, outcome: Outcome[QuotaEntity]) -> EntryResult:
    entity = [EntityResult(part.entity_type, part.entity_name) for part in entry.entity]
    if isinstance(outcome.result, Refusal):
        return EntryResult(outcome.result.code, outcome.result.message, entity)
    return EntryResult(ErrorCode.NONE, None, entity)
