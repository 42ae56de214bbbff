"""UpdateFeatures (key 57). Each feature has one level: to ask for that changes nothing, anything else is refused."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.handlers.cluster.api_versions import FEATURES
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request

RESULTS_UNTIL = 1  # later, only the request as a whole has a result


class UpgradeType(IntEnum):
    """Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=words_of(UpdateFeaturesResponse))


def handle(message: UpdateFeaturesRequest, request: Request) -> UpdateFeaturesResponse:
    try:
        for update in message.feature_updates:
            _check(update, may_downgrade=_may_downgrade(update, request.version))
    except Refusal as refusal:
        return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)
    results = []
    if request.version <= RESULTS_UNTIL:
        names = dict.fromkeys(update.feature for update in message.feature_updates)
        results = [UpdatableFeatureResult(name, ErrorCode.NONE, None) for name in names]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _may_downgrade(update: FeatureUpdateKey, version: int) -> bool:
    if version == 0:
        return update.allow_downgrade
    if update.upgrade_type not in set(UpgradeType):
        raise _invalid(update, f"there is no upgrade type {update.upgrade_type}; 1 to 3 are known")
    return update.upgrade_type != UpgradeType.UPGRADE


def _check(update: FeatureUpdateKey, *, may_downgrade: bool) -> None:
    level = FEATURES.get(update.feature)
    if update.max_version_level < 0:
        raise _invalid(update, "a level is not less than 0")
    if level is None:
        raise _invalid(update, "this cluster does not support the feature")
    if update.max_version_level < level and not may_downgrade:
        raise _invalid(update, "to lower it, the upgrade type must be a safe or an unsafe downgrade")
    if update.max_version_level != level:
        raise _invalid(update, f"this cluster only supports the versions {level}-{level}")


def _invalid(update: FeatureUpdateKey, problem: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"nothing was changed: version {update.max_version_level} of feature {update.feature[:80]!r}: {problem}",
    )
