"""Programs of a few lines that stand in for others, so that Spark finds them as it expects them.

A shim lies in the user's cache, under a name made of its content: processes that start together write the same thing,
and a changed one gets a new place. Where the cache cannot be written, or nothing in it may be run, a temporary
directory serves for the life of this process.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_shim(name: str, text: str, environ: Mapping[str, str]) -> Path | None:
    """The program `…/bin/<name>` with this text; None if nothing may be run from anywhere."""
    token = hashlib.sha256(text.encode()).hexdigest()[:16]
    with suppress(OSError):
        shim = _cache_directory(environ) / "headrace" / name / token / "bin" / name
        if _can_run(shim, text):
            return shim
    home = Path(tempfile.mkdtemp(prefix=f"headrace-{name}-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shim = home / "bin" / name
    return shim if _can_run(shim, text) else None


def _cache_directory(environ: Mapping[str, str]) -> Path:
    given = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # the standard says that a relative one does not count
        return Path(given)
    return Path(environ.get("HOME") or os.path.expanduser("~")) / ".cache"


def _can_run(shim: Path, text: str) -> bool:
    """Whether it can be run from there, written if need be."""
    if not _holds(shim, text):
        shim.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=shim.parent, prefix=".shim-")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            os.chmod(temporary, 0o700)
            os.replace(temporary, shim)
        except OSError:
            os.unlink(temporary)
            raise
    return os.access(shim, os.X_OK)


def _holds(shim: Path, text: str) -> bool:
    try:
        return shim.read_text() == text and os.access(shim, os.X_OK)
    except (OSError, UnicodeDecodeError):
        return False
