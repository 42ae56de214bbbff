"""Apache Kafka's jars, which pip does not bring: fetched once, each checked against the SHA-256 that is kept here.

Ivy, which lies among Spark's own jars, knows where the world keeps its Java libraries, so nothing here has to.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from headrace_spark.java import JavaUnsuitable, find_java

FETCH_S_MAX: Final = 400  # ninety files, a hundred megabytes
LOCK: Final = Path(__file__).parent / "jars.txt"
KAFKA_VERSION: Final = "4.3.1"
_KEPT_IN = Path(sys.prefix) / "share" / f"apache-kafka-{KAFKA_VERSION}"  # goes with the virtual environment
_IVY_FILE = """<ivy-module version="2.0"><info organisation="headrace" module="peers"/>
<configurations><conf name="default"/></configurations>
<dependencies>{0}</dependencies></ivy-module>
"""
_IVY_LINE = '<dependency org="{0}" name="{1}" rev="{2}" transitive="false" conf="default->master"/>'


class NotToBeHad(Exception):
    """Java, or the jars, cannot be had here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Jar:
    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def kafka_class_path() -> str:
    """Where the jars lie, after fetching them if they are not here yet. Raises NotToBeHad."""
    if not _KEPT_IN.exists():
        _fetch(read_lock())
    return f"{_KEPT_IN}/*"


def read_lock() -> list[Jar]:
    lines = LOCK.read_text().splitlines()
    return [Jar(*line.split()) for line in lines if not line.startswith("#")]


def java() -> str:
    """The program that Spark would run. Raises NotToBeHad."""
    try:
        home = find_java(os.environ).home or os.environ.get("JAVA_HOME")
    except JavaUnsuitable as unsuitable:
        raise NotToBeHad(str(unsuitable)) from unsuitable
    return f"{home}/bin/java" if home else "java"


def _fetch(jars: list[Jar]) -> None:
    """All or nothing: the folder appears under its name once every jar in it is what it should be."""
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    _KEPT_IN.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".apache-kafka-", dir=_KEPT_IN.parent) as scratch:
        wanted = Path(scratch, "ivy.xml")
        wanted.write_text(_IVY_FILE.format("\n".join(_IVY_LINE.format(*_place(jar)) for jar in jars)))
        command = [java(), f"-Duser.home={scratch}", "-jar", str(ivy), "-warn", "-cache", f"{scratch}/cache"]
        command += ["-ivy", str(wanted), "-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False)
        except subprocess.TimeoutExpired as error:
            raise NotToBeHad(f"Apache Kafka's jars were not fetched within {FETCH_S_MAX} s") from error
        if done.returncode != 0:
            raise NotToBeHad(f"Apache Kafka's jars could not be fetched: {_reason(done.stdout + done.stderr)}")
        for jar in jars:
            _check(Path(scratch, "jars", jar.file), jar)
        _take(Path(scratch, "jars"))


def _place(jar: Jar) -> tuple[str, str, str]:
    return jar.organisation, jar.name, jar.version


def _check(path: Path, jar: Jar) -> None:
    if not path.exists():
        raise NotToBeHad(f"{jar.file} could not be fetched")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise NotToBeHad(f"{jar.file} is not the file that it was: its SHA-256 is {found}")


def _take(fetched: Path) -> None:
    try:
        fetched.rename(_KEPT_IN)
    except OSError:  # another process was as quick, with the same files
        if not _KEPT_IN.exists():
            raise
        shutil.rmtree(fetched)


def _reason(said: str) -> str:
    """The line of Ivy's long report that tells what happened."""
    lines = [line.strip(" :\t") for line in said.splitlines()]
    telling = [line for line in lines if "not found" in line or "Exception" in line or "refused" in line]
    return telling[-1] if telling else "Ivy gave no reason"
