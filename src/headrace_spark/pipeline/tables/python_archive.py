"""The Python beside a pipeline's file, as one archive that Spark can take to its executors."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_DEFLATED, ZipFile

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1024 * 1024
SOURCE_BYTES_MAX: Final = 64 * MIB  # every executor is sent it; more is no longer a pipeline's own code


class SourceTooLarge(Exception):
    """There is more beside the pipeline than should be sent around."""


def python_beside(directory: Path) -> dict[str, Path]:
    """The modules and packages in a directory, by their names."""
    return {place.stem: place for place in sorted(directory.iterdir()) if _is_python(place)}


def _is_python(place: Path) -> bool:
    if place.suffix == ".py":
        return place.stem.isidentifier() and place.is_file()
    return place.name.isidentifier() and (place / "__init__.py").is_file()


def archive_of(directory: Path) -> Path:
    """Named by what is in it: what was changed since gets another. Raises SourceTooLarge."""
    files = [(str(path.relative_to(directory)), path.read_bytes()) for path in _checked(directory)]
    path = _temporary_directory() / f"headrace-{_digest(files)}.zip"
    if not path.exists():
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            for name, content in files:
                archive.writestr(name, content)
    return path


def _checked(directory: Path) -> list[Path]:
    files = sorted(file for place in python_beside(directory).values() for file in _files_of(place))
    size = sum(file.stat().st_size for file in files)
    if size > SOURCE_BYTES_MAX:
        what = f"the Python beside the pipeline, which executors need, has {size // MIB} MiB"
        raise SourceTooLarge(f"{what}; at most {SOURCE_BYTES_MAX // MIB} are sent")
    return files


def _files_of(place: Path) -> Iterator[Path]:
    """Of a package also what is not Python: it may be read by `importlib.resources`."""
    if place.is_file():
        yield place
    else:
        yield from (file for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def _digest(files: list[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


@cache
def _temporary_directory() -> Path:
    """Executors may ask for an archive as long as we live."""
    directory = Path(tempfile.mkdtemp(prefix="headrace-python-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
