"""Start Spark so that it works from plain pip: a Java that fits, workers on this very Python, and no noise.

Whatever the user has decided stays decided: a session that is active, a program that came through `spark-submit`,
PYSPARK_SUBMIT_ARGS, `spark-defaults.conf`, a log4j2 file. Ours are defaults for the rest.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from headrace_spark import worker_python
from headrace_spark.java import JavaUnsuitable, find_java
from headrace_spark.shims import write_shim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
LOCAL_DEFAULTS = {
    # A laptop's host name often leads nowhere, or to an address that a firewall guards.
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    # A port that nobody asked for; two pipelines on one machine would already want two.
    "spark.ui.enabled": "false",
}
DEFAULTS = {
    # It draws over whatever we print, and fills logs when stderr is none of a terminal's.
    "spark.ui.showConsoleProgress": "false",
}


class ConnectUnsuitable(JavaUnsuitable):
    """Spark Connect leaves Java to a server, and what was asked for needs one beside it."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"{address} is Spark Connect, where pipelines, export and import do not run: they need a driver of their "
            "own, on a master such as local[*], spark://host:7077 or yarn"
        )


def refuse_connect(master: str, environ: Mapping[str, str]) -> None:
    """Raises ConnectUnsuitable if `master`, or SPARK_REMOTE, is an address of Spark Connect.

    A program of one's own reads and writes topics through Spark Connect all the same.
    """
    for address in (master, environ.get("SPARK_REMOTE", "")):
        if address.startswith("sc://"):
            raise ConnectUnsuitable(address)


def start_session(app_name: str, *, master: str = "local[*]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or a new one that works from plain pip.

        spark = start_session("orders", conf={"spark.sql.shuffle.partitions": "4"})
        orders = spark.readStream.format("headrace").option("subscribe", "orders") …

    `master` counts unless the program was submitted to another already. `conf` are settings of Spark's; they win over
    the defaults here, and are set on an active session too. Stop the session yourself.

    Raises JavaUnsuitable if there is no Java that Spark could run on, and ConnectUnsuitable for a `master` of Spark
    Connect.
    """
    builder = SparkSession.builder
    if SparkSession.getActiveSession() is None:
        refuse_connect(master, os.environ)
        prepare_environment(os.environ, master)
        builder = builder.appName(app_name)
        if not is_submitted(os.environ):
            builder = builder.master(master)
        for name, value in default_settings(os.environ, master, conf or {}).items():
            builder = builder.config(name, value)
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_local(master: str) -> bool:
    """Whether the workers run on this machine: `local`, `local[2]`, `local-cluster[2,1,1024]`."""
    return master.startswith("local")


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Whether `spark-submit`, or PYSPARK_SUBMIT_ARGS, has chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in environ or "spark.master" in _submitted_settings(environ)


def prepare_environment(environ: MutableMapping[str, str], master: str) -> None:
    """Lead Spark to a Java, and its workers to this Python. Raises JavaUnsuitable."""
    if "PYSPARK_GATEWAY_PORT" in environ:
        return  # the JVM runs already
    java = find_java(environ)
    if java.home is not None:
        environ["JAVA_HOME"] = str(java.home)
    if java.note:
        log.warning("%s", java.note)
    if "PYSPARK_PYTHON" not in environ:
        is_here = is_local(_submitted_settings(environ).get("spark.master", master))
        environ["PYSPARK_PYTHON"] = str(_python_here(environ) if is_here else _python_everywhere())


def _python_here(environ: Mapping[str, str]) -> str | Path:
    """Of workers on this machine. A shim, as what is run from a checkout has no program installed."""
    text = _PYTHON_SHIM.format(python=shlex.quote(sys.executable), module=worker_python.__name__)
    return write_shim("python", text, environ) or sys.executable


def _python_everywhere() -> Path:
    """Of workers on other machines: they have what we have, at the same place.

    Spark's own guess is whatever `python3` is on their PATH, and on ours for the driver's part of a source: hardly
    ever the environment that headrace is installed in.
    """
    installed = Path(sys.executable).with_name(worker_python.PROGRAM)
    return installed if installed.is_file() else Path(sys.executable)


_PYTHON_SHIM = """#!/bin/sh
# Python for Spark's workers. Written by headrace; it may be deleted at any time.
exec {python} -m {module} "$@"
"""


def default_settings(environ: Mapping[str, str], master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Our defaults, less what is decided elsewhere."""
    if "PYSPARK_GATEWAY_PORT" in environ:
        return {}
    submitted = _submitted_settings(environ)
    defaults = dict(DEFAULTS)
    if is_local(submitted.get("spark.master", master)):
        defaults |= LOCAL_DEFAULTS
    if _log_settings_are_ours(environ):
        defaults["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_log_settings_file().as_uri()}"
    decided = {*submitted, *_site_settings(environ), *conf}
    return {name: value for name, value in defaults.items() if name not in decided}


def _submitted_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What PYSPARK_SUBMIT_ARGS says by `--master` and `--conf`."""
    found: dict[str, str] = {}
    words = iter(shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", "")))
    for word in words:
        option, sign, value = word.partition("=")
        if option in {"--master", "--conf", "-c"}:
            value = value if sign else next(words, "")
            name, _, setting = ("spark.master", "=", value) if option == "--master" else value.partition("=")
            found[name] = setting
    return found


def _site_settings(environ: Mapping[str, str]) -> Iterator[str]:
    """The names of the settings in the site's `spark-defaults.conf`, if there is one."""
    for directory in _conf_directories(environ):
        try:
            lines = (directory / "spark-defaults.conf").read_text().splitlines()
        except OSError:
            continue
        yield from (re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in lines if not _is_blank(line))


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _log_settings_are_ours(environ: Mapping[str, str]) -> bool:
    if not _log_settings_file().is_file():
        return False  # this package lies in an archive, where a JVM cannot read it
    return not any((directory / "log4j2.properties").is_file() for directory in _conf_directories(environ))


def _log_settings_file() -> Path:
    return Path(str(resources.files("headrace_spark") / "log4j2.properties"))


def _conf_directories(environ: Mapping[str, str]) -> list[Path]:
    if directory := environ.get("SPARK_CONF_DIR"):
        return [Path(directory)]
    return [Path(home) / "conf" for home in [environ.get("SPARK_HOME")] if home]
