"""What of a pipeline's directory is sent to executors."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

pytest.importorskip("pyspark")

from headrace_spark.pipeline.tables import python_archive
from headrace_spark.pipeline.tables.python_archive import SourceTooLarge, archive_of, python_beside

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    files = {
        "orders.toml": "",
        "shout.py": "import helpers",
        "helpers.py": "",
        "not-a-name.py": "",
        "steps/__init__.py": "",
        "steps/deep/__init__.py": "",
        "steps/deep/words.txt": "one",
        "steps/__pycache__/words.pyc": "compiled",
        "checkpoints/orders/0": "much",
        "checkpoints/left_here.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_modules_and_packages_are_sent_and_nothing_else(directory: Path) -> None:
    assert sorted(python_beside(directory)) == ["helpers", "shout", "steps"]
    with ZipFile(archive_of(directory)) as archive:
        assert sorted(archive.namelist()) == [
            "helpers.py",
            "shout.py",
            "steps/__init__.py",
            "steps/deep/__init__.py",
            "steps/deep/words.txt",
        ]


def test_an_archive_is_named_by_what_is_in_it(directory: Path) -> None:
    """Spark refuses a second file of the same name, and workers keep what they have imported."""
    first = archive_of(directory)
    assert archive_of(directory) == first
    (directory / "helpers.py").write_text("changed = True")
    assert archive_of(directory) != first


def test_a_directory_with_too_much_in_it_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_archive, "SOURCE_BYTES_MAX", 10)
    with pytest.raises(SourceTooLarge, match="the Python beside the pipeline, which executors need"):
        archive_of(directory)
