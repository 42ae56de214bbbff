"""ApiVersions (key 18): what is served, and who asks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.apis import advertised_versions
from headrace.servers.kafka.rights import open_to_all
from headrace.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request

SOFTWARE_FROM = 3
FEATURES = {"group.version": 1, "transaction.version": 2}
"""What clients may count on beyond the versions of single APIs: KIP-848's groups and KIP-890's transactions.
Each has one level, which no request can change."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


RIGHTS = open_to_all("it says how to ask, and everybody has to know that first")


def handle(message: ApiVersionsRequest, request: Request) -> ApiVersionsResponse:
    if request.version >= SOFTWARE_FROM:
        for text in (message.client_software_name, message.client_software_version):
            if _SOFTWARE.fullmatch(text) is None:
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=_ranges(to_nodes=request.server.is_for_nodes),
        supported_features=[SupportedFeatureKey(name, level, level) for name, level in FEATURES.items()],
        finalized_features_epoch=0,
        finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in FEATURES.items()],
    )


def unsupported_version() -> ApiVersionsResponse:
    """For a version from the future: the client reads from this what it can use instead."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_ranges())


def _ranges(*, to_nodes: bool = False) -> list[ApiVersion]:
    return [ApiVersion(key, low, high) for key, low, high in advertised_versions(to_nodes=to_nodes)]
