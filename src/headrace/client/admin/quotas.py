"""What an operator asks about quotas: which there are, set, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.access.quotas.entity import EntityPart, QuotaEntity
from headrace.client.errors import refuse_unless_ok

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.access.quotas.filters import FilterPart
    from headrace.client.connections.cluster import Cluster


class EntityQuotas(NamedTuple):
    """Whom quotas are for, and Kafka's name and value of each."""

    entity: QuotaEntity
    values: dict[str, float]


class QuotaAdmin:
    """How much clients may use."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_quotas(self, parts: Sequence[FilterPart] = (), *, is_strict: bool = False) -> list[EntityQuotas]:
        """Of the entities that have all that `parts` name; with `is_strict`, and nothing else."""
        from headrace.wire.messages.describe_client_quotas import (  # noqa: PLC0415
            ComponentData,
            DescribeClientQuotasRequest,
            DescribeClientQuotasResponse,
        )

        request = DescribeClientQuotasRequest(
            [ComponentData(part.kind, part.match, part.name) for part in parts], is_strict
        )

        async def attempt() -> list[EntityQuotas]:
            answer = await self._cluster.ask_controller(request, DescribeClientQuotasResponse)
            refuse_unless_ok(answer.error_code, "quotas", answer.error_message)
            return [
                EntityQuotas(
                    tuple(EntityPart(part.entity_type, part.entity_name) for part in entry.entity),
                    {quota.key: quota.value for quota in entry.values},
                )
                for entry in answer.entries or ()
            ]

        return await self._cluster.retry(attempt)

    async def alter(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set what has a value, remove what has none: all of it, or nothing."""
        from headrace.wire.messages.alter_client_quotas import (  # noqa: PLC0415
            AlterClientQuotasRequest,
            AlterClientQuotasResponse,
            EntityData,
            EntryData,
            OpData,
        )

        edits = [
            OpData(key, 0.0, remove=True) if value is None else OpData(key, value) for key, value in changes.items()
        ]
        entry = EntryData([EntityData(part.kind, part.name) for part in entity], edits)
        request = AlterClientQuotasRequest([entry], validate_only)

        async def attempt() -> None:
            answer = await self._cluster.ask_controller(request, AlterClientQuotasResponse)
            for result in answer.entries:
                refuse_unless_ok(result.error_code, "quotas", result.error_message)

        await self._cluster.retry(attempt)
