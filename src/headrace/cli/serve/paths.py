"""Files that a settings file names: without a path they are beside it, wherever that was copied to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PATHS: Final = (".location", ".file")
"""How the names of settings end whose values are files."""
_REFERENCE: Final = "${"  # it says where the value is


def beside(settings: Mapping[str, str], directory: Path) -> dict[str, str]:
    """The settings of a file in that directory."""
    return {
        name: str(directory / value) if name.endswith(_PATHS) and value and not value.startswith(_REFERENCE) else value
        for name, value in settings.items()
    }
