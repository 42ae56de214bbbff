"""The data directory of a node that does not run: to look at without a change, or to have for oneself."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.terminal.complaints import NOT_FOUND, Complaint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.rescue.survivor import Survivor
    from headrace.model.names import LogId
    from headrace.runtime.disk import SystemDisk
    from headrace.runtime.overlay_disk import OverlayDisk
    from headrace.storage.integrity.salvage import Survey


@contextmanager
def untouched(directory: Path, *, is_ours: bool = False) -> Iterator[OverlayDisk]:
    from headrace.runtime.overlay_disk import OverlayDisk

    try:
        disk = OverlayDisk(directory, is_ours=is_ours)
    except BlockingIOError as error:
        raise Complaint(str(error.strerror), "`headrace cluster status` shows a node that runs") from error
    try:
        yield disk
    finally:
        disk.close()


@contextmanager
def held(directory: Path) -> Iterator[SystemDisk]:
    """For us alone: no node starts on it meanwhile."""
    from headrace.broker.membership.identity import IDENTITY_FILE
    from headrace.runtime.disk import SystemDisk

    if not (directory / IDENTITY_FILE).exists():
        raise _no_data_directory(directory)
    _expect_owner(directory)
    try:
        disk = SystemDisk(directory)
    except BlockingIOError as error:
        raise Complaint(str(error.strerror)) from error
    try:
        yield disk
    finally:
        disk.close()


def _expect_owner(directory: Path) -> None:
    """What is written belongs to who writes it, and is for him alone: a node of another account could not read it."""
    from headrace.broker.membership.identity import IDENTITY_FILE

    owner = (directory / IDENTITY_FILE).stat().st_uid
    if owner != os.geteuid():
        raise Complaint(
            f"{directory} belongs to the user with id {owner}, who could not read what you write",
            f"run it as that user: sudo -u '#{owner}' headrace rescue new-cluster …",
        )


def _no_data_directory(directory: Path) -> Complaint:
    return Complaint(
        f"{directory} is no data directory of a node: it has no meta.properties",
        "name the --data-dir of the node that is left",
        exit_code=NOT_FOUND,
    )


def look_at_directory(disk: OverlayDisk) -> Survivor:
    from headrace.broker.membership.identity import WrongIdentity
    from headrace.broker.rescue.survivor import NoDataDirectory, look_at

    try:
        return look_at(disk)
    except NoDataDirectory as missing:
        raise _no_data_directory(Path(disk.location)) from missing
    except WrongIdentity as wrong:
        raise Complaint(str(wrong)) from wrong


def survey_of(disk: OverlayDisk, survivor: Survivor, verify: bool) -> dict[LogId, Survey]:
    from headrace.broker.rescue.survivor import survey
    from headrace.cli.terminal.progress import progress_bar

    total = sum(log.size for log in survivor.logs.values())
    with progress_bar("reading", total if verify else None) as on_read:
        return survey(disk, survivor, is_thorough=verify, on_read=on_read)
