"""How a member comes from what it owns to what it is to own, without two members ever owning a partition at once.

A member first gives up what it must not keep, and says so; only then does its epoch move on. What it is to get, it gets
as soon as nobody else may be reading it.

    STABLE ----------------> UNREVOKED_PARTITIONS   a new target takes partitions away from it
    STABLE ----------------> UNRELEASED_PARTITIONS  a new target gives it partitions that others still own
    UNREVOKED_PARTITIONS --> any of the three       it owns them no more, and goes on towards the newest target
    UNRELEASED_PARTITIONS -> any of the three       others let go, or there is a newer target
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.coordinators.groups.modern.members import NO_PARTITIONS, CurrentAssignment, MemberState
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.model.names import LogId


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: frozenset[LogId],
    *,
    owned: frozenset[LogId] | None,
    is_occupied: Callable[[LogId], bool],
) -> CurrentAssignment:
    """One step towards the target, or the same assignment if none is possible.

    `owned` is what the member says that it owns; None if it did not say. `is_occupied` tells whether another member
    may be reading a partition.
    """
    if current.is_reconciled_to(target_epoch):
        return current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _may_own(owned, current.pending_revocation):
        return current
    if current.state is MemberState.UNKNOWN and (owned is None or owned):
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "the member is in a state that only a later version knows; expected it to join again and own nothing",
        )
    kept = current.assigned & target
    lost = current.assigned - target
    if lost and _may_own(owned, lost):
        return replace(current, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=lost)
    missing = target - kept
    free = frozenset(log_id for log_id in missing if not is_occupied(log_id))
    return replace(
        current.at_epoch(target_epoch),
        state=MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | free,
        pending_revocation=NO_PARTITIONS,
    )


def _may_own(owned: frozenset[LogId] | None, log_ids: frozenset[LogId]) -> bool:
    return owned is None or not owned.isdisjoint(log_ids)
