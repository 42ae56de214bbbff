"""The official Kafka connector for Spark, which pip does not bring: four jars, fetched once and checked.

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

from headrace_spark.java import find_java

FETCH_S_MAX: Final = 120  # ten megabytes in all
_KEPT_IN = Path(sys.prefix) / "share" / "spark-kafka-connector"  # goes with the virtual environment


class NotToBeHad(Exception):
    """The connector cannot be fetched here; the message says why."""


@dataclass(frozen=True)
class Jar:
    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def path(self) -> Path:
        return _KEPT_IN / f"{self.name}-{self.version}.jar"

    def is_here(self) -> bool:
        return self.path.exists() and hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


# The release of Spark 4.3.0, on which our tests run, is not published everywhere yet; these jars work with it.
JARS: Final = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)


def connector_jars() -> list[Path]:
    """Where the jars lie, after fetching those that are not here yet."""
    for jar in JARS:
        if not jar.is_here():
            _fetch(jar)
    return [jar.path for jar in JARS]


def _fetch(jar: Jar) -> None:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    _KEPT_IN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ivy-") as scratch:
        command = [_java(), f"-Duser.home={scratch}", "-jar", str(ivy), "-warn", "-cache", f"{scratch}/cache"]
        command += ["-dependency", jar.organisation, jar.name, jar.version, "-notransitive", "-confs", "default"]
        command += ["-retrieve", f"{scratch}/[artifact]-[revision].[ext]"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False)
        except subprocess.TimeoutExpired as error:
            raise NotToBeHad(f"{jar.name} {jar.version} was not fetched within {FETCH_S_MAX} s") from error
        fetched = Path(scratch, jar.path.name)
        if done.returncode != 0 or not fetched.exists():
            raise NotToBeHad(f"{jar.name} {jar.version} could not be fetched: {_reason(done.stdout + done.stderr)}")
        found = hashlib.sha256(fetched.read_bytes()).hexdigest()
        if found != jar.sha256:
            raise NotToBeHad(f"{jar.name} {jar.version} is not the file that it was: its SHA-256 is {found}")
        # Under another name first: two test processes may fetch at the same moment.
        part = jar.path.with_name(f"{jar.path.name}.{Path(scratch).name}")
        shutil.move(fetched, part)
        part.replace(jar.path)


def _java() -> str:
    """The program that Spark would run."""
    home = find_java(os.environ).home or os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _reason(said: str) -> str:
    """The line of Ivy's long report that tells what happened."""
    lines = [line.strip(" :\t") for line in said.splitlines()]
    telling = [line for line in lines if "not found" in line or "Exception" in line or "refused" in line]
    return telling[-1] if telling else "Ivy gave no reason"
