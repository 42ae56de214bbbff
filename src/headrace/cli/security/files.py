"""Files that hold secrets: the owner's only from the first moment, never half there, and none is overwritten by
accident.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headrace.cli.terminal.complaints import Complaint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OWNERS_DIRECTORY: Final = 0o700
OWNERS_FILE: Final = 0o600


def new_directory(path: Path) -> None:
    """Make it, or take one that is empty. Complaint if it holds anything."""
    path.mkdir(mode=OWNERS_DIRECTORY, parents=True, exist_ok=True)
    found = sorted(path.iterdir())
    if found:
        raise Complaint(
            f"{path} holds {found[0].name} already, and nothing is overwritten",
            f"give a --dir that is new; `headrace security renew --dir {path}` makes new certificates for nodes",
        )
    path.chmod(OWNERS_DIRECTORY)


def write_new(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Raises FileExistsError rather than overwrite anything."""
    for name, content in contents.items():
        _write(directory / name, content)
    _sync(directory)


def replace(path: Path, content: bytes) -> None:
    """Whoever reads it finds the old content, or the new."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)  # of a run that was stopped
    _write(draft, content)
    draft.replace(path)
    _sync(path.parent)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNERS_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
