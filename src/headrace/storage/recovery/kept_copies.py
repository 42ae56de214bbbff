"""Bytes that recovery cuts off are kept in files beside the log if whole batches are among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.files import layout
from headrace.storage.integrity.cut_copies import CUTS_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage.recovery.job import RecoveryJob


def keep_copy(job: RecoveryJob, stem: str, store: Callable[[str], None]) -> None:
    """`store` puts it at the path that it is given. The newest few stay."""
    older = [name for name in job.disk.list(job.directory) if name.endswith(layout.CUT)]
    for name in older[: max(0, len(older) - CUTS_KEPT + 1)]:
        job.disk.remove(f"{job.directory}/{name}")
    keep_one_of_many(job, stem, store)


def keep_one_of_many(job: RecoveryJob, stem: str, store: Callable[[str], None]) -> None:
    """As `keep_copy`, and all of them stay."""
    path = stem + layout.CUT
    store(path)
    job.report.cut_kept_in.append(path)
